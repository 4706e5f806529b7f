#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/comm/socket.h"

namespace autopar::runtime {

// Messages between ranks are C++ objects' bytes: all machines must be of one architecture.

template <typename T>
requires std::is_trivially_copyable_v<T> std::span<const std::byte> bytes_of(const T& object) {
  return std::as_bytes(std::span(&object, 1));
}

template <typename T>
requires std::is_trivially_copyable_v<T> std::span<std::byte> writable_bytes_of(T& object) {
  return std::as_writable_bytes(std::span(&object, 1));
}

/// What the first message on a connection begins with, in all versions.
struct Signature {
  std::array<char, 12> magic = {'a', 'u', 't', 'o', 'p', 'a', 'r', ' ', 'r', 'a', 'n', 'k'};
  std::uint32_t version = 3;
  bool operator==(const Signature&) const = default;
};

enum class Channel : std::uint32_t { rendezvous, data, messages, control };

/// The first message of a rank that connects.
struct Handshake {
  Signature signature;
  Channel channel = Channel::rendezvous;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint64_t meeting = 0;  ///< its number, once rank 0 has given it
  std::array<char, 16> bundle_digest{};
  SocketAddress listens_at;  ///< at the rendezvous
};

/// A connection and its first message, of which one of another version has the signature alone.
struct IncomingPeer {
  Socket socket;
  Handshake handshake;
  std::string address;
  std::size_t received = 0;  ///< bytes of the handshake
};

/// Accepts connections at a socket and reads their handshakes, none waiting for others.
class Listener {
 public:
  explicit Listener(Socket socket) : socket_(std::move(socket)) {}

  /// The next peer whose handshake has come; nothing at the deadline.
  std::optional<IncomingPeer> next(Deadline deadline) {
    do {
      for (Socket made = accept_from(socket_); made.is_open(); made = accept_from(socket_)) {
        std::string address = to_string(peer_address(made));
        unfinished_.push_back({std::move(made), {}, std::move(address)});
      }
      if (auto peer = take_peer()) return peer;
    } while (wait_for_input(deadline));
    return std::nullopt;
  }

  SocketAddress address() const { return local_address(socket_); }
  /// The address of the last who sent something else, and was turned away; may be empty.
  const std::string& stranger() const { return stranger_; }

 private:
  std::optional<IncomingPeer> take_peer();
  bool wait_for_input(Deadline deadline) const;

  Socket socket_;
  std::vector<IncomingPeer> unfinished_;
  std::string stranger_;
};

}  // namespace autopar::runtime
