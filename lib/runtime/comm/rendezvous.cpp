#include "runtime/comm/rendezvous.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <thread>

#include "base/error.h"
#include "runtime/comm/reception.h"

namespace autopar::runtime {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Rank 0's answer to those who came. All ranks' addresses follow, or a text that says why not.
struct Answer {
  Signature signature;
  std::uint32_t refusal_length = 0;
  std::uint64_t meeting = 0;
};

/// What all ranks know once all have come.
struct Meeting {
  std::uint64_t number = 0;
  std::vector<SocketAddress> addresses;  ///< where the ranks listen
};

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

std::string in_seconds(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000);
}

Hello hello_of(const Rendezvous& rendezvous) {
  Hello hello;
  hello.rank = rendezvous.rank;
  hello.size = rendezvous.size;
  require(rendezvous.bundle_digest.size() <= hello.bundle_digest.size(), "a digest fits a hello");
  std::ranges::copy(rendezvous.bundle_digest, hello.bundle_digest.begin());
  return hello;
}

void answer(const Guest& guest, const Answer& how, std::span<const std::byte> rest) {
  // One who does not hear it is missed in what follows.
  const Deadline soon = Clock::now() + 1s;
  if (send_all(guest.socket, bytes_of(how), soon) == Moved::all) send_all(guest.socket, rest, soon);
}

void refuse(const Guest& guest, const std::string& why) {
  answer(guest,
         {.signature = {}, .refusal_length = static_cast<std::uint32_t>(why.size()), .meeting = 0},
         std::as_bytes(std::span(why)));
}

/// Rank 0 at the rendezvous. What is wrong with one rank is told to all that came, and thrown.
class Host {
 public:
  Host(const Rendezvous& rendezvous, Reception& reception)
      : rendezvous_(rendezvous),
        reception_(reception),
        place_(to_string(reception.address())),
        guests_(at(rendezvous.size)) {}

  /// Returns when all have come and know of each other.
  Meeting assemble() {
    const Deadline deadline = Clock::now() + rendezvous_.timeout;
    for (auto missing = missing_ranks(); !missing.empty(); missing = missing_ranks()) {
      check_presence();
      if (Clock::now() >= deadline) refuse_all(absence_of(missing));
      // Now and then, to see who has left.
      if (auto guest = reception_.next(std::min(deadline, Clock::now() + 100ms))) {
        admit(std::move(*guest));
      }
    }
    Meeting meeting{.number = std::random_device()(), .addresses = {reception_.address()}};
    for (int rank = 1; rank < rendezvous_.size; ++rank) {
      meeting.addresses.push_back(guests_[at(rank)].hello.listens_at);
    }
    for (int rank = 1; rank < rendezvous_.size; ++rank) {
      answer(guests_[at(rank)], {.signature = {}, .refusal_length = 0, .meeting = meeting.number},
             std::as_bytes(std::span(meeting.addresses)));
    }
    return meeting;
  }

  Socket take_connection(int rank) { return std::move(guests_[at(rank)].socket); }

 private:
  std::vector<int> missing_ranks() const {
    std::vector<int> missing;
    for (int rank = 1; rank < rendezvous_.size; ++rank) {
      if (!guests_[at(rank)].socket.is_open()) missing.push_back(rank);
    }
    return missing;
  }

  std::string absence_of(const std::vector<int>& ranks) const {
    std::string text = fmt::format("rank(s) {} did not come to {} within {}",
                                   fmt::join(ranks, ", "), place_, in_seconds(rendezvous_.timeout));
    if (!reception_.stranger().empty()) {
      text += fmt::format("; {} came and was no rank of autopar", reception_.stranger());
    }
    return text;
  }

  void check_presence() {
    for (Guest& guest : guests_) {
      if (!guest.socket.is_open() || !is_closed_by_peer(guest.socket)) continue;
      refuse_all(fmt::format("rank {} came to {} and left before all others were there",
                             guest.hello.rank, place_));
    }
  }

  void admit(Guest guest) {
    if (const std::string wrong = what_is_wrong_with(guest); !wrong.empty()) {
      refuse(guest, wrong);
      refuse_all(wrong);
    }
    const std::size_t rank = at(guest.hello.rank);
    guests_[rank] = std::move(guest);
  }

  std::string what_is_wrong_with(const Guest& guest) const {
    const Hello& hello = guest.hello;
    if (hello.signature != Signature()) {
      return fmt::format("{} runs another version of autopar than rank 0; all ranks need the same",
                         guest.address);
    }
    if (hello.size != rendezvous_.size) {
      return fmt::format(
          "rank {} is one of {} ranks, but rank 0 one of {}; give all the same bundle", hello.rank,
          hello.size, rendezvous_.size);
    }
    if (hello.rank < 1 || hello.rank >= rendezvous_.size) {
      return fmt::format("{} came as rank {}, but other ranks than 0 are 1 to {}", guest.address,
                         hello.rank, rendezvous_.size - 1);
    }
    if (hello.bundle_digest != hello_of(rendezvous_).bundle_digest) {
      return fmt::format("rank {} runs another bundle than rank 0; give all the same", hello.rank);
    }
    const Guest& same = guests_[at(hello.rank)];
    if (same.socket.is_open()) {
      return fmt::format(
          "rank {} was started twice, at {} and {}; give each process its own --rank", hello.rank,
          same.address, guest.address);
    }
    return {};
  }

  [[noreturn]] void refuse_all(const std::string& why) const {
    for (const Guest& guest : guests_) {
      if (guest.socket.is_open()) refuse(guest, why);
    }
    throw Error(why);
  }

