#include "cost/sized_rate.h"

#include <catch2/catch.hpp>
#include <random>

#include "base/error.h"

using autopar::InternalError;
using autopar::cost::SizedRate;

TEST_CASE("a number is a rate at every size") {
  const SizedRate rate = 50;
  CHECK(rate.at(1e-3) == 50);
  CHECK(rate.at(1e9) == 50);
  CHECK(rate.seconds(100) == 2);
  CHECK(rate.seconds(0) == 0);
  CHECK(rate.is_constant());
  CHECK(rate.takes_longer_for_more());
}

TEST_CASE("between two sizes a rate is a power of the size, beyond them it is theirs") {
  const SizedRate rate({{1e2, 10}, {1e4, 1000}, {1e6, 500}});
  CHECK(rate.at(1) == 10);
  CHECK(rate.at(1e2) == 10);
  CHECK(rate.at(1e3) == Approx(100));
  CHECK(rate.at(1e4) == Approx(1000));
  CHECK(rate.at(1e9) == 500);
  CHECK(rate.highest() == 1000);
  CHECK_FALSE(rate.is_constant());
  CHECK(rate.takes_longer_for_more());
  CHECK_FALSE(SizedRate({{1, 1}, {2, 8}}).takes_longer_for_more());
}

TEST_CASE("more takes no less time where it does not from one given size to the next") {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> exponent(0, 1);
  for (int round = 0; round < 50; ++round) {
    std::vector<SizedRate::Point> points;
    double size = 1;
    double seconds = 1;
    for (int i = 0; i < 6; ++i) {
      points.push_back({size, size / seconds});
      size *= 1.1 + 9 * exponent(random);
      seconds *= 1 + 5 * exponent(random);
    }
    const SizedRate rate(points);
    REQUIRE(rate.takes_longer_for_more());
    double longest = 0;
    for (double at = 0.1; at < 2 * size; at *= 1.07) {
      CHECK(rate.seconds(at) >= longest * (1 - 1e-12));
      longest = rate.seconds(at);
    }
  }
}

TEST_CASE("a rate needs points whose sizes rise") {
  using Points = std::vector<SizedRate::Point>;
  CHECK_THROWS_AS(SizedRate(Points{}), InternalError);
  CHECK_THROWS_AS(SizedRate(Points{{2, 1}, {1, 1}}), InternalError);
  CHECK_THROWS_AS(SizedRate(Points{{1, 1}, {1, 2}}), InternalError);
  CHECK_THROWS_AS(SizedRate(Points{{0, 1}}), InternalError);
  CHECK_THROWS_AS(SizedRate(Points{{1, 0}}), InternalError);
}
