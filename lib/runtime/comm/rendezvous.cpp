#include "runtime/comm/rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "base/error.h"
#include "runtime/comm/communicator.h"
#include "runtime/comm/listener.h"

namespace autopar::runtime {

namespace {

using namespace std::chrono_literals;

/// Rank 0's reply to a handshake. All ranks' addresses follow, or a text that says why not.
struct Reply {
  Signature signature;
  std::uint32_t refusal_length = 0;
  std::uint64_t meeting = 0;
};

/// What all ranks know once all are connected to rank 0.
struct Meeting {
  std::uint64_t number = 0;
  std::vector<SocketAddress> addresses;  ///< where the ranks listen
};

std::string in_seconds(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000);
}

Handshake handshake_of(const Rendezvous& rendezvous) {
  Handshake handshake;
  handshake.rank = rendezvous.rank;
  handshake.size = rendezvous.size;
  require(rendezvous.bundle_digest.size() <= handshake.bundle_digest.size(),
          "a digest fits a handshake");
  std::ranges::copy(rendezvous.bundle_digest, handshake.bundle_digest.begin());
  return handshake;
}

void reply(const IncomingPeer& peer, const Reply& how, std::span<const std::byte> rest) {
  // One that does not get it is missed in what follows.
  const Deadline soon = peer.socket.network().now() + 1s;
  if (send_all(peer.socket, bytes_of(how), soon) == Moved::all) send_all(peer.socket, rest, soon);
}

void refuse(const IncomingPeer& peer, const std::string& why) {
  reply(peer,
        {.signature = {}, .refusal_length = static_cast<std::uint32_t>(why.size()), .meeting = 0},
        std::as_bytes(std::span(why)));
}

/// Rank 0's peers by rank; not open for those that have not connected.
using Peers = std::vector<IncomingPeer>;

/// What is wrong with one rank is told to all that are connected, and thrown.
[[noreturn]] void refuse_all(const Peers& peers, const std::string& why) {
  for (const IncomingPeer& peer : peers)
    if (peer.socket.is_open()) refuse(peer, why);
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
  if (!listener.stranger().empty())
    text += fmt::format("; {} came and was no rank of autopar", listener.stranger());
  return text;
}

void require_presence(const Peers& peers, const Listener& listener) {
  for (const IncomingPeer& peer : peers) {
    if (!peer.socket.is_open() || !is_closed_by_peer(peer.socket)) continue;
    refuse_all(peers, fmt::format("rank {} came to {} and left before all others were there",
                                  peer.handshake.rank, to_string(listener.address())));
  }
}

/// Empty where nothing is.
std::string what_is_wrong_with(const IncomingPeer& peer, const Peers& peers,
                               const Rendezvous& rendezvous) {
  const Handshake& handshake = peer.handshake;
  if (handshake.signature != Signature())
    return fmt::format("{} runs another version of autopar than rank 0; all ranks need the same",
                       peer.address);
  if (handshake.size != rendezvous.size)
    return fmt::format("rank {} is one of {} ranks, but rank 0 one of {}; give all the same bundle",
                       handshake.rank, handshake.size, rendezvous.size);
  if (handshake.rank < 1 || handshake.rank >= rendezvous.size)
    return fmt::format("{} came as rank {}, but other ranks than 0 are 1 to {}", peer.address,
                       handshake.rank, rendezvous.size - 1);
  if (handshake.bundle_digest != handshake_of(rendezvous).bundle_digest)
    return fmt::format("rank {} runs another bundle than rank 0; give all the same",
                       handshake.rank);
  const IncomingPeer& same = peers[at(handshake.rank)];
  if (same.socket.is_open())
    return fmt::format("rank {} was started twice, at {} and {}; give each process its own --rank",
                       handshake.rank, same.address, peer.address);
  return {};
}

/// Rank 0's part: returns when all are connected to it.
Peers accept_all(const Rendezvous& rendezvous, Listener& listener) {
  Peers peers(at(rendezvous.size));
  Network& network = *rendezvous.network;
  const Deadline deadline = network.now() + rendezvous.timeout;
  for (auto missing = missing_ranks(peers); !missing.empty(); missing = missing_ranks(peers)) {
    require_presence(peers, listener);
    if (network.now() >= deadline)
      refuse_all(peers, absence_of(missing, listener, rendezvous.timeout));
    // Now and then, to see who has left.
    auto peer = listener.next(std::min(deadline, network.now() + 100ms));
    if (!peer) continue;
    if (const auto wrong = what_is_wrong_with(*peer, peers, rendezvous); !wrong.empty()) {
      refuse(*peer, wrong);
      refuse_all(peers, wrong);
    }
    peers[at(peer->handshake.rank)] = std::move(*peer);
  }
  return peers;
}

/// Tells each rank where the others listen.
Meeting introduce(const Peers& peers, const Listener& listener) {
  Meeting meeting{.number = std::random_device()(), .addresses = {listener.address()}};
  for (std::size_t rank = 1; rank < peers.size(); ++rank)
    meeting.addresses.push_back(peers[rank].handshake.listens_at);
  for (std::size_t rank = 1; rank < peers.size(); ++rank)
    reply(peers[rank], {.signature = {}, .refusal_length = 0, .meeting = meeting.number},
          std::as_bytes(std::span(meeting.addresses)));
  return meeting;
}

/// Rank 0 may be started later than the others.
Socket connect_to_first(const Rendezvous& rendezvous) {
  Network& network = *rendezvous.network;
  const std::vector<SocketAddress> addresses = resolve(rendezvous.meeting_point);
  const Deadline deadline = network.now() + rendezvous.timeout;
  while (true) {
    int error = 0;
    for (const SocketAddress& address : addresses) {
      Connected made = connect_to(network, address, std::min(deadline, network.now() + 5s));
      if (made.socket.is_open()) return std::move(made.socket);
      error = made.error;
    }
    if (network.now() >= deadline)
      fail("nobody answers at {} within {} ({}): has rank 0 been started there?",
           to_string(rendezvous.meeting_point), in_seconds(rendezvous.timeout),
           std::strerror(error));
    network.sleep_until(network.now() + 50ms);
  }
}

/// Rank 0 has a deadline of its own, which is the one to tell who is missing.
Meeting receive_reply(const Socket& socket, const Rendezvous& rendezvous) {
  const std::string place = to_string(rendezvous.meeting_point);
  const Deadline deadline = socket.network().now() + rendezvous.timeout + 2s;
  const auto receive = [&](std::span<std::byte> bytes) {
    switch (receive_all(socket, bytes, deadline)) {
      case Moved::all:
        return;
      case Moved::not_yet:
        fail("{} took the connection but gives no answer: is it rank 0 of autopar?", place);
      case Moved::closed:
        fail("{} closed the connection: rank 0 has ended, or another program uses the port", place);
    }
  };
  Reply head;
  receive(writable_bytes_of(head));
  if (head.signature.magic != Signature().magic) {
    fail("{} is another program, and not rank 0 of autopar; choose another port", place);
  }
  if (head.signature != Signature()) {
    fail("rank 0 at {} runs another version of autopar; all ranks need the same", place);
  }
  if (head.refusal_length > 0) {
    std::string why(head.refusal_length, ' ');
    receive(std::as_writable_bytes(std::span(why)));
    throw Error(why);
  }
  Meeting meeting{.number = head.meeting,
                  .addresses = std::vector<SocketAddress>(at(rendezvous.size))};
  receive(std::as_writable_bytes(std::span(meeting.addresses)));
  return meeting;
}

Socket& socket_of(PeerSockets& peer, Channel channel) {
  if (channel == Channel::control) return peer.control;
  return channel == Channel::data ? peer.data : peer.messages;
}

/// Opens those channels to a lower rank that are not open yet.
void connect_to_peer(int rank, const Rendezvous& rendezvous, const Meeting& meeting,
                     PeerSockets& peer, Deadline deadline) {
  for (const Channel channel : {Channel::data, Channel::messages, Channel::control}) {
    Socket& socket = socket_of(peer, channel);
    if (socket.is_open()) continue;
    const SocketAddress& address = meeting.addresses[at(rank)];
    Connected made = connect_to(*rendezvous.network, address, deadline);
    if (!made.socket.is_open())
      fail("rank {} cannot connect to rank {} at {}: {}", rendezvous.rank, rank, to_string(address),
           std::strerror(made.error));
    Handshake handshake = handshake_of(rendezvous);
    handshake.channel = channel;
    handshake.meeting = meeting.number;
    send_all(made.socket, bytes_of(handshake), deadline);
    socket = std::move(made.socket);
  }
}

/// The ranks above `rank` that have not opened all channels.
std::vector<int> unconnected_above(int rank, const std::vector<PeerSockets>& peers) {
  std::vector<int> missing;
  for (std::size_t above = at(rank) + 1; above < peers.size(); ++above) {
    const PeerSockets& peer = peers[above];
    if (!peer.data.is_open() || !peer.messages.is_open() || !peer.control.is_open())
      missing.push_back(static_cast<int>(above));
  }
  return missing;
}

/// Higher ranks connect to this one.
void accept_peers(const Rendezvous& rendezvous, const Meeting& meeting, Listener& listener,
                  std::vector<PeerSockets>& peers, Deadline deadline) {
  for (auto missing = unconnected_above(rendezvous.rank, peers); !missing.empty();
       missing = unconnected_above(rendezvous.rank, peers)) {
    auto peer = listener.next(deadline);
    if (!peer)
      fail("rank {} waited {} for rank(s) {}; they came to the rendezvous, but not here",
           rendezvous.rank, in_seconds(rendezvous.timeout), fmt::join(missing, ", "));
    const Handshake& handshake = peer->handshake;
    if (handshake.channel == Channel::rendezvous)
      refuse(*peer, fmt::format("rank {} came when all ranks were there: was it started twice?",
                                handshake.rank));
    else if (handshake.meeting == meeting.number && handshake.rank > rendezvous.rank &&
             handshake.rank < rendezvous.size)
      socket_of(peers[at(handshake.rank)], handshake.channel) = std::move(peer->socket);
  }
}

std::vector<PeerSockets> connect_as_first(const Rendezvous& rendezvous) {
  Listener listener(listen_at(*rendezvous.network, rendezvous.meeting_point));
  Peers incoming = accept_all(rendezvous, listener);
  const Meeting meeting = introduce(incoming, listener);
  std::vector<PeerSockets> peers(incoming.size());
  for (std::size_t rank = 1; rank < peers.size(); ++rank)
    peers[rank].control = std::move(incoming[rank].socket);
  accept_peers(rendezvous, meeting, listener, peers,
               rendezvous.network->now() + rendezvous.timeout);
  return peers;
}

std::vector<PeerSockets> connect_as_other(const Rendezvous& rendezvous) {
  Socket to_first = connect_to_first(rendezvous);
  Listener listener(listen_beside(to_first));
  Handshake handshake = handshake_of(rendezvous);
  handshake.listens_at = listener.address();
  Network& network = *rendezvous.network;
  send_all(to_first, bytes_of(handshake), network.now() + rendezvous.timeout);
  const Meeting meeting = receive_reply(to_first, rendezvous);

  std::vector<PeerSockets> peers(at(rendezvous.size));
  peers[0].control = std::move(to_first);
  const Deadline deadline = network.now() + rendezvous.timeout;
  for (int rank = 0; rank < rendezvous.rank; ++rank)
    connect_to_peer(rank, rendezvous, meeting, peers[at(rank)], deadline);
  accept_peers(rendezvous, meeting, listener, peers, deadline);
  return peers;
}

}  // namespace

std::vector<PeerSockets> connect_all(const Rendezvous& rendezvous) {
  require(rendezvous.rank >= 0 && rendezvous.rank < rendezvous.size, "a rank is below the size");
  return rendezvous.rank == 0 ? connect_as_first(rendezvous) : connect_as_other(rendezvous);
}

}  // namespace autopar::runtime
