#include <catch2/catch.hpp>
#include <functional>
#include <random>

#include "assignment/cost_table.h"
#include "search/stages/stage_sequence.h"

using namespace autopar;
using assignment::Cost;
using assignment::impossible;
using plan::Objective;
using search::SequenceProblem;
using search::StageChoice;
using search::StageSequence;

namespace {

using Random = std::mt19937;

int pick(Random& random, int from, int to) {
  return std::uniform_int_distribution<int>(from, to)(random);
}

/// Small costs, so that many sequences cost the same. A transfer falls with the smaller stage's
/// size in half of the problems, and is anything in the others.
SequenceProblem random_problem(Random& random) {
  SequenceProblem problem;
  problem.layers = pick(random, 1, 5);
  problem.devices = pick(random, 1, 8);
  problem.devices_per_node = problem.devices;
  for (const int per_node : {2, 3, 4}) {
    if (problem.devices % per_node == 0 && pick(random, 0, 2) == 0)
      problem.devices_per_node = per_node;
  }
  for (int size = 1; size <= problem.devices; ++size) {
    const bool is_power = (size & (size - 1)) == 0 && size <= problem.devices_per_node;
    if (is_power || size % problem.devices_per_node == 0) problem.sizes.push_back(size);
  }
  problem.allocate();
  const int most = pick(random, 0, 1) ? 8 : 1000;
  for (Cost& cost : problem.stages) cost = pick(random, 0, 5) ? pick(random, 0, most) : impossible;
  const int crossing = pick(random, 0, 1) ? most / 2 : most / 8;
  const int kind = pick(random, 0, 1);
  for (int begins = 0; begins < 2; ++begins) {
    for (int cut = 1; cut < problem.layers; ++cut) {
      const int bytes = pick(random, 0, crossing);
      for (int size = 0; size < static_cast<int>(problem.sizes.size()); ++size) {
        problem.transfer(begins == 1, cut, size) =
            kind ? bytes / problem.sizes[static_cast<std::size_t>(size)]
                 : pick(random, 0, crossing);
      }
    }
  }
  problem.microbatches = pick(random, 0, 3) ? pick(random, 1, 9) : 1;
  problem.objective = pick(random, 0, 2) ? Objective::latency : Objective::throughput;
  if (pick(random, 0, 1)) problem.stage_count = pick(random, 1, problem.layers);
  return problem;
}

/// What a sequence comes to, from the problem's words alone; nothing where it is no sequence.
std::optional<StageSequence> priced(const SequenceProblem& problem,
                                    const std::vector<StageChoice>& stages) {
  StageSequence result{.stages = stages};
  int layer = 0;
  int device = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageChoice& stage = stages[s];
    const int size = problem.sizes.at(static_cast<std::size_t>(stage.size));
    if (stage.begin != layer || stage.end <= layer || stage.first_rank != device) return {};
    const bool is_in_a_node =
        device / problem.devices_per_node == (device + size - 1) / problem.devices_per_node;
    const bool is_whole_nodes =
        device % problem.devices_per_node == 0 && size % problem.devices_per_node == 0;
    if (!is_in_a_node && !is_whole_nodes) return {};
    std::vector<Cost> costs{problem.stage(stage.size, stage.begin, stage.end)};
    if (s > 0) {
      costs.push_back(problem.transfer(device % problem.devices_per_node == 0, layer,
                                       std::min(stages[s - 1].size, stage.size)));
    }
    for (const Cost cost : costs) {
      if (cost >= impossible) return {};
      result.sum += cost;
      result.slowest = std::max(result.slowest, cost);
    }
    layer = stage.end;
    device += size;
  }
  const bool is_whole = layer == problem.layers && device == problem.devices;
  const auto count = static_cast<int>(stages.size());
  if (!is_whole || (problem.stage_count > 0 && count != problem.stage_count)) return {};
  result.cost = problem.objective == Objective::latency
                    ? result.sum + (problem.microbatches - 1) * result.slowest
                    : problem.microbatches * result.slowest;
  return result;
}

