// The outer recursion is over the mesh axes, the inner one over the operators of a cut. At the cut
// over axis k an operator may take the strategies that split over axes 0 to k alone and that, axis
// k left out, are what it has already: its costs are those of a machine with the first k+1 axes.

#include "search/recursive.h"

#include <algorithm>
#include <deque>

#include "assignment/local_search/forest_descent.h"
#include "assignment/local_search/partial_choice.h"
#include "search/fair_places.h"
#include "search/propagation.h"

namespace autopar::search {

namespace {

constexpr int rounds_of_improvement = 4;

using sharding::OpShardSpec;
using FactorAxes = std::vector<std::vector<int>>;

/// The strategy without the axes from `num_axes` on.
FactorAxes over_first_axes(const OpShardSpec& spec, int num_axes) {
  FactorAxes result = spec.factor_axes;
  for (auto& axes : result) std::erase_if(axes, [&](int axis) { return axis >= num_axes; });
  return result;
}

/// Forbids what the cut over the axis leaves no room for, unless that is everything, as a pin may
/// want it.
void forbid_other_cuts(const OperatorStrategies& strategies, int axis, const FactorAxes& so_far,
                       std::vector<assignment::Cost>& costs) {
  std::vector<assignment::Cost> left = costs;
  for (std::size_t s = 0; s < left.size(); ++s) {
    const OpShardSpec& choice = strategies.choices[s];
    const bool extends = over_first_axes(choice, axis) == so_far &&
                         over_first_axes(choice, axis + 1) == choice.factor_axes;
    if (!extends) left[s] = assignment::impossible;
  }
  if (std::ranges::min(left) < assignment::impossible) costs = std::move(left);
}

/// The inner recursion: heavy operators one by one, then breadth first from them to the rest.
std::vector<int> choose_for_cut(const PlanProblem& built,
                                const assignment::AssignmentProblem& problem) {
  assignment::PartialChoice partial(problem, static_cast<int>(built.operators.size()));
  std::deque<graph::NodeId> queue;
  const auto decide = [&](graph::NodeId op) {
    const std::vector<assignment::WideCost> costs = partial.estimate(op);
    partial.decide(op, static_cast<int>(std::ranges::min_element(costs) - costs.begin()));
    queue.push_back(op);
  };
  const std::vector<graph::NodeId> order = heaviest_first(built);
  const auto weight = [&](graph::NodeId op) {
    return assignment::WideCost{std::ranges::max(built.operators[op]->costs)};
  };
  assignment::WideCost total = 0;
  for (const graph::NodeId op : order) total += weight(op);
  for (const graph::NodeId op : order) {
    if (weight(op) * static_cast<assignment::WideCost>(order.size()) > total) decide(op);
  }
  const auto propagate = [&] {
    for (; !queue.empty(); queue.pop_front()) {
      for (const graph::NodeId op : partial.take_open_neighbours(queue.front())) {
        if (!partial.is_decided(op)) decide(op);
      }
    }
  };
  propagate();
  for (const graph::NodeId op : order) {
    if (partial.is_decided(op)) continue;
    decide(op);
    propagate();
  }
  return partial.choice();
}

}  // namespace

std::optional<std::vector<int>> choose_recursively(const PlanProblem& built,
                                                   const assignment::AssignmentProblem& limited,
                                                   const sharding::DeviceMesh& mesh) {
  const int num_axes = static_cast<int>(mesh.axis_sizes().size());
  const std::size_t num_operators = built.operators.size();
  std::vector<FactorAxes> so_far;
  for (const auto& strategies : built.operators) {
    so_far.push_back(over_first_axes(strategies->choices.front(), 0));
  }
  std::vector<int> choice;
  assignment::AssignmentProblem cut = limited;
  for (int axis = 0; axis < num_axes; ++axis) {
    for (std::size_t i = 0; i < cut.nodes.size(); ++i) cut.nodes[i].costs = limited.nodes[i].costs;
    forbid_unfair_places(built, mesh, axis + 1, cut);
    for (std::size_t op = 0; op < num_operators; ++op) {
      forbid_other_cuts(*built.operators[op], axis, so_far[op], cut.nodes[op].costs);
    }
    choice = choose_for_cut(built, cut);
    for (std::size_t op = 0; op < num_operators; ++op) {
      so_far[op] = over_first_axes(built.operators[op]->choices[choice[op]], axis + 1);
    }
  }
  assignment::AssignmentProblem& fair = cut;
  for (std::size_t i = 0; i < num_operators; ++i) fair.nodes[i].costs = limited.nodes[i].costs;
  const int fixed = static_cast<int>(num_operators);
  std::optional<std::vector<int>> improved = complete(fair, choice, fixed);
  if (improved) improved = assignment::descend(fair, std::move(*improved), rounds_of_improvement);
  auto settled = assignment::settle(limited, fair, improved ? *improved : choice, fixed);
  if (!settled) return improved;
  return assignment::descend(limited, std::move(*settled), rounds_of_improvement);
}

}  // namespace autopar::search
