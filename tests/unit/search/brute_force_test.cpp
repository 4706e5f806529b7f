// The answers to problems of small random graphs, on meshes of two and three axes and under limits,
// are those of a search that makes all choices.

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <optional>

#include "assignment/presolve/presolve.h"
#include "assignment/relaxation/relaxation.h"
#include "layered_graph.h"
#include "plan_pricing.h"
#include "search/plan_builder.h"
#include "search/search_plan.h"
#include "unit/assignment/exhaustive_search.h"
#include "unit/assignment/random_problem.h"

using namespace autopar;
using assignment::AssignmentProblem;
using assignment::Cost;
using assignment::impossible;
using assignment::Solution;
using assignment::SolveOptions;
using assignment::Status;
using search::MemoryPolicy;
using search::PlanProblem;

namespace {

/// Steps of the search that makes all choices, some hundredths of a second.
constexpr double most_steps = 6e4;
/// Larger problems are left out.
constexpr double most_costs = 1e5;
constexpr double most_costs_for_glpk = 5000;
constexpr double costs_to_relax = 3e5;

cost::CostModel random_machine(Random& random, int axes) {
  const std::string mesh = axes == 2
                               ? any_of<std::string>(random, {"2x2", "2x3", "3x2", "2x4"})
                               : any_of<std::string>(random, {"2x2x2", "2x2x2", "2x3x2", "2x2x3"});
  const std::string device = any_of<std::string>(random, {"h200", "l4", "cpu"});
  return {cost::load_device_model(device), sharding::DeviceMesh::parse(mesh)};
}

/// A graph on a mesh.
struct Drawn {
  graph::Graph graph;
  cost::CostModel cost;
  bool repeats = false;  ///< many layers

  static Drawn some_operators(Random& random) {
    const int axes = pick(random, 2, 3);
    graph::Graph graph = pick(random, 0, 1) == 0
                             ? LayeredGraph(random).grow(1, pick(random, 1, axes == 2 ? 4 : 3))
                             : RandomGraph(random).grow(pick(random, 1, axes == 2 ? 3 : 1));
    return {std::move(graph), random_machine(random, axes)};
  }
  static Drawn many_layers(Random& random) {
    return {LayeredGraph(random).grow(pick(random, 20, 26), pick(random, 1, 3)),
            random_machine(random, 2), true};
  }
};

search::SearchOptions with(const MemoryPolicy& memory) {
  search::SearchOptions options;
  options.memory = memory;
  options.warns = false;
  return options;
}

/// A limit between what the nodes' least usages sum up to and what a cheapest choice needs; rarely
/// below the former.
MemoryPolicy random_bytes(Random& random, const AssignmentProblem& problem) {
  AssignmentProblem cheapest = problem;
  cheapest.usage_limits.clear();
  const Solution free = assignment::solve(cheapest, {});
  REQUIRE(free.status == Status::optimal);
  const std::int64_t most = std::ranges::max(usage_over_time(problem, free.choice));
  for (auto& node : cheapest.nodes)
    node.usages.assign(node.usages.size(), std::ranges::min(node.usages));
  const std::int64_t least = std::ranges::max(usage_over_time(cheapest, free.choice));
  const double part = pick(random, 0, 19) == 0 ? -0.1 : pick(random, 10, 97) / 100.0;
  const auto more = static_cast<std::int64_t>(part * static_cast<double>(most - least));
  return {MemoryPolicy::Kind::bytes, std::max<std::int64_t>(1, least + more)};
}

/// Without a limit, with a fair share of the weights, and two limits in bytes.
std::vector<MemoryPolicy> memories_for(Random& random, const Drawn& drawn) {
  const MemoryPolicy unlimited = MemoryPolicy::unlimited();
  const PlanProblem built = build_plan_problem(drawn.graph, drawn.cost, with(unlimited));
  if (size_of(built.problem) > most_costs) return {};
  return {unlimited, MemoryPolicy::parse("fair"), random_bytes(random, built.problem),
          random_bytes(random, built.problem)};
}

/// Leaves at most so many strategies to each operator and stored tensor, the same ones to those
/// that are alike.
class Restriction {
 public:
  Restriction(Random& random, std::size_t most) : random_(random), most_(most) {}

  void apply(PlanProblem& built) {
    std::map<const search::OperatorStrategies*, std::vector<std::size_t>> by_strategies;
    std::map<std::vector<sharding::TensorShardSpec>, std::vector<std::size_t>> by_specs;
    for (std::size_t op = 0; op < built.operators.size(); ++op)
      restrict(built.problem.nodes[op], by_strategies[built.operators[op].get()]);
    for (const PlanProblem::Stored& stored : built.stored)
      restrict(built.problem.nodes[stored.node], by_specs[stored.specs]);
  }

