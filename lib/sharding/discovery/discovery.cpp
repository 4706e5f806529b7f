#include "sharding/discovery/discovery.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <random>
#include <set>

#include "sharding/discovery/split_trial.h"

namespace autopar::sharding {
namespace {

using graph::Tensor;
using graph::ValueId;

/// Sets of dimensions that are tried for one operator: more than any in ONNX has, and an end for
/// those with dozens of inputs.
constexpr int most_trials = 20000;

/// Linearity is sought in operators of no more inputs.
constexpr std::size_t most_linear_inputs = 8;

using LoopSizes = std::set<std::int64_t, std::greater<>>;

/// What may be the size of a loop, greatest first.
LoopSizes loop_sizes(const Experiment& experiment) {
  LoopSizes sizes;
  for (std::size_t i = 0; i < experiment.node().inputs.size(); ++i) {
    if (const Shape* shape = experiment.input_shape(i)) sizes.insert(shape->begin(), shape->end());
  }
  for (const auto& [name, value] : experiment.node().attributes) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) sizes.insert(*number);
  }
  for (const Shape& shape : output_shapes(experiment.graph(), experiment.node()))
    sizes.insert(shape.begin(), shape.end());
  std::erase_if(sizes, [](std::int64_t size) { return size < 2; });
  return sizes;
}

/// The ways in which integers of the node may count the loop, none first. A constant whose own
/// dimension is split counts nothing.
std::vector<LoopCount> possible_counts(const Experiment& experiment, std::int64_t size,
                                       const std::vector<int>& dims) {
  const auto may_count = [size](std::int64_t number) { return number >= 2 && number % size == 0; };
  std::vector<LoopCount> counts{{}};
  LoopCount all;
  for (const auto& [name, value] : experiment.node().attributes) {
    const auto* number = std::get_if<std::int64_t>(&value);
    if (number == nullptr || !may_count(*number)) continue;
    counts.push_back({{name}, -1, 0});
    all.attributes.push_back(name);
  }
  if (all.attributes.size() > 1) counts.push_back(all);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const ValueId input = experiment.node().inputs[i];
    if (input == graph::no_value || dims[i] >= 0) continue;
    const graph::Value& value = experiment.graph().value(input);
    if (value.type != graph::DataType::int64 || !value.constant || value.shape.size() > 1) continue;
    const std::vector<std::int64_t> elements = value.constant->to_int64s();
    for (std::size_t e = 0; e < elements.size(); ++e)
      if (may_count(elements[e])) counts.push_back({{}, static_cast<int>(i), e});
  }
  return counts;
}

/// Splits found so far, and the sets of dimensions that were tried for them.
struct Findings {
  std::vector<DiscoveredSplit> splits;
  int trials = 0;
};

/// Whether the split, of some dimensions, is of a part of these, by a multiple of the size.
bool covers(const DiscoveredSplit& split, std::int64_t size, const std::vector<int>& dims) {
  if (split.size % size != 0) return false;
  bool has_dimension = false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (split.inputs[i] >= 0 && split.inputs[i] != dims[i]) return false;
    has_dimension = has_dimension || split.inputs[i] >= 0;
  }
  return has_dimension;
}

void try_set(const Experiment& experiment, std::int64_t size, const std::vector<int>& dims,
             Findings& found) {
  ++found.trials;
  if (std::ranges::any_of(found.splits,
                          [&](const DiscoveredSplit& split) { return covers(split, size, dims); }))
    return;
  for (const LoopCount& count : possible_counts(experiment, size, dims)) {
    DiscoveredSplit split{.size = size, .inputs = dims, .outputs = {}, .count = count};
    if (!try_split(experiment, split)) continue;
    found.splits.push_back(std::move(split));
    return;
  }
}

/// Tries all ways to choose `left` dimensions of inputs from `input` on.
void try_sets(const Experiment& experiment, std::int64_t size, std::size_t input, int left,
              std::vector<int>& dims, Findings& found) {
  if (left == 0) return try_set(experiment, size, dims, found);
  if (input + static_cast<std::size_t>(left) > dims.size() || found.trials > most_trials) return;
  if (const Shape* shape = experiment.input_shape(input)) {
    for (std::size_t d = 0; d < shape->size(); ++d) {
      if ((*shape)[d] == 0 || (*shape)[d] % size != 0) continue;
      dims[input] = static_cast<int>(d);
      try_sets(experiment, size, input + 1, left - 1, dims, found);
    }
    dims[input] = -1;
  }
  try_sets(experiment, size, input + 1, left, dims, found);
}

