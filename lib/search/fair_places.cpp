#include "search/fair_places.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace autopar::search {

namespace {

using sharding::TensorShardSpec;

/// A weight and the largest of its usages that its share allows.
struct Weight {
  const PlanProblem::Stored* stored;
  std::int64_t whole;
  std::int64_t allowed;
};

bool uses_only(const TensorShardSpec& spec, int num_axes) {
  return std::ranges::all_of(spec.dims, [&](const std::vector<int>& axes) {
    return std::ranges::all_of(axes, [&](int axis) { return axis < num_axes; });
  });
}

}  // namespace

void forbid_unfair_places(const PlanProblem& built, const sharding::DeviceMesh& mesh, int num_axes,
                          assignment::AssignmentProblem& problem) {
  const auto node_of =
      [&](const PlanProblem::Stored& stored) -> assignment::AssignmentProblem::Node& {
    return problem.nodes[stored.node];
  };
  std::vector<Weight> weights;
  double total = 0;
  for (const auto& [value, stored] : built.stored) {
    assignment::AssignmentProblem::Node& node = node_of(stored);
    if (std::ranges::any_of(stored.specs, [&](const auto& s) { return uses_only(s, num_axes); })) {
      for (std::size_t s = 0; s < stored.specs.size(); ++s) {
        if (!uses_only(stored.specs[s], num_axes)) node.costs[s] = assignment::impossible;
      }
    }
    if (node.first > 0) continue;  // an input
    weights.push_back({&stored, std::ranges::max(node.usages), 0});
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
    const assignment::AssignmentProblem::Node& node = node_of(*weight.stored);
    std::int64_t least = weight.whole;
    for (std::size_t s = 0; s < node.costs.size(); ++s) {
      if (node.costs[s] >= assignment::impossible) continue;
      least = std::min(least, node.usages[s]);
      if (static_cast<double>(node.usages[s]) <= share * static_cast<double>(weight.whole)) {
        weight.allowed = std::max(weight.allowed, node.usages[s]);
      }
    }
    weight.allowed = std::max(weight.allowed, least);
    room -= static_cast<double>(weight.allowed);
  }
  std::ranges::stable_sort(weights, {}, &Weight::whole);
  for (const Weight& weight : weights) {
    const double more = static_cast<double>(weight.whole - weight.allowed);
    if (more <= room) {
      room -= more;
      continue;
    }
    assignment::AssignmentProblem::Node& node = node_of(*weight.stored);
    for (std::size_t s = 0; s < node.costs.size(); ++s) {
      if (node.usages[s] > weight.allowed) node.costs[s] = assignment::impossible;
    }
  }
}

}  // namespace autopar::search