 private:
  void restrict(AssignmentProblem::Node& node, std::vector<std::size_t>& left_out) {
    if (node.costs.size() <= most_) return;
    if (left_out.empty()) {
      left_out.resize(node.costs.size());
      std::iota(left_out.begin(), left_out.end(), 0);
      std::ranges::shuffle(left_out, random_);
      left_out.resize(node.costs.size() - most_);
    }
    for (const std::size_t s : left_out) node.costs[s] = impossible;
  }

  Random& random_;
  std::size_t most_;
};

SolveOptions without_labels() {
  SolveOptions options;
  options.parameters.exact.most_nodes_for_labels = 0;
  return options;
}

/// Searches, relaxations and branches alone, repeated layers being folded first, for little work.
SolveOptions hasty() {
  SolveOptions options = without_labels();
  options.parameters.exact.most_strategies_for_glpk = 0;
  options.parameters.folded.least_seconds_to_relax = 0;
  options.patience_seconds = 0;
  options.small_gap = 0.5;
  return options;
}

/// Whatever is proven, the bound is one and the choice is worth its cost.
void require_honest(const AssignmentProblem& problem, const Solution& found, Cost least) {
  REQUIRE(found.lower_bound <= least);
  REQUIRE(found.cost >= least);
  REQUIRE((found.status == Status::optimal) ==
          (!found.choice.empty() && found.cost == found.lower_bound));
  REQUIRE((found.status == Status::infeasible) == (found.lower_bound >= impossible));
  if (found.choice.empty()) return;
  const assignment::Price price = price_of_choice(problem, found.choice);
  REQUIRE(price.cost == found.cost);
  REQUIRE(price.is_within_limits);
}

void require_truth(const AssignmentProblem& problem, const SolveOptions& options, Cost least) {
  const Solution found = assignment::solve(problem, options);
  require_honest(problem, found, least);
  REQUIRE(found.lower_bound == least);
  if (least >= impossible) {
    REQUIRE(found.status == Status::infeasible);
    REQUIRE(found.choice.empty());
    return;
  }
  REQUIRE(found.status == Status::optimal);
  REQUIRE(found.cost == least);
}

/// What the instances were like.
struct Counts {
  int folded = 0;
  int compared = 0;
  int infeasible = 0;
  int binding = 0;  ///< cost more than without limits
  int of_three_axes = 0;
  int repeated = 0;
};

/// The true cost, counted; nullopt where it takes too long to find.
std::optional<Cost> truth_of(const AssignmentProblem& problem, const Drawn& drawn, Counts& counts) {
  if (size_of(problem) > most_costs) return std::nullopt;
  const std::optional<Cost> least = assignment::least_cost(problem, most_steps);
  if (!least) return std::nullopt;
  AssignmentProblem free = problem;
  free.usage_limits.clear();
  const std::optional<Cost> cheapest = assignment::least_cost(free, most_steps);
  ++counts.compared;
  counts.infeasible += *least >= impossible ? 1 : 0;
  counts.binding += *least < impossible && cheapest && *cheapest < *least ? 1 : 0;
  counts.of_three_axes += drawn.cost.mesh().num_axes() == 3 ? 1 : 0;
  counts.repeated += drawn.repeats ? 1 : 0;
  return least;
}

/// The relaxation's bound is one, also where it begins with that of the folded problem.
void require_bounds(const AssignmentProblem& problem, Cost least, Counts& counts) {
  const auto presolved = assignment::presolve(problem);
  if (!presolved) REQUIRE(least >= impossible);
  if (!presolved) return;
  const auto relax = [&](assignment::Relaxation& relaxation, Cost constant) {
    relaxation.advance(costs_to_relax, impossible, {});
    REQUIRE(relaxation.bound() + constant <= least);
  };
  if (!presolved->core.nodes.empty()) {
    assignment::Relaxation plain(presolved->core, {}, 0);
    relax(plain, static_cast<Cost>(presolved->constant));
  }
  // Presolve leaves little to fold of layers as small as these.
  const auto folding = assignment::Folding::make(problem);
  if (!folding) return;
  ++counts.folded;
  assignment::Relaxation folded(folding->problem(), {}, 0);
  folded.advance(costs_to_relax, impossible, {});
  assignment::Relaxation begun(problem, {}, 0);
  begun.start_from(folded, *folding);
  relax(begun, 0);
  if (folded.choice().empty()) return;
  REQUIRE(price_of_choice(problem, folding->unfolded(folded.choice())).cost ==
          price_of_choice(folding->problem(), folded.choice()).cost);
}

/// Solves it in several ways.
void compare(const AssignmentProblem& problem, const Drawn& drawn, Counts& counts) {
  const std::optional<Cost> least = truth_of(problem, drawn, counts);
  if (!least) return;
  require_truth(problem, {}, *least);
  require_bounds(problem, *least, counts);
  if (*least < impossible) require_honest(problem, assignment::solve(problem, hasty()), *least);
  if (size_of(problem) > most_costs_for_glpk || drawn.repeats) return;
  if (counts.compared % 2 == 0) require_truth(problem, without_labels(), *least);
  if (counts.compared % 4 == 1) require_truth(problem, {.presolve = false}, *least);
}

/// The plan costs that, proven, and its shards fit; or nothing fits, proven, and what is named as
/// enough is.
void require_plan(const Drawn& drawn, search::SearchOptions options, Cost least) {
  try {
    const search::SolvedPlan found = search_plan(drawn.graph, drawn.cost, options);
    REQUIRE(least < impossible);
    REQUIRE(found.plan.predicted.cost_seconds == search::in_seconds(least));
    REQUIRE(found.report.lower_bound_seconds == search::in_seconds(least));
    REQUIRE(found.report.proven_optimal);
    const assignment::Price price = price_of_choice(found.built.problem, found.choice);
    REQUIRE(price.cost == least);
    REQUIRE(price.is_within_limits);
    if (options.memory.kind == MemoryPolicy::Kind::bytes)
      REQUIRE(found.plan.predicted.peak_bytes <= options.memory.bytes);
  } catch (const search::NothingFits& error) {
    REQUIRE(least >= impossible);
    REQUIRE(error.is_proven);
    REQUIRE(error.least_bytes > options.memory.bytes);
    options.memory.bytes = error.least_bytes;
    REQUIRE(search_plan(drawn.graph, drawn.cost, options).plan.predicted.peak_bytes <=
            error.least_bytes);
  }
}

}  // namespace

