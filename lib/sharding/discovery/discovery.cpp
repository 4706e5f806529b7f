#include "sharding/discovery/discovery.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <optional>
#include <random>
#include <set>

namespace autopar::sharding {
namespace {

using graph::Graph;
using graph::Node;
using graph::Tensor;
using graph::ValueId;

/// Sets of dimensions that are tried for one operator: more than any in ONNX has, and an end for
/// those with dozens of inputs.
constexpr int most_trials = 20000;

/// Linearity is sought in operators of no more inputs.
constexpr std::size_t most_linear_inputs = 8;

/// An operator that is tried, by all of its runs.
struct Experiment {
  const std::vector<OperatorRun>& runs;
  const ShardRunner& runner;

  const Graph& graph() const { return runs.front().graph; }
  const Node& node() const { return runs.front().node(); }
  /// Null where the input is left out.
  const Shape* input_shape(std::size_t input) const {
    const ValueId id = node().inputs[input];
    return id == graph::no_value ? nullptr : &graph().value(id).shape;
  }
};

/// The outputs of each share, by graph output.
using ShareOutputs = std::vector<std::vector<Numbers>>;

/// Equal shares, as few as there can be.
std::vector<Range> equal_shares(std::int64_t size) {
  std::int64_t parts = 2;
  while (size % parts != 0) ++parts;
  std::vector<Range> shares;
  for (std::int64_t p = 0; p < parts; ++p) {
    shares.push_back({p * size / parts, (p + 1) * size / parts});
  }
  return shares;
}

/// The share of a tensor whose dimension `dim`, or none, has the loop of `size`.
std::vector<Range> ranges_of(const Shape& shape, int dim, std::int64_t size, const Range& share) {
  std::vector<Range> ranges;
  for (const std::int64_t extent : shape) ranges.push_back({0, extent});
  if (dim >= 0) {
    const std::int64_t rest = shape[dim] / size;
    ranges[dim] = {share.begin * rest, share.end * rest};
  }
  return ranges;
}

/// The operator on a share; nullopt where inference refuses it.
std::optional<Graph> shard_of(const Graph& graph, const DiscoveredSplit& split,
                              const Range& share) {
  // ONNX's inference divides by the attributes that count.
  if (share.size() == 0 && !split.count.attributes.empty()) return std::nullopt;
  Graph shard = graph;
  Node& node = shard.nodes.front();
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (split.inputs[i] < 0) continue;
    graph::Value& value = shard.value(node.inputs[i]);
    const auto ranges = ranges_of(value.shape, split.inputs[i], split.size, share);
    value.shape[split.inputs[i]] = ranges[split.inputs[i]].size();
    if (value.constant) value.constant = value.constant->slice(ranges).contiguous_copy();
  }
  apply_count(split.count, share.size(), split.size, node, shard);
  const auto inferred = inferred_outputs(shard, node);
  if (!inferred) return std::nullopt;
  for (const auto& [id, output] : *inferred) {
    if (!output.shape) return std::nullopt;
    shard.value(id).shape = *output.shape;
  }
  return shard;
}

/// nullopt where a share does not run.
std::optional<ShareOutputs> run_shares(const DiscoveredSplit& split,
                                       const std::vector<Range>& shares, const OperatorRun& run,
                                       const ShardRunner& runner) {
  ShareOutputs result;
  for (const Range& share : shares) {
    const auto shard = shard_of(run.graph, split, share);
    if (!shard) return std::nullopt;
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < run.inputs.size(); ++i) {
      const int place = place_of(run.graph.inputs[i], run.node().inputs);
      inputs.push_back(run.inputs[i].slice(
          ranges_of(run.inputs[i].shape(), split.inputs[place], split.size, share)));
    }
    const auto outputs = runner.run(*shard, inputs);
    if (!outputs) return std::nullopt;
    auto& numbers = result.emplace_back();
    for (const Tensor& output : *outputs) numbers.push_back(runner.numbers(output));
  }
  return result;
}

