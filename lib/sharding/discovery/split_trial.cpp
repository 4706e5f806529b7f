#include "sharding/discovery/split_trial.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace autopar::sharding {
namespace {

using graph::Graph;
using graph::Node;
using graph::Tensor;

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

}  // namespace

const Shape* Experiment::input_shape(std::size_t input) const {
  const graph::ValueId id = node().inputs[input];
  return id == graph::no_value ? nullptr : &graph().value(id).shape;
}

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

bool try_split(const Experiment& experiment, DiscoveredSplit& split) {
  if (!classify(experiment, equal_shares(split.size), split)) return false;
  const std::int64_t size = split.size;
  split.even = size > 2 && !(holds(experiment, split, {{0, 1}, {1, size}}) &&
                             holds(experiment, split, {{0, size - 1}, {size - 1, size}}));
  split.never_empty = !holds(experiment, split, {{0, size}, {size, size}});
  return true;
}

}  // namespace autopar::sharding
