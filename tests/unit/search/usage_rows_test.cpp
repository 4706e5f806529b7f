#include "search/usage_rows.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "random_problem.h"
#include "search/presolve.h"

using namespace autopar::search;

namespace {

std::vector<int> numbers(std::size_t count) {
  std::vector<int> result(count);
  std::iota(result.begin(), result.end(), 0);
  return result;
}

bool is_alive(const AssignmentProblem::Node& node, int time) {
  return node.first <= time && time < node.end;
}

}  // namespace

TEST_CASE("the names of times stay with their limits and with the nodes alive then") {
  std::mt19937 random(131);
  int dropped = 0;
  for (int round = 0; round < 500; ++round) {
    const AssignmentProblem problem = random_problem(random);
    AssignmentProblem compressed = problem;
    std::vector<int> names = numbers(problem.usage_limits.size());
    if (!compress_usage(compressed, &names)) continue;
    CAPTURE(round);
    REQUIRE(names.size() == compressed.usage_limits.size());
    dropped += names.size() < problem.usage_limits.size() && !names.empty() ? 1 : 0;
    for (std::size_t k = 0; k < names.size(); ++k) {
      const int time = names[k];
      std::int64_t limit = problem.usage_limits.at(static_cast<std::size_t>(time));
      for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
        const auto& node = problem.nodes[i];
        const auto [least, most] = std::ranges::minmax(node.usages);
        if (is_alive(node, time)) limit -= least;
        REQUIRE(is_alive(compressed.nodes[i], static_cast<int>(k)) ==
                (is_alive(node, time) && least < most));
      }
      REQUIRE(compressed.usage_limits[k] == limit);
    }
  }
  CHECK(dropped > 50);
}

TEST_CASE("the times of a presolved core are the whole problem's") {
  std::mt19937 random(132);
  int compared = 0;
  for (int round = 0; round < 800; ++round) {
    const AssignmentProblem problem = random_problem(random);
    const auto presolved = presolve(problem);
    if (!presolved) continue;
    CAPTURE(round);
    REQUIRE(presolved->times.size() == presolved->core.usage_limits.size());
    for (std::size_t k = 0; k < presolved->times.size(); ++k) {
      const int time = presolved->times[k];
      REQUIRE(presolved->core.usage_limits[k] <=
              problem.usage_limits.at(static_cast<std::size_t>(time)));
      for (std::size_t i = 0; i < presolved->nodes.size(); ++i) {
        const auto& node = problem.nodes[static_cast<std::size_t>(presolved->nodes[i])];
        if (!is_alive(presolved->core.nodes[i], static_cast<int>(k))) continue;
        ++compared;
        REQUIRE(is_alive(node, time));
      }
    }
  }
  CHECK(compared > 100);
}
