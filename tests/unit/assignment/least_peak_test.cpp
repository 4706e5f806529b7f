#include "assignment/least_peak.h"

#include <catch2/catch.hpp>
#include <span>

#include "unit/assignment/brute_force.h"
#include "unit/assignment/random_problem.h"

using namespace autopar::assignment;

namespace {

/// The least over all choices of the largest usage at times [first, end), limits elsewhere kept.
std::optional<std::int64_t> least_peak_by_brute_force(const AssignmentProblem& problem, int first,
                                                      int end) {
  AssignmentProblem limited = problem;
  limited.usage_limits.resize(std::max(limited.usage_limits.size(), static_cast<std::size_t>(end)),
                              -1);
  for (std::int64_t limit = 0; limit < 100; ++limit) {
    std::fill(limited.usage_limits.begin() + first, limited.usage_limits.begin() + end, limit);
    if (solve_by_brute_force(limited).status == Status::optimal) return limit;
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("the least peak usage equals brute force") {
  std::mt19937 random(17);
  int asked = 0;
  for (int round = 0; round < 150; ++round) {
    AssignmentProblem problem = random_problem(random);
    if (problem.nodes.size() > 5) continue;
    const int first = draw(random, 0, 2);
    const int end = first + draw(random, 1, 3);
    CAPTURE(round, first, end);
    const auto found = find_least_peak(problem, first, end, {});
    const auto least = least_peak_by_brute_force(problem, first, end);
    REQUIRE(found.has_value() == least.has_value());
    if (!found) continue;
    REQUIRE(cost_of(problem, found->choice) < impossible);
    REQUIRE(found->peak == *least);
    REQUIRE(found->lower_bound == *least);
    std::vector<std::int64_t> usage = usage_over_time(problem, found->choice);
    usage.resize(static_cast<std::size_t>(end) + 8, 0);
    REQUIRE(std::ranges::max(std::span(usage).subspan(
                static_cast<std::size_t>(first), static_cast<std::size_t>(end - first))) == *least);
    ++asked;
  }
  CHECK(asked > 50);
}
