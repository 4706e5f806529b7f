#include "runtime/comm/rendezvous.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string_view>
#include <thread>

#include "base/error.h"
#include "runtime/comm/listener.h"
#include "unit/runtime/comm/forwarding_network.h"
#include "unit/runtime/comm/tcp_world.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

constexpr const char* secret_of_tests = "a secret of the tests";

constexpr auto barrier = [](HostCommunicator& world) { world.barrier(); };

std::string error_of(const Rendezvous& rank) { return errors_of({rank}, barrier).front(); }

Deadline soon() { return std::chrono::steady_clock::now() + 1min; }

/// A network whose clock a test can put forward.
class PutForwardNetwork final : public ForwardingNetwork {
 public:
  void put_forward(std::chrono::seconds time) { ahead_ += time; }
  Deadline now() override { return below_.now() + ahead_; }
  int poll(std::span<pollfd> handles, Deadline deadline) override {
    return below_.poll(handles, deadline - ahead_);
  }

 private:
  std::chrono::seconds ahead_{0};
};

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

Introduction introduction_of(int rank) {
  Introduction self;
  self.rank = rank;
  self.size = 2;
  self.secret = Secret(secret_of_tests);
  std::ranges::copy(std::string_view("0123456789abcdef"), self.bundle_digest.begin());
  return self;
}

/// Comes to a place as a rank that knows the secret of `self`; what becomes of it.
Dialing::State introduce(const Endpoint& place, const Introduction& self, Socket& socket) {
  while (true) {
    Dialing dialing(system_network(), resolve(place).front(), self, 0, Channel::data);
    Dialing::State state = dialing.advance();
    while (state == Dialing::State::under_way) {
      pollfd awaited = dialing.awaited();
      system_network().poll({&awaited, 1}, soon());
      state = dialing.advance();
    }
    if (state == Dialing::State::unreachable) continue;
    socket = dialing.take();
    return state;
  }
}

/// What rank 0 of two throws when somebody comes who says that of itself, and stays.
std::string error_at_first_rank(const Introduction& self) {
  const Rendezvous host = rendezvous_of(2).front();
  const std::jthread guest([&] {
    Socket socket;
    introduce(host.meeting_point, self, socket);
    stay(socket);
  });
  return error_of(host);
}

/// A hello as `self` would say it, without anything behind it.
Hello hello_of(const Introduction& self) {
  Hello hello;
  hello.rank = self.rank;
  hello.size = self.size;
  hello.bundle_digest = self.bundle_digest;
  hello.nonce = draw_nonce();
  return hello;
}

