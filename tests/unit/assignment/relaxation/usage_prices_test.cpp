#include "assignment/relaxation/usage_prices.h"

#include <catch2/catch.hpp>
#include <limits>

using namespace autopar::assignment;

TEST_CASE("prices that grow without end stay below what sums can hold") {
  AssignmentProblem problem;
  problem.nodes.push_back({{0, 0}, {std::int64_t{1} << 50, 7}, 0, 2});
  problem.usage_limits = {5, std::int64_t{1} << 50};
  for (const double price : {1e30, 1e300, std::numeric_limits<double>::infinity()}) {
    CAPTURE(price);
    UsagePrices prices(problem, 16);
    prices.set({price, price});
    REQUIRE(prices.prices().front() > 0);
    REQUIRE(prices.prices().front() < 1e30);
    // The first strategy uses about what both limits allow together, the second one far less.
    CHECK(prices.of(0, 0) > prices.limits_cost() / 2);
    CHECK(prices.of(0, 1) > 0);
    CHECK(prices.of(0, 1) < prices.limits_cost());
    CHECK(prices.limits_cost() < 1e30);
  }
  UsagePrices prices(problem, 16);
  prices.set({3, 0});
  CHECK(prices.prices() == std::vector<double>{3, 0});
  CHECK(prices.of(0, 1) == 16 * 3 * 7);
}
