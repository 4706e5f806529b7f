/// The C library's calls on sockets.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>

#include "fault_plan.h"

using autopar::faults::end_if_torn;
using autopar::faults::Fault;
using autopar::faults::Kind;
using autopar::faults::next_fault;
using autopar::faults::next_function;

namespace {

template <typename Call>
auto whole_call(Kind kind, const Call& call) -> decltype(call()) {
  const Fault fault = next_fault(kind);
  if (fault.error != 0) {
    errno = fault.error;
    return -1;
  }
  const auto result = call();
  end_if_torn(fault);
  return result;
}

/// Moves up to `bytes` bytes by `call(bytes)`.
template <typename Call>
ssize_t part_call(Kind kind, std::size_t bytes, const Call& call) {
  const Fault fault = next_fault(kind);
  if (fault.error != 0) {
    errno = fault.error;
    return -1;
  }
  const ssize_t moved = call(fault.part_of(bytes));
  end_if_torn(fault);
  return moved;
}

}  // namespace

extern "C" {

int socket(int domain, int type, int protocol) noexcept {
  static const auto real = next_function<int(int, int, int)>("socket");
  return whole_call(Kind::connect, [&] { return real(domain, type, protocol); });
}

int bind(int file, const struct sockaddr* address, socklen_t bytes) noexcept {
  static const auto real = next_function<int(int, const struct sockaddr*, socklen_t)>("bind");
  return whole_call(Kind::connect, [&] { return real(file, address, bytes); });
}

int connect(int file, const struct sockaddr* address, socklen_t bytes) {
  static const auto real = next_function<int(int, const struct sockaddr*, socklen_t)>("connect");
  return whole_call(Kind::connect, [&] { return real(file, address, bytes); });
}

int accept(int file, struct sockaddr* address, socklen_t* bytes) {
  static const auto real = next_function<int(int, struct sockaddr*, socklen_t*)>("accept");
  return whole_call(Kind::connect, [&] { return real(file, address, bytes); });
}

int accept4(int file, struct sockaddr* address, socklen_t* bytes, int flags) {
  static const auto real = next_function<int(int, struct sockaddr*, socklen_t*, int)>("accept4");
  return whole_call(Kind::connect, [&] { return real(file, address, bytes, flags); });
}

ssize_t send(int file, const void* data, size_t bytes, int flags) {
  static const auto real = next_function<ssize_t(int, const void*, size_t, int)>("send");
  return part_call(Kind::send, bytes,
                   [&](std::size_t part) { return real(file, data, part, flags); });
}

ssize_t sendto(int file, const void* data, size_t bytes, int flags, const struct sockaddr* to,
               socklen_t to_bytes) {
  static const auto real =
      next_function<ssize_t(int, const void*, size_t, int, const struct sockaddr*, socklen_t)>(
          "sendto");
  return part_call(Kind::send, bytes,
                   [&](std::size_t part) { return real(file, data, part, flags, to, to_bytes); });
}

/// A message of several parts is never short.
ssize_t sendmsg(int file, const struct msghdr* message, int flags) {
  static const auto real = next_function<ssize_t(int, const struct msghdr*, int)>("sendmsg");
  return part_call(Kind::send, 0, [&](std::size_t) { return real(file, message, flags); });
}

ssize_t recv(int file, void* data, size_t bytes, int flags) {
  static const auto real = next_function<ssize_t(int, void*, size_t, int)>("recv");
  return part_call(Kind::receive, bytes,
                   [&](std::size_t part) { return real(file, data, part, flags); });
}

ssize_t recvfrom(int file, void* data, size_t bytes, int flags, struct sockaddr* from,
                 socklen_t* from_bytes) {
  static const auto real =
      next_function<ssize_t(int, void*, size_t, int, struct sockaddr*, socklen_t*)>("recvfrom");
  return part_call(Kind::receive, bytes, [&](std::size_t part) {
    return real(file, data, part, flags, from, from_bytes);
  });
}

ssize_t recvmsg(int file, struct msghdr* message, int flags) {
  static const auto real = next_function<ssize_t(int, struct msghdr*, int)>("recvmsg");
  return part_call(Kind::receive, 0, [&](std::size_t) { return real(file, message, flags); });
}

int poll(struct pollfd* files, nfds_t count, int milliseconds) {
  static const auto real = next_function<int(struct pollfd*, nfds_t, int)>("poll");
  return whole_call(Kind::poll, [&] { return real(files, count, milliseconds); });
}

int ppoll(struct pollfd* files, nfds_t count, const struct timespec* timeout,
          const sigset_t* signals) {
  static const auto real =
      next_function<int(struct pollfd*, nfds_t, const struct timespec*, const sigset_t*)>("ppoll");
  return whole_call(Kind::poll, [&] { return real(files, count, timeout, signals); });
}

int epoll_wait(int file, struct epoll_event* events, int most, int milliseconds) {
  static const auto real = next_function<int(int, struct epoll_event*, int, int)>("epoll_wait");
  return whole_call(Kind::poll, [&] { return real(file, events, most, milliseconds); });
}

}  // extern "C"
