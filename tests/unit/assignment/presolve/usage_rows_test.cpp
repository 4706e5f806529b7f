#include "assignment/presolve/usage_rows.h"

#include <catch2/catch.hpp>

#include "assignment/presolve/presolve.h"
#include "unit/assignment/small_problems.h"

using namespace autopar::assignment;

namespace {

/// What the choice pays for usage over the limits, less for what it is below them.
double paid(const AssignmentProblem& problem, const std::vector<double>& prices,
            const std::vector<int>& choice) {
  const auto usage = usage_over_time(problem, choice);
  double sum = 0;
  for (std::size_t t = 0; t < problem.usage_limits.size(); ++t) {
    if (problem.usage_limits[t] < 0) continue;
    sum += prices[t] * static_cast<double>(usage[t] - problem.usage_limits[t]);
  }
  return sum;
}

}  // namespace

TEST_CASE("prices pass to the times that are left, so that no choice pays less") {
  std::mt19937 random(131);
  int same = 0;
  int more = 0;
  for (int round = 0; round < 500; ++round) {
    const AssignmentProblem problem = random_problem(random);
    AssignmentProblem compressed = problem;
    const auto prices = random_prices(random, problem.usage_limits.size());
    auto passed = prices;
    if (!compress_usage(compressed, &passed)) continue;
    CAPTURE(round);
    REQUIRE(passed.size() == compressed.usage_limits.size());
    for (int sample = 0; sample < 20; ++sample) {
      const auto choice = random_choice(random, problem);
      const double before = paid(problem, prices, choice);
      const double after = paid(compressed, passed, choice);
      REQUIRE(after >= before);
      (after > before ? more : same) += 1;
    }
  }
  CHECK(same > 1000);
  CHECK(more > 1000);
}

TEST_CASE("prices pass to a presolved core, so that no choice pays less") {
  std::mt19937 random(132);
  int compared = 0;
  for (int round = 0; round < 800; ++round) {
    const AssignmentProblem problem = random_problem(random);
    const auto prices = random_prices(random, problem.usage_limits.size());
    const auto presolved = presolve(problem, prices);
    if (!presolved) continue;
    CAPTURE(round);
    REQUIRE(presolved->prices.size() == presolved->core.usage_limits.size());
    for (int sample = 0; sample < 10; ++sample) {
      const auto choice = random_choice(random, presolved->core);
      const double after = paid(presolved->core, presolved->prices, choice);
      REQUIRE(after >= paid(problem, prices, presolved->original(choice)));
      compared += presolved->prices.empty() ? 0 : 1;
    }
  }
  CHECK(compared > 500);
}