  const Rendezvous& rendezvous_;
  Reception& reception_;
  std::string place_;
  std::vector<Guest> guests_;  ///< by rank; not open for those who have not come
};

/// Rank 0 may be started later than the others.
Socket come_to(const Endpoint& meeting_point, std::chrono::milliseconds timeout) {
  const std::vector<SocketAddress> addresses = resolve(meeting_point);
  const Deadline deadline = Clock::now() + timeout;
  while (true) {
    for (const SocketAddress& address : addresses) {
      if (auto socket = connect_to(address, std::min(deadline, Clock::now() + 5s))) {
        return std::move(*socket);
      }
    }
    if (Clock::now() >= deadline) {
      fail("nobody answers at {} within {} ({}): has rank 0 been started there?",
           to_string(meeting_point), in_seconds(timeout), std::strerror(errno));
    }
    std::this_thread::sleep_for(50ms);
  }
}

/// Rank 0's answer. It has its own deadline, which is the one to tell who is missing.
Meeting hear_answer(const Socket& socket, const Rendezvous& rendezvous) {
  const std::string place = to_string(rendezvous.meeting_point);
  const Deadline deadline = Clock::now() + rendezvous.timeout + 2s;
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
  Answer head;
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

/// One rank's part in connecting each with each: it calls at the lower ranks, the higher call here.
class Introduction {
 public:
  Introduction(const Rendezvous& rendezvous, Meeting meeting, std::vector<PeerSockets>& peers)
      : rendezvous_(rendezvous),
        meeting_(std::move(meeting)),
        peers_(peers),
        deadline_(Clock::now() + rendezvous.timeout) {}

  void call(int rank) {
    for (const Channel channel : {Channel::data, Channel::messages, Channel::control}) {
      Socket& socket = place_of(rank, channel);
      if (socket.is_open()) continue;
      const SocketAddress& address = meeting_.addresses[at(rank)];
      auto made = connect_to(address, deadline_);
      if (!made) {
        fail("rank {} cannot connect to rank {} at {}: {}", rendezvous_.rank, rank,
             to_string(address), std::strerror(errno));
      }
      Hello hello = hello_of(rendezvous_);
      hello.channel = channel;
      hello.meeting = meeting_.number;
      send_all(*made, bytes_of(hello), deadline_);
      socket = std::move(*made);
    }
  }

  void receive_calls(Reception& reception) {
    for (auto missing = missing_ranks(); !missing.empty(); missing = missing_ranks()) {
      auto guest = reception.next(deadline_);
      if (!guest) {
        fail("rank {} waited {} for rank(s) {}; they came to the rendezvous, but not here",
             rendezvous_.rank, in_seconds(rendezvous_.timeout), fmt::join(missing, ", "));
      }
      const Hello& hello = guest->hello;
      if (hello.channel == Channel::rendezvous) {
        refuse(*guest, fmt::format("rank {} came when all ranks were there: was it started twice?",
                                   hello.rank));
      } else if (hello.meeting == meeting_.number && hello.rank > rendezvous_.rank &&
                 hello.rank < rendezvous_.size) {
        place_of(hello.rank, hello.channel) = std::move(guest->socket);
      }
    }
  }

 private:
  Socket& place_of(int rank, Channel channel) {
    PeerSockets& peer = peers_[at(rank)];
    if (channel == Channel::control) return peer.control;
    return channel == Channel::data ? peer.data : peer.messages;
  }

  std::vector<int> missing_ranks() const {
    std::vector<int> missing;
    for (int rank = rendezvous_.rank + 1; rank < rendezvous_.size; ++rank) {
      const PeerSockets& peer = peers_[at(rank)];
      if (!peer.data.is_open() || !peer.messages.is_open() || !peer.control.is_open())
        missing.push_back(rank);
    }
    return missing;
  }

  const Rendezvous& rendezvous_;
  Meeting meeting_;
  std::vector<PeerSockets>& peers_;
  Deadline deadline_;
};

std::vector<PeerSockets> meet_as_host(const Rendezvous& rendezvous) {
  Reception reception(listen_at(rendezvous.meeting_point));
  Host host(rendezvous, reception);
  Meeting meeting = host.assemble();
  std::vector<PeerSockets> peers(at(rendezvous.size));
  for (int rank = 1; rank < rendezvous.size; ++rank) {
    peers[at(rank)].control = host.take_connection(rank);
  }
  Introduction(rendezvous, std::move(meeting), peers).receive_calls(reception);
  return peers;
}

std::vector<PeerSockets> meet_as_guest(const Rendezvous& rendezvous) {
  Socket to_host = come_to(rendezvous.meeting_point, rendezvous.timeout);
  Reception reception(listen_beside(to_host));
  Hello hello = hello_of(rendezvous);
  hello.listens_at = reception.address();
  send_all(to_host, bytes_of(hello), Clock::now() + rendezvous.timeout);
  Meeting meeting = hear_answer(to_host, rendezvous);

  std::vector<PeerSockets> peers(at(rendezvous.size));
  peers[0].control = std::move(to_host);
  Introduction introduction(rendezvous, std::move(meeting), peers);
  for (int rank = 0; rank < rendezvous.rank; ++rank) introduction.call(rank);
  introduction.receive_calls(reception);
  return peers;
}

}  // namespace

std::vector<PeerSockets> meet(const Rendezvous& rendezvous) {
  require(rendezvous.rank >= 0 && rendezvous.rank < rendezvous.size, "a rank is below the size");
  return rendezvous.rank == 0 ? meet_as_host(rendezvous) : meet_as_guest(rendezvous);
}

}  // namespace autopar::runtime
