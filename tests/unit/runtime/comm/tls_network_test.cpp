#include "runtime/comm/tls_network.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <mutex>
#include <thread>

#include "conformance/communicator_conformance.h"
#include "runtime/comm/socket.h"
#include "unit/runtime/comm/forwarding_network.h"
#include "unit/runtime/comm/tcp_world.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

/// The system's network, with somebody on the way who keeps what is sent and may change it.
class TappedNetwork final : public ForwardingNetwork {
 public:
  /// Changes bit 0 of the byte of that number among all that are sent.
  void flip(std::size_t place) { flipped_ = place; }
  std::string heard() {
    const std::lock_guard lock(tapping_);
    return heard_;
  }

  ssize_t send(int socket, std::span<const iovec> parts) noexcept override {
    const std::lock_guard lock(tapping_);
    std::string bytes;
    for (const iovec& part : parts)
      bytes.append(static_cast<const char*>(part.iov_base), part.iov_len);
    std::string changed = bytes;
    if (flipped_ >= heard_.size() && flipped_ < heard_.size() + bytes.size())
      changed[flipped_ - heard_.size()] ^= 1;
    const iovec whole{changed.data(), changed.size()};
    const ssize_t sent = below_.send(socket, {&whole, 1});
    if (sent > 0) heard_ += bytes.substr(0, static_cast<std::size_t>(sent));
    return sent;
  }

 private:
  std::mutex tapping_;
  std::string heard_;
  std::size_t flipped_ = static_cast<std::size_t>(-1);
};

std::vector<Rendezvous> over(Network& network, std::vector<Rendezvous> ranks) {
  for (Rendezvous& rank : ranks) rank.network = &network;
  return ranks;
}

/// Both ends of a connection on this machine.
std::pair<Socket, Socket> connected_pair(Network& network) {
  const Endpoint place = free_endpoint();
  const Socket listener = listen_at(network, place);
  const Deadline deadline = network.now() + 1min;
  Connected connected = connect_to(network, resolve(place).front(), deadline);
  Socket accepted;
  while (!accepted.is_open()) accepted = accept_from(listener);
  return {std::move(connected.socket), std::move(accepted)};
}

}  // namespace

TEST_CASE("ranks that meet over TLS conform to what a communicator must do") {
  // Keys are updated behind each third record, too.
  TlsNetwork network(system_network(), GENERATE(std::int64_t{3}, TlsNetwork::safe_records));
  for (const int ranks : {2, 3, 5}) {
    const auto errors = errors_of(over(network, rendezvous_of(ranks)), [](HostCommunicator& world) {
      CHECK(world.encrypts());
      check_conformance(world);
    });
    CHECK(errors == std::vector<std::string>(static_cast<std::size_t>(ranks)));
  }
}

TEST_CASE("over TLS, messages larger than any buffer go both ways at once") {
  TlsNetwork network(system_network());
  constexpr std::int64_t bytes = 64 << 20;
  const auto errors = errors_of(over(network, rendezvous_of(2)), [&](HostCommunicator& world) {
    const auto letter = [](int rank, std::int64_t i) { return std::byte((i * 31 + rank) & 0xff); };
    std::vector<std::byte> mine(bytes);
    std::vector<std::byte> theirs(2 * bytes);
    for (std::int64_t i = 0; i < bytes; ++i) mine[std::size_t(i)] = letter(world.rank(), i);
    world.all_gather(mine.data(), theirs.data(), std::vector<std::int64_t>(2, bytes));
    for (std::int64_t i = 0; i < 2 * bytes; ++i) {
      if (theirs[std::size_t(i)] != letter(static_cast<int>(i / bytes), i % bytes))
        throw std::runtime_error("wrong bytes");
    }
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("what ranks send over TLS cannot be read on the way") {
  TappedNetwork tapped;
  TlsNetwork encrypted(tapped);
  const bool is_encrypted = GENERATE(true, false);
  Network& network = is_encrypted ? static_cast<Network&>(encrypted) : tapped;
  const std::string words = "a text that somebody on the way would like to read";
  const auto errors = errors_of(over(network, rendezvous_of(2)), [&](HostCommunicator& world) {
    std::string text = world.rank() == 0 ? words : std::string(words.size(), ' ');
    world.broadcast(reinterpret_cast<std::byte*>(text.data()), std::ssize(text), 0);
    if (text != words) throw std::runtime_error("wrong bytes");
  });
  CHECK(errors == std::vector<std::string>(2));
  CHECK((tapped.heard().find(words) == std::string::npos) == is_encrypted);
}

TEST_CASE("what is changed on the way is never believed by ranks that meet over TLS") {
  const auto run = [](TappedNetwork& tapped) {
    TlsNetwork network(tapped);
    return errors_of(over(network, rendezvous_of(2, 3s)), [](HostCommunicator& world) {
      const std::vector<std::byte> sent(1000, std::byte(7));  // more than handshakes take
      for (int turn = 0; turn < 10; ++turn) {
        std::vector<std::byte> text =
            world.rank() == turn % 2 ? sent : std::vector<std::byte>(1000);
        world.broadcast(text.data(), std::ssize(text), turn % 2);
        if (text != sent) throw std::runtime_error("wrong bytes");
      }
    });
  };
  TappedNetwork undisturbed;
  CHECK(run(undisturbed) == std::vector<std::string>(2));
  const std::size_t length = undisturbed.heard().size();
  int ended = 0;
  int tries = 0;
  for (std::size_t place = 5; place < length; place += 537) {
    TappedNetwork tapped;
    tapped.flip(place);
    const auto errors = run(tapped);
    INFO(place << " of " << length);
    for (const std::string& error : errors) CHECK_THAT(error, !Contains("wrong bytes"));
    // While ranks meet, they may try again.
    ended += errors != std::vector<std::string>(2) ? 1 : 0;
    ++tries;
  }
  CHECK(tries > 10);
  CHECK(ended > tries / 2);
}

TEST_CASE("a rank that encrypts and one that does not are told so") {
  TlsNetwork network(system_network());
  auto ranks = rendezvous_of(2, 2s);
  const int encrypting = GENERATE(0, 1);
  ranks[std::size_t(encrypting)].network = &network;
  const auto errors = errors_of(ranks, [](HostCommunicator& world) { world.barrier(); });
  CHECK_THAT(errors[0],
             Contains("rank(s) 1 did not come") && Contains("give --tls to all or to none"));
  CHECK_THAT(errors[1], Contains("encrypts (--tls)") && Contains("give --tls to all or to none") &&
                            Contains(encrypting == 0 ? "rank 0 at" : "rank 1 encrypts"));
}

TEST_CASE("who has another key is found out before a byte is believed") {
  TlsNetwork network(system_network());
  auto [connected, accepted] = connected_pair(network);
  const bool is_same = GENERATE(true, false);
  network.encrypt(connected.handle(), Side::connects, Key{std::byte(1)});
  network.encrypt(accepted.handle(), Side::listens, Key{std::byte(is_same ? 1 : 2)});
  const std::string words = "words";
  std::string heard(words.size(), ' ');
  Moved received = Moved::not_yet;
  {
    const std::jthread listener([&, &of_listener = accepted] {
      received =
          receive_all(of_listener, std::as_writable_bytes(std::span(heard)), network.now() + 1min);
      of_listener = Socket();
    });
    send_all(connected, std::as_bytes(std::span(words)), network.now() + 1min);
  }
  CHECK(received == (is_same ? Moved::all : Moved::closed));
  CHECK((heard == words) == is_same);
}
