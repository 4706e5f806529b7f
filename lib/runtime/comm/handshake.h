#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/comm/authentication.h"
#include "runtime/comm/socket.h"

namespace autopar::runtime {

// Messages between ranks are C++ objects' bytes: all machines must be of one architecture. A rank
// that connects says hello; the one that listens answers with a proof that it knows the secret; and
// the first concludes with a proof of its own, which is welcomed. Both proofs are of all that was
// said, with a nonce of each side's, so that none can be used again, elsewhere or by the other
// side. Where the network encrypts, the welcome and all behind it are encrypted with a key that is
// made as the proofs are.

template <typename T>
requires std::has_unique_object_representations_v<T> std::span<const std::byte> bytes_of(
    const T& object) {
  return std::as_bytes(std::span(&object, 1));
}

template <typename T>
requires std::has_unique_object_representations_v<T> std::span<std::byte> writable_bytes_of(
    T& object) {
  return std::as_writable_bytes(std::span(&object, 1));
}

/// What the first message of either side begins with, in all versions.
struct Signature {
  std::array<char, 12> magic = {'a', 'u', 't', 'o', 'p', 'a', 'r', ' ', 'r', 'a', 'n', 'k'};
  std::uint32_t version = 4;
  bool operator==(const Signature&) const = default;
};

/// What a connection is for: collectives' tensors, or messages between two ranks.
enum class Channel : std::uint32_t { data, messages };
inline constexpr std::size_t channels = 2;

/// A SocketAddress as it is sent.
struct WireAddress {
  std::uint16_t family = 0;
  std::uint16_t port = 0;
  std::uint32_t scope = 0;
  std::array<std::byte, 16> host{};
};

WireAddress wire_address(const SocketAddress& address);
/// An address of no family, to which nobody can connect, where the bytes are none.
SocketAddress socket_address(const WireAddress& address);

using BundleDigest = std::array<char, 16>;

/// From the rank that connects.
struct Hello {
  Signature signature;
  Channel channel = Channel::data;
  std::int32_t rank = 0;
  std::int32_t to = 0;
  std::int32_t size = 0;
  std::uint32_t is_encrypted = 0;
  std::uint32_t unused = 0;
  std::uint64_t meeting = 0;  ///< its number, once rank 0 has given it
  BundleDigest bundle_digest{};
  WireAddress listens_at;  ///< at the rendezvous
  Nonce nonce{};
};

/// From the rank that listens; behind it, its proof.
struct Answer {
  Signature signature;
  std::int32_t rank = 0;
  std::uint32_t is_encrypted = 0;
  BundleDigest bundle_digest{};
  Nonce nonce{};
};

struct ProvenAnswer {
  Answer answer;
  Proof proof{};
};

/// From the rank that listens, once it has taken the connection.
using Welcome = std::array<char, 8>;
inline constexpr Welcome welcome = {'w', 'e', 'l', 'c', 'o', 'm', 'e', ' '};

/// What a rank says of itself.
struct Introduction {
  int rank = 0;
  int size = 1;
  BundleDigest bundle_digest{};
  Secret secret;
  std::uint64_t meeting = 0;
};

/// A connection over which a few small messages go, without waiting.
class SmallMessages {
 public:
  explicit SmallMessages(Socket socket) : socket_(std::move(socket)) {}

  void send(std::span<const std::byte> bytes) {
    unsent_.insert(unsent_.end(), bytes.begin(), bytes.end());
  }
  /// Sends what can be sent and fills `place` from its byte `filled` on, as far as that is
  /// possible; false where the connection has ended.
  bool move(std::span<std::byte> place, std::size_t& filled);

  pollfd awaited() const {
    const auto events = static_cast<short>(unsent_.empty() ? POLLIN : POLLIN | POLLOUT);
    return {.fd = socket_.handle(), .events = events, .revents = 0};
  }
  const Socket& socket() const { return socket_; }
  bool has_sent_all() const { return unsent_.empty(); }
  /// What goes from here on, where the network does that; all before it has been sent.
  void encrypt(Side side, const Key& key) {
    socket_.network().encrypt(socket_.handle(), side, key);
  }
  Socket take() { return std::move(socket_); }

 private:
  Socket socket_;
  std::vector<std::byte> unsent_;
};

/// The side that listens: somebody who has connected and not yet proven who it is.
class AcceptedHandshake {
 public:
  AcceptedHandshake(Socket socket, const Introduction& self);

  enum class State {
    under_way,
    proven,
    closed,
    no_rank,
    other_version,
    encrypts,
    encrypts_not,
    unproven
  };
  State advance();

  pollfd awaited() const { return messages_.awaited(); }
  const Hello& hello() const { return hello_; }
  const std::string& address() const { return address_; }
  Deadline since() const { return since_; }
  bool has_said_hello() const { return has_answered_; }
  Socket take() { return messages_.take(); }

 private:
  State hear_hello();

  const Introduction* self_;
  SmallMessages messages_;
  std::string address_;
  Deadline since_;
  Hello hello_;
  std::size_t heard_ = 0;  ///< bytes of the hello
  bool has_answered_ = false;
  ProvenAnswer answer_;
  Proof proof_{};
  std::size_t proven_ = 0;  ///< bytes of the proof
  bool has_proven_ = false;
};

/// The side that connects.
class Dialing {
 public:
  /// What is done once there is a connection, to tell where this rank listens.
  using Listen = std::function<WireAddress(const Socket& connected)>;

  Dialing(Network& network, const SocketAddress& address, const Introduction& self, int to,
          Channel channel, Listen listen = {});

  /// `unreachable`: nobody listens there, or no socket can be made; error() tells which.
  enum class State {
    under_way,
    proven,
    unreachable,
    closed,
    no_rank,
    other_version,
    encrypts,
    encrypts_not,
    unproven
  };
  State advance();

  pollfd awaited() const;
  bool is_connected() const { return is_connected_; }
  int error() const { return error_; }
  const Answer& answer() const { return answer_.answer; }  ///< unless it is under way
  Socket take() { return messages_.take(); }

 private:
  State hear_answer();
  State hear_welcome();

  const Introduction& self_;
  Listen listen_;
  Hello hello_;
  SmallMessages messages_;
  int error_ = 0;
  bool is_connected_ = false;
  bool has_concluded_ = false;
  bool is_to_encrypt_ = false;  ///< once all that is not encrypted has been sent
  ProvenAnswer answer_;
  std::size_t heard_ = 0;  ///< bytes of the answer
  Welcome welcome_{};
  std::size_t welcomed_ = 0;  ///< bytes of it
};

/// What is wrong with who listens where another rank should, for a message; "" where nothing is.
std::string reason_of(Dialing::State state, int error);

}  // namespace autopar::runtime
