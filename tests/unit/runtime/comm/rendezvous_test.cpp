#include "runtime/comm/rendezvous.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "runtime/comm/listener.h"
#include "unit/runtime/comm/tcp_world.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

constexpr auto barrier = [](HostCommunicator& world) { world.barrier(); };

std::string error_of(const Rendezvous& rank) { return errors_of({rank}, barrier).front(); }

Deadline soon() { return std::chrono::steady_clock::now() + 1min; }

/// Comes to a place where somebody will listen soon.
Socket connect_soon(const Endpoint& place) {
  while (true) {
    Connected made = connect_to(system_network(), resolve(place).front(), soon());
    if (made.socket.is_open()) return std::move(made.socket);
  }
}

/// Stays until the other side has gone.
void stay(const Socket& socket) {
  std::byte heard{};
  while (receive_all(socket, {&heard, 1}, soon()) == Moved::all) continue;
}

/// What rank 0 of two throws when somebody comes to it with a first message.
std::string error_at_first_rank(const Handshake& handshake) {
  const Rendezvous host = rendezvous_of(2).front();
  const std::jthread guest([&] {
    const Socket socket = connect_soon(host.meeting_point);
    send_all(socket, bytes_of(handshake), soon());
    stay(socket);
  });
  return error_of(host);
}

Handshake right_handshake() {
  Handshake handshake;
  handshake.rank = 1;
  handshake.size = 2;
  std::ranges::copy(std::string_view("0123456789abcdef"), handshake.bundle_digest.begin());
  return handshake;
}

/// What rank 1 throws when not rank 0 listens, but somebody who does this with a connection.
std::string error_at_guest(const std::function<void(Socket)>& treat) {
  const Rendezvous rank = rendezvous_of(2, 200ms).back();
  const Socket listener = listen_at(system_network(), rank.meeting_point);
  const std::jthread stranger([&] {
    Socket socket;
    while (!socket.is_open()) socket = accept_from(listener);
    treat(std::move(socket));
  });
  return error_of(rank);
}

}  // namespace

TEST_CASE("ranks meet whoever comes first") {
  auto ranks = rendezvous_of(4);
  const auto late = [&](HostCommunicator& world) { world.barrier(); };
  std::vector<std::string> errors;
  {
    const std::jthread others([&] { errors = errors_of({ranks[3], ranks[1], ranks[2]}, late); });
    std::this_thread::sleep_for(200ms);
    CHECK(error_of(ranks[0]).empty());
  }
  CHECK(errors == std::vector<std::string>(3));
}

TEST_CASE("ranks meet at an IPv6 address") {
  Socket listener;
  try {
    listener = listen_at(system_network(), {.host = "::1", .port = 0});
  } catch (const Error&) {
    WARN("this machine has no IPv6");
    return;
  }
  auto ranks = rendezvous_of(3);
  const Endpoint place = free_endpoint("::1");
  for (Rendezvous& rank : ranks) rank.meeting_point = place;
  CHECK(errors_of(ranks, barrier) == std::vector<std::string>(3));
}

TEST_CASE("a port that is in use is refused by rank 0") {
  const Rendezvous host = rendezvous_of(2).front();
  const Socket other = listen_at(system_network(), host.meeting_point);
  CHECK_THAT(error_of(host), Contains(to_string(host.meeting_point)) && Contains("in use"));
}

TEST_CASE("rank 0 listens at its own machine alone") {
  Rendezvous host = rendezvous_of(2).front();
  host.meeting_point.host = "192.0.2.1";  // of no machine, by RFC 5737
  CHECK_THAT(error_of(host), Contains("rank 0 cannot listen at 192.0.2.1:"));
}

TEST_CASE("a host that does not exist is named") {
  auto ranks = rendezvous_of(2);
  for (Rendezvous& rank : ranks) {
    rank.meeting_point.host = "no such host";
    CHECK_THAT(error_of(rank), Contains("host 'no such host' is not known"));
  }
}

