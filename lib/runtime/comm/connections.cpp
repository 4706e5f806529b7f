#include "runtime/comm/connections.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>

#include "base/error.h"
#include "runtime/comm/communicator.h"

namespace autopar::runtime {

namespace {

/// What goes over control connections: the rank that failed, or what the sender does.
using Notice = std::int32_t;
constexpr Notice done = -1;
constexpr Notice waiting = -2;
constexpr Notice working = -3;

}  // namespace

Connections::Connections(int rank, std::vector<PeerSockets> peers, Network& network,
                         std::chrono::milliseconds timeout)
    : rank_(rank),
      network_(network),
      peers_(std::move(peers)),
      timeout_(timeout),
      signs_(static_cast<int>(peers_.size())),
      failure_(network, network.make_alarm()) {
  if (!failure_.is_open()) fail("rank {}: {}", rank_, std::strerror(-failure_.handle()));
}

Connections::~Connections() {
  if (failed_rank_ == nobody) tell_all(std::uncaught_exceptions() > 0 ? rank_ : done);
}

bool Connections::tell(Sign sign) {
  const SteadyTime now = network_.now();
  const SteadyTime last = sign == Sign::works ? last_work_told_ : last_told_;
  if (now - last < sign_interval(timeout_)) return false;
  if (sign == Sign::works) last_work_told_ = now;
  last_told_ = now;
  if (failed_rank_ == nobody) tell_all(sign == Sign::works ? working : waiting);
  return true;
}

void Connections::check(const char* what) {
  if (failed_rank_ != nobody) throw_failure(what, failed_rank_);
  std::vector<pollfd> controls = watched();
  if (network_.poll(controls, network_.now()) > 0) hear_notices(what);
}

bool Connections::wait(const char* what, std::vector<pollfd> sockets, Deadline deadline) {
  const auto of_data = static_cast<std::ptrdiff_t>(sockets.size());
  const std::vector<pollfd> controls = watched();
  sockets.insert(sockets.end(), controls.begin(), controls.end());
  const int ready = network_.poll(sockets, deadline);
  const auto is_ready = [](const pollfd& each) { return each.revents != 0; };
  if (ready > 0 && std::any_of(sockets.begin() + of_data, sockets.end(), is_ready))
    hear_notices(what);
  return ready != 0 || network_.now() < deadline;
}

void Connections::lose(const char* what, int peer) {
  check(what);
  if (has_left(peer))
    give_up(peer, fmt::format("rank {}: {} needs rank {}, which is done already: were all ranks "
                              "started with the same options?",
                              rank_, what, peer));
  give_up(peer, fmt::format("rank {}: {} lost rank {}: its process has ended, or the connection is "
                            "broken",
                            rank_, what, peer));
}

void Connections::give_up(int failed_rank, const std::string& why) {
  fail_all(failed_rank);
  throw Error(why);
}

void Connections::fail_all(int failed_rank) noexcept {
  int expected = nobody;
  if (!failed_rank_.compare_exchange_strong(expected, failed_rank)) return;
  tell_all(failed_rank);
  // This rank's own threads, which may wait for other things.
  network_.ring(failure_.handle());
}

void Connections::tell_all(Notice notice) const noexcept {
  const iovec bytes{&notice, sizeof notice};
  for (const PeerSockets& peer : peers_) {
    if (peer.control.is_open()) peer.control.send({&bytes, 1});
  }
}

/// The control connections of those who have not said that they are done, and whether another
/// thread has heard of a failure.
std::vector<pollfd> Connections::watched() const {
  std::vector<pollfd> controls = {{failure_.handle(), POLLIN, 0}};
  for (std::size_t peer = 0; peer < peers_.size(); ++peer) {
    const Socket& control = peers_[peer].control;
    if (control.is_open() && !has_left(static_cast<int>(peer)))
      controls.push_back({control.handle(), POLLIN, 0});
  }
  return controls;
}

void Connections::hear_notices(const char* what) {
  const std::lock_guard lock(hearing_);
  if (failed_rank_ != nobody) throw_failure(what, failed_rank_);
  for (int peer = 0; peer < static_cast<int>(peers_.size()); ++peer) {
    const Socket& control = peers_[at(peer)].control;
    if (!control.is_open() || has_left(peer)) continue;
    while (!has_left(peer)) {
      Notice notice = 0;
      const iovec place{&notice, sizeof notice};
      const ssize_t received = control.receive({&place, 1});
      if (received == -EAGAIN) break;
      if (received != sizeof notice)
        give_up(peer, fmt::format("rank {}: {} was given up: rank {} died or cannot be reached",
                                  rank_, what, peer));
      if (notice >= 0) {
        fail_all(notice);
        throw_failure(what, notice);
      }
      const Sign sign = notice == done      ? Sign::leaves
                        : notice == waiting ? Sign::waits
                                            : Sign::works;
      signs_.hear(peer, sign, network_.now());
    }
  }
}

void Connections::throw_failure(const char* what, int failed_rank) const {
  if (failed_rank == rank_)
    fail("rank {}: {} was given up: this rank failed, or others waited for it too long", rank_,
         what);
  throw GivenUp(fmt::format("rank {}: {} was given up: another rank failed (rank {})", rank_, what,
                            failed_rank));
}

}  // namespace autopar::runtime
