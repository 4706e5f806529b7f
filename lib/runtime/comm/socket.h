#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace autopar::runtime {

using Deadline = std::chrono::steady_clock::time_point;

/// Milliseconds to a deadline, as poll takes them: rounded up, 0 when it has passed.
int milliseconds_until(Deadline deadline);

/// A file descriptor, closed when it goes.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}  ///< takes it over
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Descriptor();

  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

/// A TCP socket, closed when it goes. All of them are non-blocking, send small messages at once,
/// and ask after a silent machine, so that one that is gone closes its connections in half a
/// minute.
class Socket : public Descriptor {
 public:
  Socket() = default;
  explicit Socket(int descriptor);  ///< takes it over and sets it up
};

/// An address as the system has it; plain bytes, so that machines of one kind may send it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

std::string to_string(const SocketAddress& address);  ///< 10.0.0.1:29500, [::1]:29500
SocketAddress local_address(const Socket& socket);
SocketAddress peer_address(const Socket& socket);

/// Where ranks meet, as a user names it.
struct Endpoint {
  std::string host;  ///< a name or an address, IPv6 without brackets
  std::uint16_t port = 0;
};

std::string to_string(const Endpoint& endpoint);

/// Throws Error for a host that is not known.
std::vector<SocketAddress> resolve(const Endpoint& endpoint);

/// A listening socket. Throws Error where the host is another machine or the port is in use.
Socket listen_at(const Endpoint& endpoint);
/// A listening socket at a free port of the address that `connected` has on this machine.
Socket listen_beside(const Socket& connected);

/// The next connection that waits at a listening socket; closed if none does.
Socket accept_from(const Socket& listener);
/// Nothing when refused, unreachable or too late; errno tells which.
std::optional<Socket> connect_to(const SocketAddress& address, Deadline deadline);

/// How a transfer ended.
enum class Moved { all, not_yet, closed };

/// Moves all bytes, waiting until the deadline.
Moved send_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline);
Moved receive_all(const Socket& socket, std::span<std::byte> bytes, Deadline deadline);

/// Whether the peer has closed a connection on which nothing is expected from it.
bool is_closed_by_peer(const Socket& socket);

}  // namespace autopar::runtime
