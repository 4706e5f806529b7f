#include "assignment/relaxation/single_price.h"

#include <catch2/catch.hpp>

using namespace autopar::assignment;

namespace {

const SolverParameters::Relaxation parameters;

/// The price after so many steps, where usage exceeds the limit below `best` and not above it.
double price_after(int steps, double first_step, double best) {
  SinglePrice single;
  double price = 0;
  for (int k = 0; k < steps; ++k) {
    const double excess = price < best ? 3.0 : -2.0;
    price = single.next(price, excess, first_step, false, parameters);
  }
  return price;
}

}  // namespace

TEST_CASE("the price of a single limit comes near the best one, however far it is") {
  for (const double best : {1e-3, 0.5, 40.0}) {
    CHECK(price_after(60, 1e-2, best) == Approx(best).epsilon(0.02));
    CHECK(price_after(200, 1e-2, best) == Approx(best).epsilon(1e-4));
  }
}

TEST_CASE("a price follows the best one where that moves while messages settle") {
  SinglePrice single;
  double price = 0;
  for (int k = 0; k < 120; ++k) {
    const double best = k < 60 ? 1.0 : 0.6;
    price = single.next(price, price < best ? 1.0 : -1.0, 0.1, true, parameters);
  }
  CHECK(price == Approx(0.6).epsilon(0.03));
}

TEST_CASE("a price is never negative, and begins with small steps where it is known") {
  SinglePrice single;
  CHECK(single.next(0, -1, 5, true, parameters) == 0);
  SinglePrice known;
  CHECK(known.next(2, 1, 100, true, parameters) == Approx(2 + 2 * parameters.least_price_step));
}