TEST_CASE("a meeting point where nobody answers is named") {
  const Rendezvous rank = rendezvous_of(2, 200ms).back();
  CHECK_THAT(error_of(rank), Contains("nobody answers at " + to_string(rank.meeting_point)) &&
                                 Contains("within 0.2 s") && Contains("refused"));
}

TEST_CASE("a rank that never comes is named to all who did") {
  auto ranks = rendezvous_of(4);
  ranks[0].timeout = 2s;
  for (const std::string& error : errors_of({ranks[0], ranks[3]}, barrier)) {
    CHECK_THAT(error, Contains("rank(s) 1, 2 did not come") && Contains("within 2 s"));
  }
}

TEST_CASE("a rank that was started twice is named to all") {
  const auto ranks = rendezvous_of(4);
  for (const std::string& error : errors_of({ranks[0], ranks[2], ranks[2]}, barrier)) {
    CHECK_THAT(error, Contains("rank 2 was started twice, at 127.0.0.1:"));
  }
}

TEST_CASE("ranks of another number of ranks are named to all") {
  auto ranks = rendezvous_of(3);
  ranks[1].size = 2;
  for (const std::string& error : errors_of({ranks[0], ranks[1]}, barrier)) {
    CHECK_THAT(error, Contains("rank 1 is one of 2 ranks, but rank 0 one of 3"));
  }
}

TEST_CASE("ranks of another bundle are named to all") {
  auto ranks = rendezvous_of(3);
  ranks[1].bundle_digest = "0123456789abcdee";
  for (const std::string& error : errors_of({ranks[0], ranks[1]}, barrier)) {
    CHECK_THAT(error, Contains("rank 1 runs another bundle than rank 0"));
  }
}

TEST_CASE("rank 0 refuses a rank that there is not, and one of another version") {
  for (const int rank : {0, 2, -1}) {
    Handshake handshake = right_handshake();
    handshake.rank = rank;
    CHECK_THAT(error_at_first_rank(handshake), Contains("came as rank " + std::to_string(rank)));
  }
  Handshake handshake = right_handshake();
  handshake.signature.version = 99;
  CHECK_THAT(error_at_first_rank(handshake), Contains("another version of autopar"));
}

TEST_CASE("a rank that came and left while others are awaited is named") {
  auto host = rendezvous_of(3).front();
  Handshake handshake = right_handshake();
  handshake.size = 3;
  const std::jthread guest(
      [&] { send_all(connect_soon(host.meeting_point), bytes_of(handshake), soon()); });
  CHECK_THAT(error_of(host), Contains("rank 1 came to") && Contains("left before"));
}

TEST_CASE("strangers who come to rank 0 are turned away, and told of when a rank is missing") {
  auto ranks = rendezvous_of(2);
  std::vector<Socket> strangers(2);
  const std::jthread talking([&] {
    for (Socket& stranger : strangers) stranger = connect_soon(ranks[0].meeting_point);
    send_all(strangers[0], std::as_bytes(std::span("GET / HTTP/1.1\r\n\r\n")), soon());
  });
  SECTION("the ranks meet all the same") {
    std::string error;
    {
      const std::jthread host([&] { error = error_of(ranks[0]); });
      std::this_thread::sleep_for(200ms);
      CHECK(error_of(ranks[1]).empty());
    }
    CHECK(error.empty());
  }
  SECTION("a rank is missing") {
    ranks[0].timeout = 2s;
    CHECK_THAT(error_of(ranks[0]),
               Contains("rank(s) 1 did not come") && Contains("came and was no rank of autopar"));
  }
}

TEST_CASE("a rank that meets a stranger says so") {
  CHECK_THAT(error_at_guest([](Socket socket) {
               send_all(socket, std::as_bytes(std::span("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")),
                        soon());
               stay(socket);
             }),
             Contains("another program"));
  CHECK_THAT(error_at_guest([](const Socket&) {}), Contains("closed the connection"));
  CHECK_THAT(error_at_guest(stay), Contains("gives no answer"));
}