TEST_CASE("the search that makes all choices finds what trying each choice finds") {
  Random random(1);
  int infeasible = 0;
  for (int round = 0; round < 500; ++round) {
    const AssignmentProblem problem = assignment::random_problem(random);
    Cost least = impossible;
    assignment::for_each_choice(problem, [&](const assignment::Choice& choice) {
      const assignment::Price price = price_of_choice(problem, choice);
      if (price.is_within_limits) least = std::min(least, price.cost);
    });
    CAPTURE(round);
    REQUIRE(assignment::least_cost(problem, 1e9) == least);
    infeasible += least >= impossible ? 1 : 0;
  }
  CHECK(infeasible > 20);
  CHECK(infeasible < 250);
}

TEST_CASE("a thousand problems of small graphs under limits are solved as by brute force") {
  Random random(2026);
  Counts counts;
  for (int round = 0; counts.compared < 1000; ++round) {
    const Drawn drawn =
        round % 10 == 0 ? Drawn::many_layers(random) : Drawn::some_operators(random);
    for (const MemoryPolicy& memory : memories_for(random, drawn)) {
      PlanProblem built = build_plan_problem(drawn.graph, drawn.cost, with(memory));
      CAPTURE(round, counts.compared, to_string(drawn.cost.mesh()), static_cast<int>(memory.kind),
              memory.bytes);
      compare(built.problem, drawn, counts);
      Restriction(random, static_cast<std::size_t>(pick(random, 2, 20))).apply(built);
      compare(built.problem, drawn, counts);
    }
  }
  CHECK(counts.infeasible > 50);
  CHECK(counts.infeasible < 400);
  CHECK(counts.binding > 150);
  CHECK(counts.of_three_axes > 250);
  CHECK(counts.repeated > 30);
  CHECK(counts.folded > 9);
}

TEST_CASE("plans of small graphs under limits are those of brute force; so are GLPK's") {
  Random random(2027);
  Counts counts;
  int asked_glpk = 0;
  for (int round = 0; counts.compared < 120; ++round) {
    const Drawn drawn =
        round % 25 == 0 ? Drawn::many_layers(random) : Drawn::some_operators(random);
    for (const MemoryPolicy& memory : memories_for(random, drawn)) {
      search::SearchOptions options = with(memory);
      const AssignmentProblem problem =
          build_plan_problem(drawn.graph, drawn.cost, options).problem;
      const std::optional<Cost> least = truth_of(problem, drawn, counts);
      if (!least) continue;
      CAPTURE(round, counts.compared, to_string(drawn.cost.mesh()), static_cast<int>(memory.kind),
              memory.bytes);
      require_plan(drawn, options, *least);
      if (size_of(problem) > most_costs_for_glpk || drawn.repeats) continue;
      options.presolve = false;
      require_plan(drawn, options, *least);
      ++asked_glpk;
    }
  }
  CHECK(asked_glpk > 40);
  CHECK(counts.infeasible > 5);
  CHECK(counts.binding > 15);
  CHECK(counts.of_three_axes > 25);
}
