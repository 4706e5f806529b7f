#include "runtime/comm/listener.h"

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "runtime/comm/open_files.h"

namespace autopar::runtime {

namespace {

using namespace std::chrono_literals;

/// For one that has connected to say hello. Ranks do it at once, but many of them on few cores take
/// turns for long. Who has said it takes a place for as long as there are enough.
constexpr auto patience = 10s;
constexpr std::size_t spare_places = 64;

std::string reason_of(AcceptedHandshake::State state) {
  switch (state) {
    case AcceptedHandshake::State::no_rank:
      return "is no rank of autopar";
    case AcceptedHandshake::State::other_version:
      return "runs another version of autopar; all ranks need the same";
    case AcceptedHandshake::State::encrypts:
      return "encrypts (--tls), and this rank does not; give --tls to all or to none";
    case AcceptedHandshake::State::encrypts_not:
      return "does not encrypt, and this rank does (--tls); give --tls to all or to none";
    case AcceptedHandshake::State::unproven:
      return "could not prove that it knows the ranks' secret";
    default:
      return "left without a word";
  }
}

}  // namespace

std::optional<IncomingPeer> Listener::take() {
  if (proven_.empty()) hear_unproven();
  if (proven_.empty()) return std::nullopt;
  IncomingPeer peer = std::move(proven_.front());
  proven_.pop_front();
  return peer;
}

void Listener::hear_unproven() {
  accept_all();
  Network& network = socket_.network();
  const Deadline now = network.now();
  std::vector<pollfd> sockets;
  for (const AcceptedHandshake& peer : unproven_) sockets.push_back(peer.awaited());
  network.poll(sockets, now);
  std::deque<AcceptedHandshake> rest;
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    AcceptedHandshake& peer = unproven_[i];
    using State = AcceptedHandshake::State;
    const State state = sockets[i].revents != 0 ? peer.advance() : State::under_way;
    if (state == State::proven)
      proven_.push_back({.socket = peer.take(), .hello = peer.hello(), .address = peer.address()});
    else if (state != State::under_way)
      turn_away(peer, reason_of(state));
    else if (!peer.has_said_hello() && now - peer.since() > patience)
      turn_away(peer, "said nothing");
    else
      rest.push_back(std::move(peer));
  }
  unproven_ = std::move(rest);
}

std::optional<IncomingPeer> Listener::next(Deadline deadline) {
  Network& network = socket_.network();
  while (true) {
    if (auto peer = take()) return peer;
    if (network.now() >= deadline) return std::nullopt;
    std::vector<pollfd> awaited;
    append_awaited(awaited);
    network.poll(awaited, deadline);
  }
}

void Listener::append_awaited(std::vector<pollfd>& sockets) const {
  sockets.push_back({socket_.handle(), POLLIN, 0});
  for (const AcceptedHandshake& peer : unproven_) sockets.push_back(peer.awaited());
}

void Listener::accept_all() {
  Network& network = socket_.network();
  const std::size_t places = static_cast<std::size_t>(self_->size) + spare_places;
  while (true) {
    const int accepted = network.accept(socket_.handle());
    if (accepted >= 0) {
      unproven_.emplace_back(Socket(network, accepted), *self_);
      if (unproven_.size() > places) turn_away_oldest();
    } else if (accepted == -EMFILE || accepted == -ENFILE) {
      if (unproven_.empty()) fail("{}", too_many_open_files(self_->rank, self_->size));
      turn_away_oldest();
    } else if (accepted != -ECONNABORTED) {
      return;
    }
  }
}

void Listener::turn_away_oldest() {
  const AcceptedHandshake& oldest = unproven_.front();
  turn_away(oldest, oldest.has_said_hello() ? "did not prove who it is" : "said nothing");
  unproven_.pop_front();
}

void Listener::turn_away(const AcceptedHandshake& stranger, const std::string& why) {
  ++strangers_.count;
  strangers_.last = fmt::format("{} {}", stranger.address(), why);
}

}  // namespace autopar::runtime
