#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/comm/handshake.h"

namespace autopar::runtime {

/// A connection of a rank that has proven that it knows the secret.
struct IncomingPeer {
  Socket socket;
  Hello hello;
  std::string address;
};

/// Those who came and were turned away.
struct Strangers {
  int count = 0;
  std::string last;  ///< who the last was and why, for a message
};

/// Accepts connections at a socket and lets them prove who they are, none waiting for others. So
/// many connections may be unproven at a time, and for so long, that strangers keep nobody out.
class Listener {
 public:
  Listener(Socket socket, std::shared_ptr<const Introduction> self)
      : socket_(std::move(socket)), self_(std::move(self)) {}

  /// The next peer that has proven who it is, if one has by now. Throws Error where this process
  /// has too many open files.
  std::optional<IncomingPeer> take();
  /// The same; nothing at the deadline.
  std::optional<IncomingPeer> next(Deadline deadline);
  /// What take() waits for.
  void append_awaited(std::vector<pollfd>& sockets) const;

  SocketAddress address() const { return local_address(socket_); }
  const Strangers& strangers() const { return strangers_; }

 private:
  void accept_all();
  void hear_unproven();
  void turn_away_oldest();
  void turn_away(const AcceptedHandshake& stranger, const std::string& why);

  Socket socket_;
  std::shared_ptr<const Introduction> self_;
  std::deque<AcceptedHandshake> unproven_;  ///< the oldest first
  std::deque<IncomingPeer> proven_;         ///< that nobody has taken yet
  Strangers strangers_;
};

}  // namespace autopar::runtime