/// Whether the shares' outputs are shares of the run's, or reduce to them.
bool are_shares_of_whole(const DiscoveredSplit& split, const std::vector<Range>& shares,
                         const ShareOutputs& results, const OperatorRun& run) {
  for (std::size_t o = 0; o < run.outputs.size(); ++o) {
    const Numbers& whole = run.outputs[o];
    const auto type = run.graph.value(run.graph.outputs[o]).type;
    const int dim = split.outputs[place_of(run.graph.outputs[o], run.node().outputs)];
    if (dim >= 0 && whole.shape[dim] % split.size != 0) return false;
    std::vector<Numbers> parts;
    for (std::size_t s = 0; s < shares.size(); ++s) {
      const Numbers& part = results[s][o];
      if (dim >= 0 || split.kind == FactorKind::spatial) {
        const auto ranges = ranges_of(whole.shape, dim, split.size, shares[s]);
        if (!agree(cut(whole, ranges), part, type)) return false;
      } else {
        if (part.shape != whole.shape || type == graph::DataType::boolean) return false;
        parts.push_back(part);
      }
    }
    if (!parts.empty() && !agree(whole, reduced(parts, *reduce_of(split.kind)), type)) return false;
  }
  return true;
}

/// On all runs.
bool holds(const Experiment& experiment, const DiscoveredSplit& split,
           const std::vector<Range>& shares) {
  return std::ranges::all_of(experiment.runs, [&](const OperatorRun& run) {
    const auto results = run_shares(split, shares, run, experiment.runner);
    return results && are_shares_of_whole(split, shares, *results, run);
  });
}

/// The one dimension in which a share's output differs from the whole's, by output of the node; -1
/// for none. nullopt where there are more.
std::optional<std::vector<int>> output_dims(const ShareOutputs& results, const OperatorRun& run) {
  std::vector<int> dims(run.node().outputs.size(), -1);
  for (std::size_t o = 0; o < run.outputs.size(); ++o) {
    const Shape& whole = run.outputs[o].shape;
    const Shape& part = results.front()[o].shape;
    if (part.size() != whole.size()) return std::nullopt;
    for (std::size_t d = 0; d < whole.size(); ++d) {
      if (part[d] == whole[d]) continue;
      int& dim = dims[place_of(run.graph.outputs[o], run.node().outputs)];
      if (dim >= 0) return std::nullopt;
      dim = static_cast<int>(d);
    }
  }
  return dims;
}

/// Finds the outputs' dimensions and the kind.
bool classify(const Experiment& experiment, const std::vector<Range>& shares,
              DiscoveredSplit& split) {
  const auto results = run_shares(split, shares, experiment.runs.front(), experiment.runner);
  if (!results) return false;
  const auto dims = output_dims(*results, experiment.runs.front());
  if (!dims) return false;
  split.outputs = *dims;
  const bool makes_shares = std::ranges::any_of(*dims, [](int dim) { return dim >= 0; });
  split.kind = FactorKind::spatial;
  if (holds(experiment, split, shares)) return makes_shares;  // else the inputs' do not matter
  for (const FactorKind kind :
       {FactorKind::sum, FactorKind::max, FactorKind::min, FactorKind::mean}) {
    split.kind = kind;
    if (holds(experiment, split, shares)) return true;
  }
  return false;
}

/// Finds the outputs' dimensions and the kind of a split of which size, inputs and count are given,
/// by running equal shares; then whether shares must be even or hold something. False where no kind
/// holds on all runs.
bool try_split(const Experiment& experiment, DiscoveredSplit& split) {
  if (!classify(experiment, equal_shares(split.size), split)) return false;
  const std::int64_t size = split.size;
  split.even = size > 2 && !(holds(experiment, split, {{0, 1}, {1, size}}) &&
                             holds(experiment, split, {{0, size - 1}, {size - 1, size}}));
  split.never_empty = !holds(experiment, split, {{0, size}, {size, size}});
  return true;
}

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
  const Graph& graph = experiment.graph();
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

void apply_count(const LoopCount& count, std::int64_t share, std::int64_t size, Node& node,
                 Graph& shard) {
  for (const std::string& name : count.attributes) {
    auto& value = std::get<std::int64_t>(node.attributes.at(name));
    value = value / size * share;
  }
  if (count.input < 0) return;
  auto& id = node.inputs[count.input];
  const Tensor whole = *shard.value(id).constant;
  std::vector<std::int64_t> elements = whole.to_int64s();
  elements[count.element] = elements[count.element] / size * share;
  id = shard.add_constant(shard.value(id).name + "/of_share",
                          Tensor::of_int64(whole.shape(), elements));
}

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