/// What rank 1 throws when not rank 0 listens, but somebody who does this with a connection.
std::string error_at_guest(const std::function<void(Socket)>& treat) {
  const Rendezvous rank = rendezvous_of(2, 200ms).back();
  const Socket listener = listen_at(system_network(), rank.meeting_point);
  const std::jthread stranger([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (Socket socket = accept_from(listener); socket.is_open()) treat(std::move(socket));
    }
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
    rank.timeout = 200ms;  // it may be a container's, which is known once that runs
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

TEST_CASE("rank 0 refuses a rank that there is not") {
  for (const int rank : {0, 2, -1})
    CHECK_THAT(error_at_first_rank(introduction_of(rank)),
               Contains("came as rank " + std::to_string(rank)));
}

TEST_CASE("a rank that came and left while others are awaited is named") {
  auto host = rendezvous_of(3).front();
  Introduction self = introduction_of(1);
  self.size = 3;
  const std::jthread guest([&] {
    Socket socket;
    CHECK(introduce(host.meeting_point, self, socket) == Dialing::State::proven);
  });
  CHECK_THAT(error_of(host), Contains("rank 1 came to") && Contains("left before"));
}

TEST_CASE("who is no rank that knows the secret is turned away, and the ranks meet") {
  auto ranks = rendezvous_of(2);
  std::vector<Socket> strangers(4);
  std::vector<std::string> errors(2);
  {
    const std::jthread host([&] { errors[0] = error_of(ranks[0]); });
    for (Socket& stranger : strangers) stranger = connect_soon(ranks[0].meeting_point);
    SECTION("it speaks of other things, or not at all") {
      send_all(strangers[0], std::as_bytes(std::span("GET / HTTP/1.1\r\n\r\n")), soon());
      stay(strangers[0]);
    }
    SECTION("it says a hello of another version") {
      Hello hello = hello_of(introduction_of(1));
      hello.signature.version = 99;
      send_all(strangers[0], bytes_of(hello), soon());
      Answer answer;
      CHECK(receive_all(strangers[0], writable_bytes_of(answer), soon()) == Moved::all);
      CHECK(answer.signature == Signature());
      stay(strangers[0]);
    }
    SECTION("it has the bundle's digest and a proof that is none") {
      send_all(strangers[0], bytes_of(hello_of(introduction_of(1))), soon());
      send_all(strangers[0], bytes_of(Proof{}), soon());
      stay(strangers[0]);
    }
    SECTION("it knows another secret") {
      Introduction self = introduction_of(1);
      self.secret = Secret("another secret of the tests");
      Socket socket;
      CHECK(introduce(ranks[0].meeting_point, self, socket) == Dialing::State::unproven);
    }
    SECTION("it sends back what rank 0 has proven itself with") {
      send_all(strangers[0], bytes_of(hello_of(introduction_of(1))), soon());
      ProvenAnswer answer;
      CHECK(receive_all(strangers[0], writable_bytes_of(answer), soon()) == Moved::all);
      send_all(strangers[0], bytes_of(answer.proof), soon());
      stay(strangers[0]);
    }
    errors[1] = error_of(ranks[1]);
  }
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("what a rank has said once serves nobody again") {
  // A stranger between the two, who keeps what rank 1 sends and gives it to rank 0 later.
  const Rendezvous host = rendezvous_of(2).front();
  Introduction self = introduction_of(1);
  Hello hello = hello_of(self);
  std::string error;
  {
    const std::jthread rank0([&] {
      error = errors_of({[&] {
                          Rendezvous impatient = host;
                          impatient.timeout = 2s;
                          return impatient;
                        }()},
                        barrier)
                  .front();
    });
    const auto prove = [&](const Proof* old) {
      const Socket socket = connect_soon(host.meeting_point);
      send_all(socket, bytes_of(hello), soon());
      ProvenAnswer answer;
      CHECK(receive_all(socket, writable_bytes_of(answer), soon()) == Moved::all);
      const Proof proof = self.secret.prove("autopar: the rank that connects",
                                            {bytes_of(hello), bytes_of(answer.answer)});
      if (old != nullptr) {
        CHECK_FALSE(is_same(proof, *old));
        send_all(socket, bytes_of(*old), soon());
        stay(socket);
      }
      return proof;
    };
    const Proof first = prove(nullptr);
    prove(&first);
  }
  CHECK_THAT(error, Contains("rank(s) 1 did not come") &&
                        Contains("could not prove that it knows the ranks' secret"));
}

TEST_CASE("strangers that are idle keep no rank out") {
  auto ranks = rendezvous_of(3);
  std::string of_host;
  {
    const std::jthread host([&] { of_host = error_of(ranks[0]); });
    std::vector<Socket> idle;
    for (int i = 0; i < 300; ++i) idle.push_back(connect_soon(ranks[0].meeting_point));
    CHECK(errors_of({ranks[1], ranks[2]}, barrier) == std::vector<std::string>(2));
  }
  CHECK(of_host.empty());
}

TEST_CASE("who says nothing is turned away, and a rank that is slow to prove who it is is not") {
  const Endpoint place = free_endpoint();
  PutForwardNetwork network;
  Listener listener(listen_at(network, place),
                    std::make_shared<const Introduction>(introduction_of(0)));
  const Socket silent = connect_soon(place);
  const Introduction self = introduction_of(1);
  Dialing slow(system_network(), resolve(place).front(), self, 0, Channel::data);
  while (!slow.is_connected()) slow.advance();
  for (int ready = 0; ready == 0;) {
    CHECK_FALSE(listener.take());
    pollfd answer = slow.awaited();
    ready = system_network().poll({&answer, 1}, system_network().now() + 1ms);
  }

  network.put_forward(1h);
  CHECK_FALSE(listener.take());
  CHECK(listener.strangers().count == 1);
  CHECK_THAT(listener.strangers().last, Contains("said nothing"));

  std::optional<IncomingPeer> peer;
  while (!peer && slow.advance() == Dialing::State::under_way) peer = listener.take();
  REQUIRE(peer);
  CHECK(peer->hello.rank == 1);
}

TEST_CASE("strangers are told of when a rank is missing") {
  auto host = rendezvous_of(2).front();
  host.timeout = 2s;
  const std::jthread stranger([&] {
    const Socket socket = connect_soon(host.meeting_point);
    send_all(socket, std::as_bytes(std::span("GET / HTTP/1.1\r\n\r\n")), soon());
    stay(socket);
  });
  CHECK_THAT(error_of(host), Contains("rank(s) 1 did not come") &&
                                 Contains("1 other(s) came and were turned away: the last, 127.") &&
                                 Contains("is no rank of autopar"));
}

TEST_CASE("rank 0 with another secret is found out") {
  auto ranks = rendezvous_of(2, 2s);
  ranks[0].secret = "another secret of the tests";
  SECTION("of the same bundle") {}
  SECTION("of another bundle") { ranks[0].bundle_digest = "another bundle"; }
  const auto errors = errors_of(ranks, barrier);
  CHECK_THAT(errors[0], Contains("rank(s) 1 did not come") && Contains("turned away"));
  const bool is_same_bundle = ranks[0].bundle_digest == ranks[1].bundle_digest;
  CHECK_THAT(errors[1], Contains("rank 0 at " + to_string(ranks[0].meeting_point)) &&
                            Contains(is_same_bundle ? "cannot prove that it knows the secret"
                                                    : "runs another bundle"));
}

TEST_CASE("a rank that meets a stranger says so") {
  CHECK_THAT(error_at_guest([](Socket socket) {
               send_all(socket, std::as_bytes(std::span("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")),
                        soon());
               stay(socket);
             }),
             Contains("another program"));
  CHECK_THAT(error_at_guest([](const Socket&) {}), Contains("closed the connection"));
  CHECK_THAT(error_at_guest([](Socket socket) {
               Answer answer;
               answer.signature.version = 3;
               send_all(socket, bytes_of(answer), soon());
               stay(socket);
             }),
             Contains("runs another version of autopar"));
  CHECK_THAT(error_at_guest(stay), Contains("gives no answer"));
}
