#include "runtime/comm/signs_of_life.h"

#include <catch2/catch.hpp>

using namespace autopar::runtime;
using namespace std::chrono_literals;
using Catch::Matchers::Contains;

namespace {

using Ranks = std::vector<int>;

constexpr auto timeout = std::chrono::milliseconds(8000);

/// A world of four as rank 0 knows it, by a clock of the test's own.
struct World {
  SignsOfLife signs{4};
  SteadyTime now{1h};
  Vigil vigil{signs, 0, timeout, now};

  /// Looks whenever the wait wants to, while other ranks give signs each second, until somebody is
  /// to blame or so much time has passed.
  Ranks wait(const Ranks& missing, std::chrono::seconds most, const Ranks& working,
             const Ranks& waiting) {
    const SteadyTime end = now + most;
    SteadyTime next_sign = now;
    while (now < end) {
      for (; next_sign <= now; next_sign += 1s) {
        for (const int rank : working) signs.hear(rank, Sign::works, next_sign);
        for (const int rank : waiting) signs.hear(rank, Sign::waits, next_sign);
      }
      now = vigil.next_look();
      if (Ranks blamed = vigil.to_blame(missing, now); !blamed.empty()) return blamed;
    }
    return {};
  }
};

}  // namespace

TEST_CASE("a rank that gives no sign is named at the timeout, among others that work or wait") {
  World world;
  const SteadyTime begin = world.now;
  CHECK(world.wait({1, 2, 3}, 1h, {1}, {3}) == Ranks{2});
  CHECK(world.now - begin == timeout);
  CHECK_THAT(world.vigil.absence("barrier", {2}, world.now),
             Contains("rank 0: barrier waited 8000 ms for rank(s) 2; they did not come"));
}

TEST_CASE("a rank that works is waited for, however long") {
  World world;
  CHECK(world.wait({2}, 10h, {2}, {1, 3}).empty());
}

TEST_CASE("a rank that stops after hours is named a timeout behind its last sign") {
  World world;
  CHECK(world.wait({2}, 5h, {2}, {1, 3}).empty());
  const SteadyTime stopped = world.now;
  CHECK(world.wait({2}, 1h, {}, {1, 3}) == Ranks{2});
  CHECK(world.now - stopped <= timeout);
}

TEST_CASE("who waits for a silent rank itself is not to blame, but the silent one is") {
  World world;
  CHECK(world.wait({1}, 1h, {}, {1, 3}) == Ranks{2});
}

TEST_CASE(
    "who waits for a rank that works is not to blame, nor is a silent one that is not missed") {
  World world;
  CHECK(world.wait({1}, 1h, {3}, {1}).empty());
}

TEST_CASE("where all wait for each other, those that are missing are named after two timeouts") {
  World world;
  const SteadyTime begin = world.now;
  CHECK(world.wait({1, 2}, 1h, {}, {1, 2, 3}) == Ranks{1, 2});
  CHECK(world.now - begin >= 2 * timeout);
  CHECK(world.now - begin <= 2 * timeout + sign_interval(timeout));
  CHECK_THAT(world.vigil.absence("barrier", {1, 2}, world.now), Contains("16000 ms"));
}

TEST_CASE("a rank that was stopped itself blames nobody for what it could not hear") {
  World world;
  world.now += 1h;
  CHECK(world.vigil.to_blame({1, 2, 3}, world.now).empty());
  const SteadyTime awake = world.now;
  CHECK(world.wait({1, 2, 3}, 1h, {1, 3}, {}) == Ranks{2});
  CHECK(world.now - awake == timeout);
}

TEST_CASE("a rank that has left is missed in a wait, but not where all leave") {
  World world;
  world.signs.hear(1, Sign::leaves, world.now);
  Vigil last(world.signs, 0, timeout, world.now, Vigil::Leavers::are_well);
  for (int i = 1; i < 8; ++i) {
    world.now += 1s;
    world.signs.hear(1, Sign::leaves, world.now);
    world.signs.hear(2, Sign::leaves, world.now);
    CHECK(last.to_blame({1, 2, 3}, world.now).empty());
    CHECK(world.vigil.to_blame({1}, world.now).empty());
  }
  world.now += 1s;
  CHECK(last.to_blame({1, 2, 3}, world.now) == Ranks{3});
  CHECK(world.vigil.to_blame({1}, world.now) == Ranks{1});
}