std::optional<StageSequence> by_brute_force(const SequenceProblem& problem) {
  std::optional<StageSequence> best;
  std::vector<StageChoice> stages;
  const std::function<void(int, int)> extend = [&](int layer, int device) {
    const auto found = priced(problem, stages);
    if (found && (!best || std::pair(found->cost, found->sum) < std::pair(best->cost, best->sum)))
      best = found;
    for (int end = layer + 1; end <= problem.layers; ++end) {
      for (int size = 0; size < static_cast<int>(problem.sizes.size()); ++size) {
        const int next = device + problem.sizes[static_cast<std::size_t>(size)];
        if (next > problem.devices) continue;
        stages.push_back({layer, end, size, device});
        extend(end, next);
        stages.pop_back();
      }
    }
  };
  extend(0, 0);
  return best;
}

}  // namespace

TEST_CASE("the cheapest sequence of stages is that of brute force") {
  Random random(1);
  int with_answer = 0;
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    const SequenceProblem problem = random_problem(random);
    const auto found = best_sequence(problem);
    const auto expected = by_brute_force(problem);
    REQUIRE(found.has_value() == expected.has_value());
    if (!found) continue;
    ++with_answer;
    CHECK(found->cost == expected->cost);
    CHECK(found->lower_bound == expected->cost);
    if (problem.objective == Objective::throughput) CHECK(found->sum == expected->sum);
    const auto again = priced(problem, found->stages);
    REQUIRE(again.has_value());
    CHECK(again->cost == found->cost);
    CHECK(again->sum == found->sum);
    CHECK(again->slowest == found->slowest);
  }
  CHECK(with_answer > 1500);
}

TEST_CASE("with an epsilon the sequence is that close to the cheapest, and so is its bound") {
  Random random(2);
  for (int round = 0; round < 1000; ++round) {
    CAPTURE(round);
    SequenceProblem problem = random_problem(random);
    problem.epsilon = pick(random, 0, 1) ? 0.3 : 0.02;
    const auto found = best_sequence(problem);
    const auto expected = by_brute_force(problem);
    REQUIRE(found.has_value() == expected.has_value());
    if (!found) continue;
    CHECK(found->cost >= expected->cost);
    CHECK(found->lower_bound <= expected->cost);
    CHECK(static_cast<double>(found->cost) <=
          (1 + problem.epsilon) * static_cast<double>(found->lower_bound) + 1);
  }
}

TEST_CASE("the numbers of stages that devices can be cut into are told") {
  SequenceProblem problem;
  problem.layers = 4;
  problem.devices = 6;
  problem.devices_per_node = 6;
  problem.sizes = {3};
  CHECK(possible_stage_counts(problem) == std::vector{2});
  problem.sizes = {1, 2, 4, 6};
  CHECK(possible_stage_counts(problem) == std::vector{1, 2, 3, 4});
  problem.sizes = {4};
  CHECK(possible_stage_counts(problem).empty());
}

TEST_CASE("a chain of 48 layers on 128 nodes of 8 devices is no matter of seconds", "[.][scale]") {
  SequenceProblem problem;
  problem.layers = 48;
  problem.devices = 1024;
  problem.devices_per_node = 8;
  for (int size = 1; size < 8; size *= 2) problem.sizes.push_back(size);
  for (int nodes = 1; nodes <= 128; ++nodes) problem.sizes.push_back(8 * nodes);
  problem.allocate();
  for (std::size_t b = 0; b < problem.sizes.size(); ++b) {
    for (int begin = 0; begin < 48; ++begin) {
      for (int end = begin + 1; end <= 48; ++end) {
        const double work = (end - begin) * 1e10 + (end * 7919 % 13) * 1e8;
        problem.stage(static_cast<int>(b), begin, end) = static_cast<Cost>(
            work / problem.sizes[b] + 2e7 * (end - begin) * (problem.sizes[b] > 8 ? 5 : 1));
      }
    }
    for (int cut = 1; cut < 48; ++cut) {
      problem.transfer(false, cut, static_cast<int>(b)) = 1000000000 / problem.sizes[b];
      problem.transfer(true, cut, static_cast<int>(b)) = 4000000000 / problem.sizes[b];
    }
  }
  problem.microbatches = 16;
  problem.epsilon = 0.001;
  const auto found = best_sequence(problem);
  REQUIRE(found);
  CHECK(found->stages.size() > 1);
}
