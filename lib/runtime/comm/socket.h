#pragma once

#include <optional>
#include <utility>

#include "runtime/comm/network.h"

namespace autopar::runtime {

/// A socket, or an alarm, of a network, closed when it goes. It never waits.
class Socket {
 public:
  Socket() = default;
  Socket(Network& network, int handle) : network_(&network), handle_(handle) {}  ///< takes it over
  Socket(Socket&& other) noexcept
      : network_(other.network_), handle_(std::exchange(other.handle_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(network_, other.network_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Socket() {
    if (is_open()) network_->close(handle_);
  }

  Network& network() const { return *network_; }
  int handle() const { return handle_; }
  bool is_open() const { return handle_ >= 0; }

  ssize_t send(std::span<const iovec> parts) const noexcept {
    return network_->send(handle_, parts);
  }
  ssize_t receive(std::span<const iovec> parts) const { return network_->receive(handle_, parts); }

 private:
  Network* network_ = nullptr;
  int handle_ = -1;
};

SocketAddress local_address(const Socket& socket);
SocketAddress peer_address(const Socket& socket);

/// A listening socket. Throws Error where the host is another machine or the port is in use.
Socket listen_at(Network& network, const Endpoint& endpoint);
/// A listening socket at a free port of the address that `connected` has on this machine.
Socket listen_beside(const Socket& connected);

/// The next connection that waits at a listening socket; closed if none does.
Socket accept_from(const Socket& listener);

/// A connection, or the errno of refused, unreachable or too late.
struct Connected {
  Socket socket;
  int error = 0;
};
Connected connect_to(Network& network, const SocketAddress& address, Deadline deadline);

/// How a transfer ended.
enum class Moved { all, not_yet, closed };

/// Moves all bytes, waiting until the deadline.
Moved send_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline);
Moved receive_all(const Socket& socket, std::span<std::byte> bytes, Deadline deadline);

/// Whether the peer has closed a connection on which nothing is expected from it.
bool is_closed_by_peer(const Socket& socket);

}  // namespace autopar::runtime
