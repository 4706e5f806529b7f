#include "assignment/elimination/usage_slots.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "unit/assignment/small_problems.h"

using namespace autopar::assignment;

namespace {

/// What elimination sees of a choice: that all sums keep their limits.
bool keeps_limits(const AssignmentProblem& problem, const BucketTree& tree,
                  const std::vector<int>& choice) {
  const auto all = usage_slots(problem, tree);
  std::vector<std::vector<std::int64_t>> values(all.size());
  for (std::size_t k = 0; k < all.size(); ++k) {
    const Bucket& bucket = tree.buckets()[k];
    const auto node = static_cast<std::size_t>(bucket.node);
    const UsageSlots& slots = all[k];
    std::vector<std::int64_t> sums;
    for (std::size_t sum = 0; sum < slots.limits.size(); ++sum) {
      std::int64_t value = slots.has_node[sum]
                               ? problem.nodes[node].usages[static_cast<std::size_t>(choice[node])]
                               : 0;
      for (std::size_t c = 0; c < bucket.children.size(); ++c) {
        const int slot = slots.child_slots[c][sum];
        if (slot >= 0) value += values[bucket.children[c]].at(static_cast<std::size_t>(slot));
      }
      if (value > slots.limits[sum]) return false;
      sums.push_back(value);
    }
    for (const auto& terms : slots.slots) {
      std::vector<std::int64_t> candidates;
      for (const auto& [sum, more] : terms) {
        candidates.push_back(sums.at(static_cast<std::size_t>(sum)) + more);
      }
      values[k].push_back(std::ranges::max(candidates));
    }
  }
  return true;
}

/// Nodes that live for some of many times, which differ in few of them.
AssignmentProblem problem_over_time(std::mt19937& random) {
  AssignmentProblem problem;
  const int times = draw(random, 2, 20);
  const int nodes = draw(random, 3, 9);
  for (int i = 0; i < nodes; ++i) {
    auto& node = problem.nodes.emplace_back();
    node.usages = {draw(random, 0, 9), draw(random, 0, 9)};
    node.costs = {0, 0};
    const bool is_always_alive = draw(random, 0, 2) == 0;
    node.first = is_always_alive ? 0 : draw(random, 0, times - 1);
    node.end = is_always_alive ? times : draw(random, node.first + 1, times);
    if (i > 0) {
      auto& edge = problem.edges.emplace_back();
      edge.a = draw(random, std::max(0, i - 2), i - 1);
      edge.b = i;
      edge.costs.edit().assign(4, 0);
    }
  }
  const bool is_same = draw(random, 0, 1) == 0;
  const int limit = draw(random, 5, 40);
  for (int t = 0; t < times; ++t) {
    problem.usage_limits.push_back(is_same ? limit : draw(random, 5, 40));
  }
  return problem;
}

}  // namespace

TEST_CASE("what slots tell of a choice's usage is whether it is within the limits") {
  std::mt19937 random(171);
  int within = 0;
  int over = 0;
  for (int round = 0; round < 2000; ++round) {
    AssignmentProblem problem = problem_over_time(random);
    if (round % 2 == 0 && !compress_usage(problem)) continue;
    const auto tree = BucketTree::make(problem, {});
    REQUIRE(tree);
    CAPTURE(round);
    for (int sample = 0; sample < 10; ++sample) {
      const auto choice = random_choice(random, problem);
      const bool is_within = within_limits(problem, choice);
      REQUIRE(keeps_limits(problem, *tree, choice) == is_within);
      (is_within ? within : over) += 1;
    }
  }
  CHECK(within > 2000);
  CHECK(over > 2000);
}

TEST_CASE("layers with weights and a peak each leave two slots: weights, and the highest peak") {
  AssignmentProblem problem;
  constexpr int layers = 20;
  for (int layer = 0; layer < layers; ++layer) {
    const int weight = static_cast<int>(problem.nodes.size());
    problem.nodes.push_back({.costs = {0, 0}, .usages = {0, 5}, .first = 0, .end = layers});
    problem.nodes.push_back({.costs = {0, 0}, .usages = {0, 7}, .first = layer, .end = layer + 1});
    problem.edges.push_back({weight, weight + 1, {0, 0, 0, 0}});
    if (layer > 0) problem.edges.push_back({weight - 1, weight + 1, {0, 0, 0, 0}});
    problem.usage_limits.push_back(50);
  }
  const auto tree = BucketTree::make(problem, {});
  REQUIRE(tree);
  for (const UsageSlots& slots : usage_slots(problem, *tree)) {
    CHECK(slots.slots.size() <= 2);
    CHECK(slots.limits.size() <= 4);
  }
}
