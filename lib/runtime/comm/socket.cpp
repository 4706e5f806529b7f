#include "runtime/comm/socket.h"

#include <netinet/in.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace autopar::runtime {

namespace {

/// Whether the socket is ready before the deadline.
bool wait_for(const Socket& socket, short events, Deadline deadline) {
  Network& network = socket.network();
  pollfd waiting{.fd = socket.handle(), .events = events, .revents = 0};
  while (network.poll({&waiting, 1}, deadline) <= 0) {
    if (network.now() >= deadline) return false;
  }
  return true;
}

/// `move(part)` sends or receives some, as Socket does.
template <typename Byte, typename Move>
Moved move_all(const Socket& socket, std::span<Byte> bytes, short events, Deadline deadline,
               const Move& move) {
  while (!bytes.empty()) {
    const ssize_t moved = move({const_cast<std::byte*>(bytes.data()), bytes.size()});
    if (moved > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(moved));
    } else if (moved == -EAGAIN) {
      if (!wait_for(socket, events, deadline)) return Moved::not_yet;
    } else {
      return Moved::closed;
    }
  }
  return Moved::all;
}

}  // namespace

SocketAddress local_address(const Socket& socket) {
  return socket.network().local_address(socket.handle());
}
SocketAddress peer_address(const Socket& socket) {
  return socket.network().peer_address(socket.handle());
}

Socket listen_at(Network& network, const Endpoint& endpoint) {
  int error = 0;
  for (const SocketAddress& address : listening_addresses(endpoint, resolve(endpoint))) {
    const int made = network.listen(address);
    if (made >= 0) return {network, made};
    error = -made;
    if (error == EADDRINUSE)
      fail("rank 0 cannot listen at {}: the port is in use, by another program or another rank 0",
           to_string(endpoint));
  }
  fail("rank 0 cannot listen at {}: {}; give an address of the machine that rank 0 runs on",
       to_string(endpoint), std::strerror(error));
}

Socket listen_beside(const Socket& connected) {
  SocketAddress address = local_address(connected);
  if (address.storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port = 0;
  } else {
    reinterpret_cast<sockaddr_in&>(address.storage).sin_port = 0;
  }
  const int made = connected.network().listen(address);
  if (made < 0)
    fail("cannot listen for other ranks at {}: {}", to_string(address), std::strerror(-made));
  return {connected.network(), made};
}

Socket accept_from(const Socket& listener) {
  const int accepted = listener.network().accept(listener.handle());
  return accepted < 0 ? Socket() : Socket(listener.network(), accepted);
}

Connected connect_to(Network& network, const SocketAddress& address, Deadline deadline) {
  const int made = network.connect(address);
  if (made < 0) return {.socket = {}, .error = -made};
  Connected connected{.socket = Socket(network, made), .error = 0};
  const bool in_time = wait_for(connected.socket, POLLOUT, deadline);
  connected.error = in_time ? network.connect_error(made) : ETIMEDOUT;
  if (connected.error != 0) connected.socket = {};
  return connected;
}

Moved send_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline) {
  return move_all(socket, bytes, POLLOUT, deadline, [&](const iovec& rest) {
    return socket.send({&rest, 1});
  });
}

Moved receive_all(const Socket& socket, std::span<std::byte> bytes, Deadline deadline) {
  return move_all(socket, bytes, POLLIN, deadline, [&](const iovec& rest) {
    return socket.receive({&rest, 1});
  });
}

bool is_closed_by_peer(const Socket& socket) {
  std::byte next{};
  const ssize_t received = socket.network().peek(socket.handle(), {&next, 1});
  return received == 0 || (received < 0 && received != -EAGAIN);
}

}  // namespace autopar::runtime
