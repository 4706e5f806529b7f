// The outer recursion is over the mesh axes, the inner one over the operators of a cut. At the cut
// over axis k an operator may take the strategies that split over axes 0 to k alone and that, axis
// k left out, are what it has already: its costs are those of a machine with the first k+1 axes.

#include "search/quick_searches.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <numeric>

#include "assignment/local_search/forest_descent.h"
#include "assignment/local_search/partial_choice.h"

namespace autopar::search {

namespace {

using assignment::AssignmentProblem;
using assignment::impossible;
using assignment::PartialChoice;
using sharding::FactorAxes;
using sharding::OpShardSpec;

constexpr int rounds_of_improvement = 4;

bool uses_only(const sharding::TensorShardSpec& spec, int num_axes) {
  return std::ranges::all_of(spec.dims, [&](const std::vector<int>& axes) {
    return std::ranges::all_of(axes, [&](int axis) { return axis < num_axes; });
  });
}

/// Forbids the strategies that satisfy the predicate of their index.
template <typename Predicate>
void forbid(AssignmentProblem::Node& node, const Predicate& predicate) {
  for (std::size_t s = 0; s < node.costs.size(); ++s)
    if (predicate(s)) node.costs[s] = impossible;
}

/// A weight's node, and the largest of its usages that its share allows.
struct Weight {
  AssignmentProblem::Node* node;
  std::int64_t whole;
  std::int64_t allowed = 0;
};

/// The largest usage within this part of the whole, or else the least one.
std::int64_t allowed_usage(const Weight& weight, double share) {
  std::int64_t least = weight.whole;
  std::int64_t allowed = 0;
  for (std::size_t s = 0; s < weight.node->costs.size(); ++s) {
    if (weight.node->costs[s] >= impossible) continue;
    const std::int64_t usage = weight.node->usages[s];
    least = std::min(least, usage);
    if (static_cast<double>(usage) <= share * static_cast<double>(weight.whole))
      allowed = std::max(allowed, usage);
  }
  return std::max(allowed, least);
}

/// Forbids, in a copy of the built problem, the places that would give a weight more than its share
/// of what the limit at rest allows all weights, over the first `num_axes` mesh axes alone. Small
/// weights may lie anywhere while that leaves room. Whatever places are then chosen, the limit at
/// rest holds, as far as it can.
void forbid_unfair_places(const PlanProblem& built, const sharding::DeviceMesh& mesh, int num_axes,
                          AssignmentProblem& problem) {
  std::vector<Weight> weights;
  double total = 0;
  for (const PlanProblem::Stored& stored : built.stored) {
    AssignmentProblem::Node& node = problem.nodes[stored.node];
    const auto uses_more = [&, &specs = stored.specs](std::size_t s) {
      return !uses_only(specs[s], num_axes);
    };
    if (std::ranges::any_of(stored.specs, [&](const auto& s) { return uses_only(s, num_axes); }))
      forbid(node, uses_more);
    if (node.first > 0) continue;  // an input
    weights.push_back({&node, std::ranges::max(node.usages)});
    total += static_cast<double>(weights.back().whole);
  }
  if (problem.usage_limits.empty() || problem.usage_limits.front() < 0) return;

  const std::vector<int>& sizes = mesh.axis_sizes();
  const int devices_left =
      std::accumulate(sizes.begin() + num_axes, sizes.end(), 1, std::multiplies<>());
  double room = static_cast<double>(problem.usage_limits.front()) * devices_left;
  const double share = room / std::max(total, 1.0);
  if (share >= 1) return;
  for (Weight& weight : weights) {
    weight.allowed = allowed_usage(weight, share);
    room -= static_cast<double>(weight.allowed);
  }
  std::ranges::stable_sort(weights, {}, &Weight::whole);
  for (const Weight& weight : weights) {
    const double more = static_cast<double>(weight.whole - weight.allowed);
    if (more <= room)
      room -= more;
    else
      forbid(*weight.node, [&](std::size_t s) { return weight.node->usages[s] > weight.allowed; });
  }
}

int least(const std::vector<assignment::WideCost>& costs) {
  return static_cast<int>(std::ranges::min_element(costs) - costs.begin());
}

/// Decides `seeds` for what is cheapest by itself, then breadth first what they reach, by `choose`;
/// then what is open still, as further seeds in the order of `rest`.
template <typename Choose>
std::vector<int> decide_all(PartialChoice& partial, const std::vector<int>& seeds,
                            const std::vector<int>& rest, const Choose& choose) {
  std::deque<int> queue;
  const auto decide = [&](int op, int strategy) {
    partial.decide(op, strategy);
    queue.push_back(op);
  };
  const auto propagate = [&] {
    for (; !queue.empty(); queue.pop_front()) {
      for (const int op : partial.take_open_neighbours(queue.front()))
        // One that reads two tensors of the same operator is met twice.
        if (!partial.is_decided(op)) decide(op, choose(op));
    }
  };
  for (const int op : seeds) decide(op, least(partial.estimate(op)));
  propagate();
  for (const int op : rest) {
    if (partial.is_decided(op)) continue;
    decide(op, least(partial.estimate(op)));
    propagate();
  }
  return partial.choice();
}

/// The strategy without the axes from `num_axes` on.
FactorAxes over_first_axes(const OpShardSpec& spec, int num_axes) {
  FactorAxes result = spec.factor_axes;
  for (auto& axes : result) std::erase_if(axes, [&](int axis) { return axis >= num_axes; });
  return result;
}

/// Forbids what the cut over the axis leaves no room for, unless that is everything, as a pin may
/// want it.
void forbid_other_cuts(const OperatorStrategies& strategies, int axis, const FactorAxes& so_far,
                       AssignmentProblem::Node& node) {
  AssignmentProblem::Node left = node;
  forbid(left, [&](std::size_t s) {
    const OpShardSpec& choice = strategies.choices[s];
    return over_first_axes(choice, axis) != so_far ||
           over_first_axes(choice, axis + 1) != choice.factor_axes;
  });
  if (std::ranges::min(left.costs) < impossible) node = std::move(left);
}

/// The inner recursion: heavy operators one by one, then breadth first from them to the rest.
std::vector<int> choose_for_cut(const PlanProblem& built, const AssignmentProblem& problem) {
  const std::vector<int> order = heaviest_first(built);
  const auto weight = [&](int op) {
    return assignment::WideCost{std::ranges::max(built.operators[op]->costs)};
  };
  assignment::WideCost total = 0;
  for (const int op : order) total += weight(op);
  std::vector<int> heavy;
  std::ranges::copy_if(order, std::back_inserter(heavy), [&](int op) {
    return weight(op) * static_cast<assignment::WideCost>(order.size()) > total;
  });
  PartialChoice partial(problem, static_cast<int>(order.size()));
  return decide_all(partial, heavy, order, [&](int op) { return least(partial.estimate(op)); });
}

}  // namespace

std::vector<int> heaviest_first(const PlanProblem& built) {
  std::vector<int> order(built.operators.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](int op) { return std::ranges::max(built.operators[op]->costs); });
  return order;
}

