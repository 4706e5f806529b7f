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
struct Hello {
  Signature signature;
  Channel channel = Channel::rendezvous;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint64_t meeting = 0;  ///< its number, once rank 0 has given it
  std::array<char, 16> bundle_digest{};
  SocketAddress listens_at;  ///< at the rendezvous
};

/// Who has come. One of another version has said no more than its signature.
struct Guest {
  Socket socket;
  Hello hello;
  std::string address;
};

/// Takes connections at a listening socket and reads their first messages, none waiting for others.
class Reception {
 public:
  explicit Reception(Socket listener) : listener_(std::move(listener)) {}

  /// The next rank to have said hello; nothing at the deadline.
  std::optional<Guest> next(Deadline deadline);

  SocketAddress address() const { return local_address(listener_); }
  /// The last who came and spoke as no rank does; may be empty. They are turned away.
  const std::string& stranger() const { return stranger_; }

 private:
  struct Entering {
    Guest guest;
    std::size_t received = 0;
  };

  void open_door();
  std::optional<Guest> take_guest();
  bool wait_for_somebody(Deadline deadline) const;

  Socket listener_;
  std::vector<Entering> entering_;
  std::string stranger_;
};

}  // namespace autopar::runtime
