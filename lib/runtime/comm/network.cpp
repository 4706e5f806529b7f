#include "runtime/comm/network.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "base/error.h"

namespace autopar::runtime {

namespace {

/// IPv6 addresses have colons of their own.
std::string with_port(const std::string& host, const std::string& port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

const sockaddr* as_sockaddr(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr*>(&address.storage);
}

/// Whether a host is told by its address; of IPv6 ones a scope may follow.
bool is_number(const std::string& host) {
  in6_addr place{};
  const std::string without_scope = host.substr(0, host.find('%'));
  return inet_pton(AF_INET, host.c_str(), &place) == 1 ||
         inet_pton(AF_INET6, without_scope.c_str(), &place) == 1;
}

bool is_loopback(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_addr);
  const auto& place = reinterpret_cast<const sockaddr_in&>(address.storage);
  return ntohl(place.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

template <typename Result>
Result or_error(Result result) {
  return result < 0 ? static_cast<Result>(-errno) : result;
}

void set_option(int descriptor, int level, int option, int value) {
  setsockopt(descriptor, level, option, &value, sizeof value);
}

/// Sends small messages at once, and asks after a silent machine, so that one that is gone closes
/// its connections in half a minute.
int set_up(int descriptor) {
  if (descriptor < 0) return -errno;
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 4);
  return descriptor;
}

int new_socket(const SocketAddress& address) {
  return set_up(socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

/// `ask` is getsockname or getpeername.
SocketAddress address_by(decltype(getsockname)* ask, int socket) {
  SocketAddress address{.storage = {}, .length = sizeof address.storage};
  ask(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.length);
  return address;
}

msghdr message_of(std::span<const iovec> parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  return message;
}

/// Milliseconds to a deadline, as poll takes them: rounded up, 0 when it has passed.
int milliseconds_until(Deadline deadline) {
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000'000));
}

class SystemNetwork final : public Network {
 public:
  Deadline now() override { return std::chrono::steady_clock::now(); }
  void sleep_until(Deadline time) override { std::this_thread::sleep_until(time); }

  int listen(const SocketAddress& address) override {
    const int made = new_socket(address);
    if (made < 0) return made;
    // A port of connections that have just ended is free.
    set_option(made, SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(made, as_sockaddr(address), address.length) == 0 && ::listen(made, SOMAXCONN) == 0)
      return made;
    const int error = errno;
    close(made);
    return -error;
  }

  int accept(int listener) override {
    return set_up(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  }

  int connect(const SocketAddress& address) override {
    const int made = new_socket(address);
    if (made < 0) return made;
    if (::connect(made, as_sockaddr(address), address.length) == 0 || errno == EINPROGRESS)
      return made;
    const int error = errno;
    close(made);
    return -error;
  }

  int connect_error(int socket) override {
    int error = 0;
    socklen_t length = sizeof error;
    if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    // Where nobody listens at a port that the system also gives to those who connect, a socket may
    // meet itself.
    if (error == 0 && to_string(local_address(socket)) == to_string(peer_address(socket)))
      error = ECONNREFUSED;
    return error;
  }

  void close(int handle) noexcept override { ::close(handle); }

  SocketAddress local_address(int socket) override { return address_by(getsockname, socket); }
  SocketAddress peer_address(int socket) override { return address_by(getpeername, socket); }

  ssize_t send(int socket, std::span<const iovec> parts) noexcept override {
    const msghdr message = message_of(parts);
    return again([&] { return sendmsg(socket, &message, MSG_NOSIGNAL); });
  }
  ssize_t receive(int socket, std::span<const iovec> parts) override {
    msghdr message = message_of(parts);
    return again([&] { return recvmsg(socket, &message, 0); });
  }
  ssize_t peek(int socket, std::span<std::byte> bytes) override {
    return again([&] { return recv(socket, bytes.data(), bytes.size(), MSG_PEEK); });
  }

  std::int64_t unsent(int socket) noexcept override {
    int bytes = 0;
    pollfd ended{.fd = socket, .events = 0, .revents = 0};
    const bool has_ended = ::poll(&ended, 1, 0) != 0;
    return has_ended || ioctl(socket, SIOCOUTQ, &bytes) != 0 ? 0 : bytes;
  }

  int make_alarm() override { return or_error(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)); }
  void ring(int alarm) noexcept override {
    const std::uint64_t once = 1;
    [[maybe_unused]] const ssize_t written = write(alarm, &once, sizeof once);
  }

  int poll(std::span<pollfd> handles, Deadline deadline) override {
    return ::poll(handles.data(), handles.size(), milliseconds_until(deadline));
  }

 private:
  /// Calls that a signal has ended are made again.
  template <typename Call>
  static ssize_t again(const Call& call) noexcept {
    ssize_t result = 0;
    do {
      result = call();
    } while (result < 0 && errno == EINTR);
    return or_error(result);
  }
};

}  // namespace

std::string to_string(const SocketAddress& address) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (getnameinfo(as_sockaddr(address), address.length, host.data(), host.size(), port.data(),
                  port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown address";
  }
  return with_port(host.data(), port.data());
}

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

std::vector<SocketAddress> listening_addresses(const Endpoint& endpoint,
                                               std::vector<SocketAddress> resolved) {
  const bool is_meant = is_number(endpoint.host) || endpoint.host == "localhost";
  if (is_meant || std::ranges::none_of(resolved, is_loopback)) return resolved;
  SocketAddress any;
  auto& place = reinterpret_cast<sockaddr_in&>(any.storage);
  place = {.sin_family = AF_INET,
           .sin_port = htons(endpoint.port),
           .sin_addr = {.s_addr = htonl(INADDR_ANY)},
           .sin_zero = {}};
  any.length = sizeof place;
  return {any};
}

Network& system_network() {
  static SystemNetwork network;
  return network;
}

}  // namespace autopar::runtime
