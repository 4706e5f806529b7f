#pragma once

#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/comm/communicator.h"
#include "runtime/comm/rendezvous.h"
#include "runtime/comm/signs_of_life.h"

namespace autopar::runtime {

/// A rank's connections, shared by the world and its subgroups, and by the threads that are in a
/// collective, send and receive. They tell the others of failures, that this rank works or waits,
/// and that it is done.
class Connections {
 public:
  /// `timeout`: how long ranks wait for one that gives no sign.
  Connections(int rank, std::vector<PeerSockets> peers, Network& network,
              std::chrono::milliseconds timeout);
  Connections(const Connections&) = delete;
  Connections& operator=(const Connections&) = delete;
  /// The others may still be at work, but not with this rank. It has failed if an error unwinds it.
  ~Connections();

  int rank() const { return rank_; }
  Network& network() const { return network_; }
  const Socket& data(int peer) const { return peers_[at(peer)].data; }
  const Socket& messages(int peer) const { return peers_[at(peer)].messages; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  bool has_left(int peer) const { return signs_.has_left(peer); }
  const SignsOfLife& signs() const { return signs_; }

  /// Tells all others that this rank works or waits. False where they have been told a short while
  /// ago.
  bool tell(Sign sign);
  /// A rank whose data comes is well.
  void hear_from(int peer) { signs_.hear(peer, Sign::works, network_.now()); }

  /// Throws if any rank of the world is known to have failed; `what` is given up then.
  void check(const char* what);
  /// Waits until one of `sockets` is ready or a rank is known to have failed, which throws; false
  /// at the deadline.
  bool wait(const char* what, std::vector<pollfd> sockets, Deadline deadline);

  /// The connection to a rank whose data is needed has ended.
  [[noreturn]] void lose(const char* what, int peer);
  /// Tells all others which rank failed and throws.
  [[noreturn]] void give_up(int failed_rank, const std::string& why);
  void fail_all(int failed_rank) noexcept;

 private:
  static constexpr int nobody = -1;

  void tell_all(std::int32_t notice) const noexcept;
  std::vector<pollfd> watched() const;
  void hear_notices(const char* what);
  [[noreturn]] void throw_failure(const char* what, int failed_rank) const;

  int rank_;
  Network& network_;
  std::vector<PeerSockets> peers_;
  std::chrono::milliseconds timeout_;
  SignsOfLife signs_;
  std::mutex hearing_;  ///< held while notices are taken from the sockets
  std::atomic<SteadyTime> last_told_{};
  std::atomic<SteadyTime> last_work_told_{};
  std::atomic<int> failed_rank_ = nobody;  ///< `abort` may come from another thread
  Socket failure_;                         ///< an alarm, rung once a rank is known to have failed
};

}  // namespace autopar::runtime
