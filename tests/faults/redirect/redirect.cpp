// Loaded before the C library (LD_PRELOAD), it makes connections to this machine's addresses go by
// way of the proxy at port AUTOPAR_PROXY_PORT (tests/e2e/proxy.py): the proxy first gets the port
// that was wanted, in two bytes of network order, and then all else.

#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

using Connect = int (*)(int, const sockaddr*, socklen_t);

bool is_of_this_machine(const sockaddr* address) {
  if (address->sa_family != AF_INET) return false;
  sockaddr_in wanted{};
  std::memcpy(&wanted, address, sizeof wanted);
  return (ntohl(wanted.sin_addr.s_addr) >> 24) == 127;
}

}  // namespace

extern "C" int connect(int socket, const sockaddr* address, socklen_t length) {
  static const auto next = reinterpret_cast<Connect>(dlsym(RTLD_NEXT, "connect"));
  const char* const port = std::getenv("AUTOPAR_PROXY_PORT");
  if (port == nullptr || !is_of_this_machine(address)) return next(socket, address, length);
  sockaddr_in wanted{};
  std::memcpy(&wanted, address, sizeof wanted);
  sockaddr_in proxy = wanted;
  proxy.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  // The proxy takes connections at once, so that nothing is lost by waiting.
  const int flags = fcntl(socket, F_GETFL);
  fcntl(socket, F_SETFL, flags & ~O_NONBLOCK);
  int result = next(socket, reinterpret_cast<const sockaddr*>(&proxy), sizeof proxy);
  if (result == 0 && send(socket, &wanted.sin_port, sizeof wanted.sin_port, MSG_NOSIGNAL) !=
                         static_cast<ssize_t>(sizeof wanted.sin_port)) {
    errno = ECONNREFUSED;
    result = -1;
  }
  const int error = errno;
  fcntl(socket, F_SETFL, flags);
  errno = error;
  return result;
}
