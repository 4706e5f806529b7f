#include "runtime/comm/socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/error.h"

namespace autopar::runtime {

namespace {

void set_option(int descriptor, int level, int option, int value) {
  setsockopt(descriptor, level, option, &value, sizeof value);
}

/// IPv6 addresses have colons of their own.
std::string with_port(const std::string& host, const std::string& port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

const sockaddr* as_sockaddr(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}

/// `ask` is getsockname or getpeername.
SocketAddress address_by(decltype(getsockname)* ask, const Socket& socket) {
  SocketAddress address{.storage = {}, .length = sizeof address.storage};
  ask(socket.descriptor(), reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  return address;
}

Socket new_socket(int family) {
  const int descriptor = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return descriptor < 0 ? Socket() : Socket(descriptor);
}

/// Not open where that is impossible; errno tells why.
Socket listen_on(const SocketAddress& address) {
  Socket made = new_socket(address.storage.ss_family);
  // A port of connections that have just ended is free.
  set_option(made.descriptor(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (bind(made.descriptor(), as_sockaddr(address), address.length) != 0 ||
      listen(made.descriptor(), SOMAXCONN) != 0) {
    return {};
  }
  return made;
}

/// Whether the socket is ready before the deadline.
bool wait_for(const Socket& socket, short events, Deadline deadline) {
  pollfd waiting{.fd = socket.descriptor(), .events = events, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&waiting, 1, milliseconds_until(deadline));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

/// `move(bytes)` sends or receives some, as send and recv do.
template <typename Byte, typename Move>
Moved move_all(const Socket& socket, std::span<Byte> bytes, short events, Deadline deadline,
               const Move& move) {
  while (!bytes.empty()) {
    const ssize_t moved = move(bytes);
    if (moved > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(moved));
    } else if (moved < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (!wait_for(socket, events, deadline)) return Moved::not_yet;
    } else {
      return Moved::closed;
    }
  }
  return Moved::all;
}

}  // namespace

int milliseconds_until(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000'000));
}

Socket::Socket(int descriptor) : Descriptor(descriptor) {
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

Descriptor::~Descriptor() {
  if (is_open()) close(descriptor_);
}

std::string to_string(const SocketAddress& address) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (getnameinfo(as_sockaddr(address), address.length, host.data(), host.size(), port.data(),
                  port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown address";
  }
  return with_port(host.data(), port.data());
}

SocketAddress local_address(const Socket& socket) { return address_by(getsockname, socket); }
SocketAddress peer_address(const Socket& socket) { return address_by(getpeername, socket); }

std::string to_string(const Endpoint& endpoint) {
  return with_port(endpoint.host, std::to_string(endpoint.port));
}

std::vector<SocketAddress> resolve(const Endpoint& endpoint) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &wanted, &found);
  if (error != 0) {
    fail("host '{}' is not known: {}; give the name or address of rank 0's machine", endpoint.host,
         gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
    address.length = each->ai_addrlen;
  }
  return addresses;
}

Socket listen_at(const Endpoint& endpoint) {
  for (const SocketAddress& address : resolve(endpoint)) {
    if (Socket made = listen_on(address); made.is_open()) return made;
    if (errno == EADDRINUSE)
      fail("rank 0 cannot listen at {}: the port is in use, by another program or another rank 0",
           to_string(endpoint));
  }
  fail("rank 0 cannot listen at {}: {}; give an address of the machine that rank 0 runs on",
       to_string(endpoint), std::strerror(errno));
}

Socket listen_beside(const Socket& connected) {
  SocketAddress address = local_address(connected);
  if (address.storage.ss_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address.storage).sin6_port = 0;
  } else {
    reinterpret_cast<sockaddr_in&>(address.storage).sin_port = 0;
  }
  Socket made = listen_on(address);
  if (!made.is_open())
    fail("cannot listen for other ranks at {}: {}", to_string(address), std::strerror(errno));
  return made;
}

Socket accept_from(const Socket& listener) {
  const int descriptor =
      accept4(listener.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  return descriptor < 0 ? Socket() : Socket(descriptor);
}

std::optional<Socket> connect_to(const SocketAddress& address, Deadline deadline) {
  Socket made = new_socket(address.storage.ss_family);
  int error = 0;
  if (connect(made.descriptor(), as_sockaddr(address), address.length) != 0) error = errno;
  if (error == EINPROGRESS) {
    socklen_t length = sizeof error;
    const bool in_time = wait_for(made, POLLOUT, deadline);
    getsockopt(made.descriptor(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (!in_time) error = ETIMEDOUT;
  }
  // Where nobody listens at a port that the system also gives to those who connect, a socket may
  // meet itself.
  if (error == 0 && to_string(local_address(made)) == to_string(address)) error = ECONNREFUSED;
  if (error == 0) return made;
  errno = error;
  return std::nullopt;
}

Moved send_all(const Socket& socket, std::span<const std::byte> bytes, Deadline deadline) {
  return move_all(socket, bytes, POLLOUT, deadline, [&](std::span<const std::byte> rest) {
    return send(socket.descriptor(), rest.data(), rest.size(), MSG_NOSIGNAL);
  });
}

Moved receive_all(const Socket& socket, std::span<std::byte> bytes, Deadline deadline) {
  return move_all(socket, bytes, POLLIN, deadline, [&](std::span<std::byte> rest) {
    return recv(socket.descriptor(), rest.data(), rest.size(), 0);
  });
}

bool is_closed_by_peer(const Socket& socket) {
  std::byte next{};
  const ssize_t received = recv(socket.descriptor(), &next, 1, MSG_PEEK);
  return received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace autopar::runtime
