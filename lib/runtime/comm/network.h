#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace autopar::runtime {

using Deadline = std::chrono::steady_clock::time_point;

/// An address as the system has it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

std::string to_string(const SocketAddress& address);  ///< 10.0.0.1:29500, [::1]:29500

/// Where ranks meet, as a user names it.
struct Endpoint {
  std::string host;  ///< a name or an address, IPv6 without brackets
  std::uint16_t port = 0;
};

std::string to_string(const Endpoint& endpoint);

/// Throws Error for a host that is not known.
std::vector<SocketAddress> resolve(const Endpoint& endpoint);

/// Where rank 0 listens. Its machine may know its own name as 127.0.1.1, which others do not reach:
/// then at all of its addresses. `resolved`: the endpoint's.
std::vector<SocketAddress> listening_addresses(const Endpoint& endpoint,
                                               std::vector<SocketAddress> resolved);

/// Which end of a connection.
enum class Side { listens, connects };

/// A key that both ends of a connection have.
using Key = std::array<std::byte, 32>;

/// What ranks need of the machine to reach each other: TCP and a clock. The system's is one; tests
/// have another one, whose connections break when they say so. Sockets go by handles, which are
/// closed with close(); only poll() and sleep_until() wait. What can fail returns -errno then.
class Network {
 public:
  virtual ~Network() = default;

  virtual Deadline now() = 0;
  virtual void sleep_until(Deadline time) = 0;

  virtual int listen(const SocketAddress& address) = 0;
  virtual int accept(int listener) = 0;
  /// Begins to connect: the socket is ready for output when connect_error() knows how it ended.
  virtual int connect(const SocketAddress& address) = 0;
  virtual int connect_error(int socket) = 0;  ///< an errno, 0 where it is connected
  virtual void close(int handle) noexcept = 0;
  virtual SocketAddress local_address(int socket) = 0;
  virtual SocketAddress peer_address(int socket) = 0;

  /// Bytes that were moved; -EAGAIN where none can be now.
  virtual ssize_t send(int socket, std::span<const iovec> parts) noexcept = 0;
  /// The same; 0 where the peer has closed the connection.
  virtual ssize_t receive(int socket, std::span<const iovec> parts) = 0;
  /// The same of bytes that stay to be received.
  virtual ssize_t peek(int socket, std::span<std::byte> bytes) = 0;

  /// Whether encrypt() does that.
  virtual bool encrypts() const { return false; }
  /// From here on, what goes over a connection is encrypted, and nobody can change it who does not
  /// have the key. Both ends say so, between the same bytes.
  virtual void encrypt(int /*socket*/, Side /*side*/, const Key& /*key*/) {}

  /// Bytes that the peer's machine does not have yet; 0 where the connection has ended.
  virtual std::int64_t unsent(int socket) noexcept = 0;

  /// A handle that is ready for input once it has been rung, for threads of this process.
  virtual int make_alarm() = 0;
  virtual void ring(int alarm) noexcept = 0;

  /// As the system's poll: how many handles are ready, 0 at the deadline, or early.
  virtual int poll(std::span<pollfd> handles, Deadline deadline) = 0;
};

Network& system_network();

}  // namespace autopar::runtime