/// Whether f(a) + f(b) = f(a + b), where a and b differ in these inputs of the graph alone.
bool is_linear_in(const std::vector<std::size_t>& group, const Experiment& experiment) {
  const ShardRunner& runner = experiment.runner;
  std::mt19937 random(5);
  return std::ranges::all_of(experiment.runs, [&](const OperatorRun& run) {
    std::vector<Tensor> other = run.inputs;
    std::vector<Tensor> both = run.inputs;
    for (const std::size_t i : group) {
      const auto type = run.inputs[i].type();
      other[i] = runner.random(type, run.inputs[i].shape(), -2, 2, random);
      both[i] = runner.tensor(
          type, reduced({runner.numbers(run.inputs[i]), runner.numbers(other[i])}, Reduce::sum));
    }
    const auto b = runner.run(run.graph, other);
    const auto whole = runner.run(run.graph, both);
    if (!b || !whole) return false;
    for (std::size_t o = 0; o < whole->size(); ++o) {
      const auto type = (*whole)[o].type();
      const Numbers sum = reduced({run.outputs[o], runner.numbers((*b)[o])}, Reduce::sum);
      if (!is_floating_point(type) || !agree(runner.numbers((*whole)[o]), sum, type)) return false;
    }
    return true;
  });
}

/// Minimal groups of the graph's inputs, the smallest first.
std::vector<std::vector<std::size_t>> linear_groups(const Experiment& experiment) {
  const graph::Graph& graph = experiment.graph();
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    if (is_floating_point(graph.value(graph.inputs[i]).type)) candidates.push_back(i);
  }
  std::vector<std::vector<std::size_t>> groups;
  if (candidates.size() > most_linear_inputs) return groups;
  for (std::size_t size = 1; size <= candidates.size(); ++size) {
    for (std::size_t bits = 1; bits < (std::size_t{1} << candidates.size()); ++bits) {
      if (static_cast<std::size_t>(std::popcount(bits)) != size) continue;
      std::vector<std::size_t> group;
      for (std::size_t c = 0; c < candidates.size(); ++c) {
        if ((bits >> c & 1) != 0) group.push_back(candidates[c]);
      }
      const bool has_linear_part = std::ranges::any_of(
          groups, [&](const auto& part) { return std::ranges::includes(group, part); });
      if (!has_linear_part && is_linear_in(group, experiment)) groups.push_back(std::move(group));
    }
  }
  return groups;
}

/// Splits in the order in which a rule takes them.
bool comes_first(const DiscoveredSplit& a, const DiscoveredSplit& b) {
  const auto rank = [](const DiscoveredSplit& split) {
    return std::pair(split.kind != FactorKind::spatial, split.count.any());
  };
  return std::pair(rank(a), -a.size) < std::pair(rank(b), -b.size);
}

}  // namespace

Discovery discover(const std::vector<OperatorRun>& runs, const ShardRunner& runner) {
  const Experiment experiment{runs, runner};
  const std::vector<ValueId>& inputs = experiment.node().inputs;
  Findings found;
  // Greatest first: what a loop splits its divisors split as well.
  for (const std::int64_t size : loop_sizes(experiment)) {
    for (int dimensions = 0; dimensions <= std::ssize(inputs); ++dimensions) {
      std::vector<int> dims(inputs.size(), -1);
      try_sets(experiment, size, 0, dimensions, dims, found);
    }
  }
  std::ranges::stable_sort(found.splits, comes_first);
  Discovery discovery{std::move(found.splits), {}};
  for (const auto& group : linear_groups(experiment)) {
    auto& inputs_of_node = discovery.linear.emplace_back();
    for (const std::size_t i : group)
      inputs_of_node.push_back(place_of(experiment.graph().inputs[i], experiment.node().inputs));
  }
  return discovery;
}

}  // namespace autopar::sharding
