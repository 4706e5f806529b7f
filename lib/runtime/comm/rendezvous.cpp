#include "runtime/comm/rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "base/error.h"
#include "base/file_digest.h"
#include "base/text.h"
#include "runtime/comm/communicator.h"

namespace autopar::runtime {

namespace {

using namespace std::chrono_literals;

/// Rank 0's word to a rank that has come. All ranks' addresses follow, or a text that says why not.
struct Reply {
  std::uint32_t refusal_length = 0;
  std::uint32_t addresses = 0;
  std::uint64_t meeting = 0;
  std::uint64_t checksum_of_rest = 0;
  std::uint64_t checksum = 0;  ///< of what is above
};

constexpr std::size_t longest_refusal = 4096;

std::uint64_t checksum_of(const Reply& reply) {
  return xxh3_of(bytes_of(reply).first(offsetof(Reply, checksum)));
}

std::string in_seconds(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000);
}

std::shared_ptr<Introduction> introduction_of(const Rendezvous& rendezvous) {
  auto self = std::make_shared<Introduction>();
  self->rank = rendezvous.rank;
  self->size = rendezvous.size;
  self->secret = Secret(rendezvous.secret);
  require(!rendezvous.secret.empty(), "ranks that meet have a secret");
  require(rendezvous.bundle_digest.size() <= self->bundle_digest.size(),
          "a digest fits an introduction");
  std::ranges::copy(rendezvous.bundle_digest, self->bundle_digest.begin());
  return self;
}

void reply(const Socket& socket, Reply head, std::span<const std::byte> rest) {
  head.checksum_of_rest = xxh3_of(rest);
  head.checksum = checksum_of(head);
  // One that does not get it is missed in what follows.
  const Deadline soon = socket.network().now() + 1s;
  if (send_all(socket, bytes_of(head), soon) == Moved::all) send_all(socket, rest, soon);
}

void refuse(const Socket& socket, const std::string& why) {
  const std::string told = why.substr(0, longest_refusal);
  reply(socket, {.refusal_length = static_cast<std::uint32_t>(told.size())},
        std::as_bytes(std::span(told)));
}

/// Rank 0's peers by rank; not open for those that have not connected.
using Peers = std::vector<IncomingPeer>;

/// What is wrong with one rank is told to all that are connected, and thrown.
[[noreturn]] void refuse_all(const Peers& peers, const std::string& why) {
  for (const IncomingPeer& peer : peers)
    if (peer.socket.is_open()) refuse(peer.socket, why);
  throw Error(why);
}

std::vector<int> missing_ranks(const Peers& peers) {
  std::vector<int> missing;
  for (std::size_t rank = 1; rank < peers.size(); ++rank)
    if (!peers[rank].socket.is_open()) missing.push_back(static_cast<int>(rank));
  return missing;
}

std::string absence_of(const std::vector<int>& ranks, const Listener& listener,
                       std::chrono::milliseconds timeout) {
  std::string text = fmt::format("rank(s) {} did not come to {} within {}", fmt::join(ranks, ", "),
                                 to_string(listener.address()), in_seconds(timeout));
  const Strangers& strangers = listener.strangers();
  if (strangers.count > 0)
    text += fmt::format("; {} other(s) came and were turned away: the last, {}", strangers.count,
                        strangers.last);
  return text;
}

void require_presence(const Peers& peers, const Listener& listener) {
  for (const IncomingPeer& peer : peers) {
    if (!peer.socket.is_open() || !is_closed_by_peer(peer.socket)) continue;
    refuse_all(peers, fmt::format("rank {} came to {} and left before all others were there",
                                  peer.hello.rank, to_string(listener.address())));
  }
}

/// Empty where nothing is.
std::string what_is_wrong_with(const IncomingPeer& peer, const Peers& peers,
                               const Introduction& self) {
  const Hello& hello = peer.hello;
  if (hello.size != self.size)
    return fmt::format("rank {} is one of {} ranks, but rank 0 one of {}; give all the same bundle",
                       hello.rank, hello.size, self.size);
  if (hello.rank < 1 || hello.rank >= self.size)
    return fmt::format("{} came as rank {}, but other ranks than 0 are 1 to {}", peer.address,
                       hello.rank, self.size - 1);
  if (hello.bundle_digest != self.bundle_digest)
    return fmt::format("rank {} runs another bundle than rank 0; give all the same", hello.rank);
  const IncomingPeer& same = peers[at(hello.rank)];
  if (same.socket.is_open())
    return fmt::format("rank {} was started twice, at {} and {}; give each process its own --rank",
                       hello.rank, same.address, peer.address);
  return {};
}

/// Rank 0's part: returns when all are connected to it.
Peers accept_all(const Rendezvous& rendezvous, const Introduction& self, Listener& listener) {
  Peers peers(at(rendezvous.size));
  Network& network = *rendezvous.network;
  Deadline deadline = network.now() + rendezvous.timeout;
  std::vector<int> missing = missing_ranks(peers);
  while (!missing.empty()) {
    require_presence(peers, listener);
    if (network.now() >= deadline)
      refuse_all(peers, absence_of(missing, listener, rendezvous.timeout));
    // Now and then, to see who has left.
    const Deadline soon = std::min(deadline, network.now() + 100ms);
    for (auto peer = listener.next(soon); peer; peer = listener.take()) {
      if (const auto wrong = what_is_wrong_with(*peer, peers, self); !wrong.empty()) {
        refuse(peer->socket, wrong);
        refuse_all(peers, wrong);
      }
      peers[at(peer->hello.rank)] = std::move(*peer);
    }
    // This process was stopped, and what came meanwhile has not been looked at.
    if (network.now() > soon + 1s) deadline += network.now() - soon;
    missing = missing_ranks(peers);
  }
  return peers;
}

Meeting meet_as_first(const Rendezvous& rendezvous, const std::shared_ptr<Introduction>& self) {
  Listener listener(listen_at(*rendezvous.network, rendezvous.meeting_point), self);
  Peers peers = accept_all(rendezvous, *self, listener);
  std::vector<WireAddress> addresses = {wire_address(listener.address())};
  for (std::size_t rank = 1; rank < peers.size(); ++rank)
    addresses.push_back(peers[rank].hello.listens_at);
  std::random_device random;
  self->meeting = (static_cast<std::uint64_t>(random()) << 32) + random() + 1;
  const Reply head{.addresses = static_cast<std::uint32_t>(addresses.size()),
                   .meeting = self->meeting};
  Meeting meeting{
      .self = self, .listener = std::move(listener), .addresses = {}, .connections = {}};
  for (std::size_t rank = 0; rank < peers.size(); ++rank) {
    if (rank > 0) {
      // Rank 0 may listen at several addresses: each rank is told the one that it has reached.
      addresses.front() = wire_address(local_address(peers[rank].socket));
      reply(peers[rank].socket, head, std::as_bytes(std::span(addresses)));
    }
    meeting.addresses.push_back(socket_address(addresses[rank]));
    meeting.connections.push_back(std::move(peers[rank].socket));
  }
  return meeting;
}

/// What is wrong with who answers at the meeting point, for good.
void check_first_rank(Dialing::State state, const Dialing& dialing, const Rendezvous& rendezvous,
                      const Introduction& self) {
  const std::string place = to_string(rendezvous.meeting_point);
  if (state == Dialing::State::no_rank)
    fail("{} is another program, and not rank 0 of autopar; choose another port", place);
  if (state == Dialing::State::other_version)
    fail("rank 0 at {} runs another version of autopar; all ranks need the same", place);
  if (state == Dialing::State::encrypts)
    fail("rank 0 at {} encrypts (--tls), rank {} does not; give --tls to all or to none", place,
         self.rank);
  if (state == Dialing::State::encrypts_not)
    fail("rank {} encrypts (--tls), rank 0 at {} does not; give --tls to all or to none", self.rank,
         place);
  if (state != Dialing::State::unproven) return;
  if (dialing.answer().bundle_digest != self.bundle_digest)
    fail(
        "rank 0 at {} does not know the secret of rank {} and runs another bundle; give all the "
        "same",
        place, self.rank);
  fail(
      "rank 0 at {} cannot prove that it knows the secret of rank {}; give all ranks the same "
      "with the bundle, AUTOPAR_SECRET or --secret-file",
      place, self.rank);
}

/// A connection to rank 0, and where this rank listens.
struct ToFirst {
  Socket socket;
  Socket listener;
};

/// Connects and introduces this rank, once; or tells why that did not work out, but may later.
std::string try_first(const Rendezvous& rendezvous, const Introduction& self,
                      const SocketAddress& address, Deadline deadline, ToFirst& made) {
  Network& network = *rendezvous.network;
  const std::string place = to_string(rendezvous.meeting_point);
  const auto listen = [&](const Socket& connected) {
    made.listener = listen_beside(connected);
    return wire_address(local_address(made.listener));
  };
  Dialing dialing(network, address, self, 0, Channel::data, listen);
  Dialing::State state = dialing.advance();
  bool is_connected = dialing.is_connected();
  const Deadline until_connected = std::min(deadline, network.now() + 5s);
  while (state == Dialing::State::under_way) {
    if (network.now() >= (is_connected ? deadline : until_connected))
      return is_connected ? fmt::format(
                                "{} took the connection but gives no answer: is it rank 0 of "
                                "autopar?",
                                place)
                          : fmt::format(
                                "nobody answers at {} within {} ({}): has rank 0 been started "
                                "there?",
                                place, in_seconds(rendezvous.timeout), std::strerror(ETIMEDOUT));
    pollfd awaited = dialing.awaited();
    network.poll({&awaited, 1}, is_connected ? deadline : until_connected);
    state = dialing.advance();
    is_connected = dialing.is_connected();
  }
  check_first_rank(state, dialing, rendezvous, self);
  if (state == Dialing::State::unreachable)
    return fmt::format("nobody answers at {} within {} ({}): has rank 0 been started there?", place,
                       in_seconds(rendezvous.timeout), std::strerror(dialing.error()));
  if (state == Dialing::State::closed)
    return fmt::format(
        "{} closed the connection: rank 0 has ended, or another program uses the port", place);
  made.socket = dialing.take();
  return {};
}

/// What is wrong with the name; empty where nothing is.
std::string try_resolve(const Endpoint& endpoint, std::vector<SocketAddress>& addresses) {
  try {
    addresses = resolve(endpoint);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

/// Rank 0 may be started later than the others, and where it is a container or a pod its host's
/// name is not known before.
ToFirst connect_to_first(const Rendezvous& rendezvous, const Introduction& self) {
  Network& network = *rendezvous.network;
  const Deadline deadline = network.now() + rendezvous.timeout;
  std::vector<SocketAddress> addresses;
  std::string wrong;
  while (true) {
    ToFirst made;
    if (addresses.empty()) wrong = try_resolve(rendezvous.meeting_point, addresses);
    for (const SocketAddress& address : addresses) {
      const std::string now_wrong = try_first(rendezvous, self, address, deadline, made);
      if (now_wrong.empty()) return made;
      // A try that was cut short tells less than the one before it.
      if (wrong.empty() || network.now() < deadline) wrong = now_wrong;
    }
    if (network.now() >= deadline) throw Error(wrong);
    network.sleep_until(std::min(deadline, network.now() + 50ms));
  }
}

struct Word {
  Reply head;
  std::vector<WireAddress> addresses;
};

/// Rank 0 has a deadline of its own, which is the one to tell who is missing.
Word receive_reply(const Socket& socket, const Rendezvous& rendezvous) {
  const std::string place = to_string(rendezvous.meeting_point);
  const Deadline deadline = rendezvous.network->now() + rendezvous.timeout + 2s;
  const auto receive = [&](std::span<std::byte> bytes) {
    switch (receive_all(socket, bytes, deadline)) {
      case Moved::all:
        return;
      case Moved::not_yet:
        fail("rank 0 at {} took the connection of rank {} but gives no answer", place,
             rendezvous.rank);
      case Moved::closed:
        fail("{} closed the connection: rank 0 has ended, or cannot be reached", place);
    }
  };
  const auto check = [&](bool is_whole) {
    if (!is_whole)
      fail("what rank 0 at {} told rank {} at {} was damaged on the way; check the network", place,
           rendezvous.rank, to_string(local_address(socket)));
  };
  Word word;
  const Reply& head = word.head;
  receive(writable_bytes_of(word.head));
  check(head.checksum == checksum_of(head) && head.refusal_length <= longest_refusal);
  if (head.refusal_length > 0) {
    std::string why(head.refusal_length, ' ');
    receive(std::as_writable_bytes(std::span(why)));
    check(head.checksum_of_rest == xxh3_of(std::as_bytes(std::span(why))));
    throw Error(one_line(why));
  }
  check(head.addresses == static_cast<std::uint32_t>(rendezvous.size));
  word.addresses.resize(at(rendezvous.size));
  receive(std::as_writable_bytes(std::span(word.addresses)));
  check(head.checksum_of_rest == xxh3_of(std::as_bytes(std::span(word.addresses))));
  return word;
}

Meeting meet_as_other(const Rendezvous& rendezvous, const std::shared_ptr<Introduction>& self) {
  ToFirst made = connect_to_first(rendezvous, *self);
  const Word word = receive_reply(made.socket, rendezvous);
  self->meeting = word.head.meeting;
  Meeting meeting{.self = self,
                  .listener = Listener(std::move(made.listener), self),
                  .addresses = {},
                  .connections = {}};
  for (const WireAddress& address : word.addresses)
    meeting.addresses.push_back(socket_address(address));
  meeting.connections.resize(at(rendezvous.size));
  meeting.connections.front() = std::move(made.socket);
  return meeting;
}

}  // namespace

Meeting meet(const Rendezvous& rendezvous) {
  require(rendezvous.rank >= 0 && rendezvous.rank < rendezvous.size, "a rank is below the size");
  auto self = introduction_of(rendezvous);
  return rendezvous.rank == 0 ? meet_as_first(rendezvous, self) : meet_as_other(rendezvous, self);
}

void refuse_late(const IncomingPeer& peer) {
  refuse(peer.socket, fmt::format("rank {} came when all ranks were there: was it started twice?",
                                  peer.hello.rank));
}

}  // namespace autopar::runtime