std::optional<std::vector<int>> choose_by_propagation(const PlanProblem& built,
                                                      const AssignmentProblem& limited,
                                                      const sharding::DeviceMesh& mesh,
                                                      const std::vector<int>& seeds) {
  AssignmentProblem fair = limited;
  forbid_unfair_places(built, mesh, mesh.num_axes(), fair);
  const int num_operators = static_cast<int>(built.operators.size());
  PartialChoice partial(fair, num_operators);
  const auto with_least_resharding = [&](int op) {
    const std::vector<assignment::WideCost> resharding = partial.resharding(op);
    const std::vector<assignment::Cost>& own = fair.nodes[op].costs;
    std::size_t best = 0;
    for (std::size_t s = 1; s < own.size(); ++s)
      if (std::pair(resharding[s], own[s]) < std::pair(resharding[best], own[best])) best = s;
    return static_cast<int>(best);
  };
  const auto choice = decide_all(partial, seeds, heaviest_first(built), with_least_resharding);
  return assignment::settle(limited, fair, choice, num_operators);
}

std::optional<std::vector<int>> choose_recursively(const PlanProblem& built,
                                                   const AssignmentProblem& limited,
                                                   const sharding::DeviceMesh& mesh) {
  const std::size_t num_operators = built.operators.size();
  std::vector<FactorAxes> so_far;
  for (const auto& strategies : built.operators)
    so_far.push_back(over_first_axes(strategies->choices.front(), 0));
  std::vector<int> choice;
  AssignmentProblem cut = limited;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    for (std::size_t i = 0; i < cut.nodes.size(); ++i) cut.nodes[i].costs = limited.nodes[i].costs;
    forbid_unfair_places(built, mesh, axis + 1, cut);
    for (std::size_t op = 0; op < num_operators; ++op)
      forbid_other_cuts(*built.operators[op], axis, so_far[op], cut.nodes[op]);
    choice = choose_for_cut(built, cut);
    for (std::size_t op = 0; op < num_operators; ++op)
      so_far[op] = over_first_axes(built.operators[op]->choices[choice[op]], axis + 1);
  }
  AssignmentProblem& fair = cut;
  for (std::size_t i = 0; i < num_operators; ++i) fair.nodes[i].costs = limited.nodes[i].costs;
  const int fixed = static_cast<int>(num_operators);
  std::optional<std::vector<int>> improved = complete(fair, choice, fixed);
  if (improved) improved = assignment::descend(fair, std::move(*improved), rounds_of_improvement);
  auto settled = assignment::settle(limited, fair, improved ? *improved : choice, fixed);
  if (!settled) return improved;
  return assignment::descend(limited, std::move(*settled), rounds_of_improvement);
}

}  // namespace autopar::search
