#include "runtime/comm/listener.h"

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "runtime/comm/open_files.h"

namespace autopar::runtime {

namespace {

using namespace std::chrono_literals;

/// For one that has connected to prove who it is; ranks do it at once.
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
  accept_all();
  const Deadline now = socket_.network().now();
  for (auto peer = unproven_.begin(); peer != unproven_.end();) {
    const AcceptedHandshake::State state = peer->advance();
    if (state == AcceptedHandshake::State::proven) {
      IncomingPeer taken{
          .socket = peer->take(), .hello = peer->hello(), .address = peer->address()};
      unproven_.erase(peer);
      return taken;
    }
    if (state != AcceptedHandshake::State::under_way) {
      turn_away(*peer, reason_of(state));
    } else if (now - peer->since() > patience) {
      turn_away(*peer, "said nothing");
    } else {
      ++peer;
      continue;
    }
    peer = unproven_.erase(peer);
  }
  return std::nullopt;
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
  turn_away(unproven_.front(), "said nothing");
  unproven_.pop_front();
}

void Listener::turn_away(const AcceptedHandshake& stranger, const std::string& why) {
  ++strangers_.count;
  strangers_.last = fmt::format("{} {}", stranger.address(), why);
}

}  // namespace autopar::runtime
