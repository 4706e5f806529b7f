#include "runtime/comm/connections.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>

#include "base/error.h"
#include "runtime/comm/open_files.h"

namespace autopar::runtime {

namespace {

using namespace std::chrono_literals;

constexpr auto pause_before_dialing_again = 50ms;
constexpr auto shortest_pause_while_connecting = 20ms;
constexpr int ranks_of_the_shortest_pause = 32;
/// A rank that ends has told why just before: what it told may still be on its way.
constexpr auto patience_for_causes = 2s;

std::size_t index_of(Channel channel) { return static_cast<std::size_t>(channel); }

bool is_ready(const pollfd& each) { return each.revents != 0; }

/// What the one that told of a failure has against a rank, which `whom` names.
std::string blame_of(const Notice& notice, const std::string& whom) {
  const auto by = notice.told_by;
  switch (notice.cause) {
    case Notice::Cause::lost:
      return fmt::format("rank {} lost the connection to {}", by, whom);
    case Notice::Cause::late:
      return fmt::format("rank {} waited too long for {}", by, whom);
    case Notice::Cause::damaged:
      return fmt::format("rank {} got damaged bytes from {}", by, whom);
    case Notice::Cause::at_odds:
      return fmt::format("rank {} is at something else than {}", by, whom);
    default:
      return fmt::format("another rank failed ({})", whom);
  }
}

}  // namespace

Connections::Connections(Meeting meeting, Network& network, std::chrono::milliseconds timeout)
    : self_(std::move(meeting.self)),
      network_(network),
      timeout_(timeout),
      signs_(self_->size),
      addresses_(std::move(meeting.addresses)),
      peers_(addresses_.size()),
      listener_(std::move(meeting.listener)),
      failure_alarm_(network, network.make_alarm()) {
  if (!failure_alarm_.is_open()) fail("{}", too_many_open_files(rank(), self_->size));
  for (int peer = 0; peer < self_->size; ++peer) {
    Socket& met = meeting.connections[at(peer)];
    if (met.is_open()) {
      Peer& of = peers_[at(peer)];
      Link& link = (rank() == 0 ? of.incoming : of.outgoing)[index_of(Channel::data)];
      link.socket = std::move(met);
      link.is_up = true;
    }
    if (rank() == 0 && peer > 0) dial(peer, Channel::data);
  }
}

Connections::~Connections() {
  const bool is_unwound = std::uncaught_exceptions() > 0;
  if (is_unwound) fail_here();
  if (!has_failed_) {
    // Who hears that this rank is done looks for nothing of it that has not come yet.
    let_all_be_sent(5s);
    tell_all({.kind = Notice::Kind::done});
  }
  let_all_be_sent(1s);
  const Strangers& strangers = listener_.strangers();
  if (strangers.count > 0)
    spdlog::warn("rank {}: {} connection(s) of others were turned away: the last, {}", rank(),
                 strangers.count, strangers.last);
}

void Connections::join(std::chrono::milliseconds timeout) {
  const char* const what = "the rendezvous";
  // Rank 0's own deadline is the one to tell who is missing.
  Deadline deadline = network_.now() + timeout + (rank() == 0 ? 0s : patience_for_causes);
  const auto is_joined = [&](int peer) {
    return outgoing(peer, Channel::data) != nullptr && incoming(peer, Channel::data) != nullptr &&
           (rank() == 0 || peers_[at(peer)].has_joined);
  };
  for (int peer = 0; peer < self_->size; ++peer) {
    if (peer == rank() || (rank() != 0 && peer != 0)) continue;
    while (!is_joined(peer)) {
      tell(Sign::waits);
      if (is_out_of_reach(peer)) lose(what, peer);
      const Deadline soon = std::min(deadline, network_.now() + pause_while_connecting());
      wait(what, {}, soon);
      // This process was stopped, and what came meanwhile has not been looked at.
      if (network_.now() > soon + 1s) deadline += network_.now() - soon;
      if (network_.now() < deadline) continue;
      give_up(peer, Notice::Cause::late,
              fmt::format("rank {}: the connection with rank {} at {} was not made within {} ms",
                          rank(), peer, to_string(addresses_[at(peer)]), timeout.count()));
    }
  }
  if (rank() == 0) tell_all({.kind = Notice::Kind::joined});
}

std::chrono::milliseconds Connections::pause_while_connecting() const {
  return shortest_pause_while_connecting * std::max(1, self_->size / ranks_of_the_shortest_pause);
}

const Socket* Connections::outgoing(int peer, Channel channel) {
  Peer& to = peers_[at(peer)];
  const Link& link = to.outgoing[index_of(channel)];
  if (link.is_up) return &link.socket;
  const std::lock_guard lock(making_);
  if (link.is_up) return &link.socket;
  if (!to.dialing[index_of(channel)] && !to.is_out_of_reach &&
      network_.now() >= to.dials_again_at[index_of(channel)])
    dial(peer, channel);
  return nullptr;
}

const Socket* Connections::incoming(int peer, Channel channel) const {
  const Link& link = peers_[at(peer)].incoming[index_of(channel)];
  return link.is_up ? &link.socket : nullptr;
}

void Connections::dial(int peer, Channel channel) {
  peers_[at(peer)].dialing[index_of(channel)] =
      std::make_unique<Dialing>(network_, addresses_[at(peer)], *self_, peer, channel);
  dialed_.emplace_back(peer, channel);
}

void Connections::progress() {
  const std::lock_guard lock(making_);
  while (auto peer = listener_.take()) install(std::move(*peer));
  const auto dialed = dialed_;
  for (const auto& [peer, channel] : dialed) advance(peer, channel);
  std::erase_if(dialed_, [&](const auto& each) {
    return !peers_[at(each.first)].dialing[index_of(each.second)];
  });
}

void Connections::install(IncomingPeer peer) {
  const Hello& hello = peer.hello;
  if (hello.meeting == 0) return refuse_late(peer);
  const bool is_known = hello.meeting == self_->meeting && hello.rank >= 0 &&
                        hello.rank < self_->size && hello.rank != rank() && hello.to == rank() &&
                        index_of(hello.channel) < channels;
  if (!is_known) return;
  Peer& from = peers_[at(hello.rank)];
  Link& link = from.incoming[index_of(hello.channel)];
  if (link.is_up) return;
  link.socket = std::move(peer.socket);
  const std::lock_guard lock(telling_);
  link.is_up = true;
  // What the others have been told by now.
  if (hello.channel == Channel::data && has_failed_) from.told.write(link.socket, failure_);
}

void Connections::advance(int peer, Channel channel) {
  Peer& to = peers_[at(peer)];
  std::unique_ptr<Dialing>& dialing = to.dialing[index_of(channel)];
  const Dialing::State result = dialing->advance();
  if (result == Dialing::State::under_way) return;
  if (result == Dialing::State::proven) {
    Link& link = to.outgoing[index_of(channel)];
    link.socket = dialing->take();
    link.is_up = true;
    signs_.begin(peer, network_.now());
  } else if (result == Dialing::State::closed) {
    to.dials_again_at[index_of(channel)] = network_.now() + pause_before_dialing_again;
  } else if (!to.is_out_of_reach) {
    const int error = dialing->error();
    to.why_out_of_reach = error == EMFILE || error == ENFILE
                              ? too_many_open_files(rank(), self_->size)
                              : reason_of(result, error);
    to.is_out_of_reach = true;
  }
  dialing.reset();
}

bool Connections::tell(Sign sign) {
  const SteadyTime now = network_.now();
  const SteadyTime last = sign == Sign::works ? last_work_told_ : last_told_;
  if (now - last < sign_interval(timeout_)) return false;
  if (sign == Sign::works) last_work_told_ = now;
  last_told_ = now;
  if (!has_failed_)
    tell_all({.kind = sign == Sign::works ? Notice::Kind::working : Notice::Kind::waiting});
  return true;
}

void Connections::check(const char* what) { wait(what, {}, network_.now()); }

bool Connections::wait(const char* what, std::vector<pollfd> sockets, Deadline deadline) {
  if (has_failed_) throw_failure(what);
  const auto given = static_cast<std::ptrdiff_t>(sockets.size());
  bool is_connecting = false;
  {
    const std::lock_guard lock(making_);
    is_connecting = !dialed_.empty();
    for (const auto& [peer, channel] : dialed_)
      sockets.push_back(peers_[at(peer)].dialing[index_of(channel)]->awaited());
    listener_.append_awaited(sockets);
  }
  const auto of_connecting = static_cast<std::ptrdiff_t>(sockets.size());
  const std::vector<pollfd> notices = awaited();
  sockets.insert(sockets.end(), notices.begin(), notices.end());

  const Deadline soon = network_.now() + pause_while_connecting();
  const int ready = network_.poll(sockets, is_connecting ? std::min(deadline, soon) : deadline);
  if (ready > 0 && std::any_of(sockets.begin() + of_connecting, sockets.end(), is_ready))
    hear_notices(what);
  if (is_connecting || (ready > 0 && std::any_of(sockets.begin() + given,
                                                 sockets.begin() + of_connecting, is_ready)))
    progress();
  return ready != 0 || network_.now() < deadline;
}

/// Where notices come from: those who have not said that they are done. And whether another thread
/// has heard of a failure.
std::vector<pollfd> Connections::awaited() const {
  std::vector<pollfd> sockets = {{failure_alarm_.handle(), POLLIN, 0}};
  for (int peer = 0; peer < self_->size; ++peer) {
    const Link& link = peers_[at(peer)].outgoing[index_of(Channel::data)];
    if (link.is_up && !has_left(peer)) sockets.push_back({link.socket.handle(), POLLIN, 0});
  }
  return sockets;
}

void Connections::hear_notices(const char* what) {
  const std::lock_guard lock(hearing_);
  if (has_failed_) throw_failure(what);
  for (int peer = 0; peer < self_->size; ++peer)
    if (peers_[at(peer)].outgoing[index_of(Channel::data)].is_up) hear(what, peer);
}

void Connections::hear(const char* what, int number) {
  Peer& peer = peers_[at(number)];
  const Socket& socket = peer.outgoing[index_of(Channel::data)].socket;
  while (!has_left(number)) {
    Notice notice;
    const NoticeReader::Heard heard = peer.heard.read(socket, notice);
    if (heard == NoticeReader::Heard::nothing_yet) return;
    if (heard == NoticeReader::Heard::end)
      give_up(number, Notice::Cause::lost,
              fmt::format("rank {}: {} was given up: rank {} died or cannot be reached", rank(),
                          what, number));
    if (heard == NoticeReader::Heard::damaged)
      give_up(number, Notice::Cause::damaged,
              fmt::format("rank {} at {}: what rank {} at {} told was damaged on the way; check "
                          "the network",
                          rank(), to_string(local_address(socket)), number,
                          to_string(peer_address(socket))));
    if (notice.kind == Notice::Kind::done) {
      signs_.hear(number, Sign::leaves, network_.now());
    } else if (notice.kind == Notice::Kind::failed) {
      fail_all(notice);
      throw_failure(what);
    } else if (notice.kind == Notice::Kind::joined) {
      peer.has_joined = true;
    } else {
      const bool waits = notice.kind == Notice::Kind::waiting;
      signs_.hear(number, waits ? Sign::waits : Sign::works, network_.now());
    }
  }
}

void Connections::await_cause(const char* what) {
  const Deadline until =
      network_.now() + std::min<std::chrono::milliseconds>(patience_for_causes, timeout_);
  while (network_.now() < until) {
    tell(Sign::waits);
    wait(what, {}, std::min(until, network_.now() + pause_while_connecting()));
  }
}

void Connections::lose(const char* what, int peer) {
  // A connection's end says less than what its rank, or another one, told before.
  const Deadline until = network_.now() + patience_for_causes;
  do {
    tell(Sign::waits);
    check(what);
  } while (!has_left(peer) && wait(what, {}, until));
  const Peer& lost = peers_[at(peer)];
  if (has_left(peer))
    give_up(peer, Notice::Cause::at_odds,
            fmt::format("rank {}: {} needs rank {}, which is done already: were all ranks started "
                        "with the same options?",
                        rank(), what, peer));
  if (lost.is_out_of_reach)
    give_up(peer, Notice::Cause::lost,
            fmt::format("rank {}: {} cannot reach rank {} at {}: {}", rank(), what, peer,
                        to_string(addresses_[at(peer)]), lost.why_out_of_reach));
  give_up(peer, Notice::Cause::lost,
          fmt::format("rank {}: {} lost rank {}: its process has ended, or the connection is "
                      "broken",
                      rank(), what, peer));
}

void Connections::give_up(int failed_rank, Notice::Cause cause, const std::string& why) {
  fail_all({.kind = Notice::Kind::failed,
            .cause = cause,
            .failed_rank = failed_rank,
            .told_by = rank()});
  throw Error(why);
}

void Connections::fail_here() noexcept {
  fail_all({.kind = Notice::Kind::failed, .failed_rank = rank(), .told_by = rank()});
}

void Connections::fail_all(const Notice& notice) noexcept {
  {
    const std::lock_guard lock(failing_);
    if (has_failed_) return;
    failure_ = notice;
    has_failed_ = true;
  }
  tell_all(notice);
  // This rank's own threads, which may wait for other things.
  network_.ring(failure_alarm_.handle());
}

void Connections::tell_all(const Notice& notice) noexcept {
  const std::lock_guard lock(telling_);
  for (Peer& peer : peers_) {
    const Link& link = peer.incoming[index_of(Channel::data)];
    if (link.is_up) peer.told.write(link.socket, notice);
  }
}

/// A connection that is closed while something comes in loses what it has not sent yet.
void Connections::let_all_be_sent(std::chrono::milliseconds most) noexcept {
  const Deadline until = network_.now() + most;
  const auto is_sent = [&](const Link& link) {
    return !link.is_up || network_.unsent(link.socket.handle()) <= 0;
  };
  const auto all_is_sent = [&] {
    return std::ranges::all_of(peers_, [&](const Peer& peer) {
      return std::ranges::all_of(peer.outgoing, is_sent) &&
             std::ranges::all_of(peer.incoming, is_sent);
    });
  };
  while (!all_is_sent() && network_.now() < until) network_.sleep_until(network_.now() + 1ms);
}

void Connections::throw_failure(const char* what) const {
  const int failed = failure_.failed_rank;
  if (failed != rank())
    throw GivenUp(fmt::format("rank {}: {} was given up: {}", rank(), what,
                              blame_of(failure_, fmt::format("rank {}", failed))));
  const bool is_own = failure_.told_by == rank();
  fail("rank {}: {} was given up: {}", rank(), what,
       is_own ? "this rank failed" : blame_of(failure_, "this rank"));
}

}  // namespace autopar::runtime
