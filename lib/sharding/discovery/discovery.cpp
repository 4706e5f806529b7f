#include "sharding/discovery/discovery.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <random>
#include <ranges>
#include <set>
#include <utility>

#include "base/error.h"
#include "graph/onnx/infer_node.h"

namespace autopar::sharding {
namespace {

using graph::Graph;
using graph::Node;
using graph::Tensor;
using graph::ValueId;

/// Sets of dimensions that are tried for one operator: more than any in ONNX has, and an end for
/// those with dozens of inputs.
constexpr int most_trials = 20000;

Reduce reduce_of(FactorKind kind) {
  switch (kind) {
    case FactorKind::max:
      return Reduce::max;
    case FactorKind::min:
      return Reduce::min;
    case FactorKind::mean:
      return Reduce::mean;
    default:
      return Reduce::sum;
  }
}

/// Shares of a loop that must do for a split: equal ones.
std::vector<Range> equal_shares(std::int64_t size) {
  std::int64_t parts = 2;
  while (size % parts != 0) ++parts;
  std::vector<Range> shares;
  for (std::int64_t p = 0; p < parts; ++p) {
    shares.push_back({p * size / parts, (p + 1) * size / parts});
  }
  return shares;
}

class Discoverer {
 public:
  Discoverer(const std::vector<OperatorRun>& runs, const ShardRunner& runner)
      : runs_(runs), runner_(runner), graph_(runs.front().graph), node_(graph_.nodes.front()) {}

  Discovery discover() {
    // Greatest first: what a loop splits its divisors split as well.
    for (const std::int64_t size : std::views::reverse(loop_sizes())) find_splits(size);
    find_linear_groups();
    return std::move(found_);
  }

 private:
  const Shape* shape_of(std::size_t input) const {
    const ValueId id = node_.inputs[input];
    return id == graph::no_value ? nullptr : &graph_.value(id).shape;
  }

  std::vector<std::int64_t> loop_sizes() const {
    std::set<std::int64_t> sizes;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      if (const Shape* shape = shape_of(i)) sizes.insert(shape->begin(), shape->end());
    }
    for (const auto& [name, value] : node_.attributes) {
      if (const auto* number = std::get_if<std::int64_t>(&value)) sizes.insert(*number);
    }
    for (const ValueId output : node_.outputs) {
      if (output == graph::no_value) continue;
      const Shape& shape = graph_.value(output).shape;
      sizes.insert(shape.begin(), shape.end());
    }
    std::erase_if(sizes, [](std::int64_t size) { return size < 2; });
    return {sizes.begin(), sizes.end()};
  }

  // --- sets of dimensions

  void find_splits(std::int64_t size) {
    size_ = size;
    const auto inputs = static_cast<int>(node_.inputs.size());
    for (int dimensions = 0; dimensions <= inputs; ++dimensions) {
      std::vector<int> dims(node_.inputs.size(), -1);
      try_sets(dims, 0, dimensions);
    }
  }

  /// Tries all ways to choose `left` dimensions of inputs from `input` on.
  void try_sets(std::vector<int>& dims, std::size_t input, int left) {
    if (left == 0) return try_set(dims);
    if (input + static_cast<std::size_t>(left) > dims.size() || trials_ > most_trials) return;
    if (const Shape* shape = shape_of(input)) {
      for (std::size_t d = 0; d < shape->size(); ++d) {
        if ((*shape)[d] == 0 || (*shape)[d] % size_ != 0) continue;
        dims[input] = static_cast<int>(d);
        try_sets(dims, input + 1, left - 1);
      }
      dims[input] = -1;
    }
    try_sets(dims, input + 1, left);
  }

  void try_set(const std::vector<int>& dims) {
    ++trials_;
    const auto is_part_of_set = [&](const DiscoveredSplit& known) {
      if (known.size % size_ != 0) return false;
      for (std::size_t i = 0; i < dims.size(); ++i) {
        if (known.inputs[i] >= 0 && known.inputs[i] != dims[i]) return false;
      }
      return true;
    };
    if (std::ranges::any_of(accepted_, is_part_of_set)) return;
    for (const LoopCount& count : possible_counts(dims)) {
      DiscoveredSplit split{.size = size_, .inputs = dims, .outputs = {}, .count = count};
      if (!classify(split)) continue;
      split.even = size_ > 2 && !(holds(split, {{0, 1}, {1, size_}}) &&
                                  holds(split, {{0, size_ - 1}, {size_ - 1, size_}}));
      split.never_empty = !holds(split, {{0, size_}, {size_, size_}});
      const bool has_dimension = std::ranges::any_of(dims, [](int d) { return d >= 0; });
      if (has_dimension) accepted_.push_back(split);
      found_.splits.push_back(std::move(split));
      return;
    }
  }

  /// None first. A constant whose own dimension is split counts nothing.
  std::vector<LoopCount> possible_counts(const std::vector<int>& dims) const {
    std::vector<LoopCount> counts{{}};
    LoopCount all;
    for (const auto& [name, value] : node_.attributes) {
      const auto* number = std::get_if<std::int64_t>(&value);
      if (number == nullptr || *number < 2 || *number % size_ != 0) continue;
      counts.push_back({{name}, -1, 0});
      all.attributes.push_back(name);
    }
    if (all.attributes.size() > 1) counts.push_back(all);
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      if (node_.inputs[i] == graph::no_value || dims[i] >= 0) continue;
      const graph::Value& value = graph_.value(node_.inputs[i]);
      if (value.type != graph::DataType::int64 || !value.constant || value.shape.size() > 1) {
        continue;
      }
      const std::vector<std::int64_t> elements = value.constant->to_int64s();
      for (std::size_t e = 0; e < elements.size(); ++e) {
        if (elements[e] < 2 || elements[e] % size_ != 0) continue;
        counts.push_back({{}, static_cast<int>(i), e});
      }
    }
    return counts;
  }

  // --- running shares

  Range range_of(const Range& share, std::int64_t extent) const {
    const std::int64_t rest = extent / size_;
    return {share.begin * rest, share.end * rest};
  }

  /// The operator on a share, its outputs' shapes as inferred; nullopt where inference refuses it.
  std::optional<Graph> shard_of(const DiscoveredSplit& split, const Range& share) const {
    Graph shard = graph_;
    Node& node = shard.nodes.front();
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (split.inputs[i] < 0) continue;
      graph::Value& value = shard.value(node.inputs[i]);
      const auto ranges = ranges_of(value.shape, split.inputs[i], share);
      value.shape[static_cast<std::size_t>(split.inputs[i])] =
          ranges[static_cast<std::size_t>(split.inputs[i])].size();
      if (value.constant) value.constant = value.constant->slice(ranges).contiguous_copy();
    }
    // ONNX's inference divides by what counts.
    if (share.size() == 0 && !split.count.attributes.empty()) return std::nullopt;
    apply_count(split.count, node, shard, share.size(), size_);
    try {
      const auto inferred = graph::infer_node(shard, node);
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        if (node.outputs[o] == graph::no_value) continue;
        if (o >= inferred.size() || !inferred[o].shape) return std::nullopt;
        shard.value(node.outputs[o]).shape = *inferred[o].shape;
      }
    } catch (const Error&) {
      return std::nullopt;
    }
    return shard;
  }

  std::vector<Range> ranges_of(const Shape& shape, int dim, const Range& share) const {
    std::vector<Range> ranges;
    for (const std::int64_t extent : shape) ranges.push_back({0, extent});
    if (dim >= 0) {
      auto& range = ranges[static_cast<std::size_t>(dim)];
      range = range_of(share, range.end);
    }
    return ranges;
  }

 public:
  static void apply_count(const LoopCount& count, Node& node, Graph& shard, std::int64_t share,
                          std::int64_t size) {
    for (const std::string& name : count.attributes) {
      auto& value = std::get<std::int64_t>(node.attributes.at(name));
      value = value / size * share;
    }
    if (count.input < 0) return;
    auto& id = node.inputs[static_cast<std::size_t>(count.input)];
    const Tensor whole = *shard.value(id).constant;
    std::vector<std::int64_t> elements = whole.to_int64s();
    elements[count.element] = elements[count.element] / size * share;
    id = shard.add_constant(shard.value(id).name + "/of_share",
                            Tensor::of_int64(whole.shape(), elements));
  }

 private:
  /// By share, by graph output; nullopt where one of them does not run.
  std::optional<std::vector<std::vector<Numbers>>> run_shares(const DiscoveredSplit& split,
                                                              const std::vector<Range>& shares,
                                                              const OperatorRun& run) const {
    std::vector<std::vector<Numbers>> result;
    for (const Range& share : shares) {
      const auto shard = shard_of(split, share);
      if (!shard) return std::nullopt;
      std::vector<Tensor> inputs;
      for (std::size_t i = 0; i < run.inputs.size(); ++i) {
        const auto at = std::ranges::find(node_.inputs, graph_.inputs[i]) - node_.inputs.begin();
        const int dim = split.inputs[static_cast<std::size_t>(at)];
        inputs.push_back(run.inputs[i].slice(ranges_of(run.inputs[i].shape(), dim, share)));
      }
      const auto outputs = runner_.run(*shard, inputs);
      if (!outputs) return std::nullopt;
      auto& numbers = result.emplace_back();
      for (const Tensor& output : *outputs) numbers.push_back(runner_.numbers(output));
    }
    return result;
  }

  /// Finds the outputs' dimensions and the kind by equal shares.
  bool classify(DiscoveredSplit& split) const {
    const std::vector<Range> shares = equal_shares(size_);
    const auto results = run_shares(split, shares, runs_.front());
    if (!results) return false;
    split.outputs.assign(node_.outputs.size(), -1);
    for (std::size_t o = 0; o < graph_.outputs.size(); ++o) {
      const Shape& whole = runs_.front().outputs[o].shape;
      const Shape& part = results->front()[o].shape;
      if (part.size() != whole.size()) return false;
      for (std::size_t d = 0; d < whole.size(); ++d) {
        if (part[d] == whole[d]) continue;
        int& dim = split.outputs[place_of(o)];
        if (dim >= 0) return false;
        dim = static_cast<int>(d);
      }
    }
    const bool makes_shares = std::ranges::any_of(split.outputs, [](int dim) { return dim >= 0; });
    for (const FactorKind kind : {FactorKind::spatial, FactorKind::sum, FactorKind::max,
                                  FactorKind::min, FactorKind::mean}) {
      if (kind == FactorKind::spatial && !makes_shares) {
        split.kind = kind;
        if (holds(split, shares)) return false;  // the inputs' dimensions do not matter
        continue;
      }
      split.kind = kind;
      if (holds(split, shares)) return true;
    }
    return false;
  }

  std::size_t place_of(std::size_t graph_output) const {
    const auto at = std::ranges::find(node_.outputs, graph_.outputs[graph_output]);
    return static_cast<std::size_t>(at - node_.outputs.begin());
  }

  /// On all runs.
  bool holds(const DiscoveredSplit& split, const std::vector<Range>& shares) const {
    return std::ranges::all_of(runs_, [&](const OperatorRun& run) {
      const auto results = run_shares(split, shares, run);
      return results && are_shares_of_whole(split, shares, *results, run);
    });
  }

  bool are_shares_of_whole(const DiscoveredSplit& split, const std::vector<Range>& shares,
                           const std::vector<std::vector<Numbers>>& results,
                           const OperatorRun& run) const {
    for (std::size_t o = 0; o < run.outputs.size(); ++o) {
      const Numbers& whole = run.outputs[o];
      const auto type = graph_.value(graph_.outputs[o]).type;
      const int dim = split.outputs[place_of(o)];
      std::vector<Numbers> parts;
      for (std::size_t s = 0; s < shares.size(); ++s) {
        const Numbers& part = results[s][o];
        if (dim >= 0 || split.kind == FactorKind::spatial) {
          const auto ranges = ranges_of(whole.shape, dim, shares[s]);
          if (dim >= 0 && whole.shape[static_cast<std::size_t>(dim)] % size_ != 0) return false;
          if (!agree(cut(whole, ranges), part, type)) return false;
        } else {
          if (part.shape != whole.shape || type == graph::DataType::boolean) return false;
          parts.push_back(part);
        }
      }
      if (!parts.empty() && !agree(whole, reduced(parts, reduce_of(split.kind)), type)) {
        return false;
      }
    }
    return true;
  }

  // --- linearity

  void find_linear_groups() {
    std::vector<std::size_t> candidates;  // of graph_.inputs
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      if (is_floating_point(graph_.value(graph_.inputs[i]).type)) candidates.push_back(i);
    }
    if (candidates.size() > 8) return;
    for (std::size_t size = 1; size <= candidates.size(); ++size) {
      for (std::size_t bits = 1; bits < (std::size_t{1} << candidates.size()); ++bits) {
        if (static_cast<std::size_t>(std::popcount(bits)) != size) continue;
        std::vector<std::size_t> group;
        for (std::size_t c = 0; c < candidates.size(); ++c) {
          if ((bits >> c & 1) != 0) group.push_back(candidates[c]);
        }
        if (!has_linear_part(group) && is_linear_in(group)) linear_.push_back(group);
      }
    }
    for (const auto& group : linear_) {
      auto& inputs = found_.linear.emplace_back();
      for (const std::size_t i : group) {
        const auto at = std::ranges::find(node_.inputs, graph_.inputs[i]);
        inputs.push_back(static_cast<int>(at - node_.inputs.begin()));
      }
    }
  }

  bool has_linear_part(const std::vector<std::size_t>& group) const {
    return std::ranges::any_of(
        linear_, [&](const auto& part) { return std::ranges::includes(group, part); });
  }

  /// Whether f(a) + f(b) = f(a + b), where a and b differ in these inputs alone.
  bool is_linear_in(const std::vector<std::size_t>& group) const {
    std::mt19937 random(5);
    return std::ranges::all_of(runs_, [&](const OperatorRun& run) {
      std::vector<Tensor> other = run.inputs;
      std::vector<Tensor> both = run.inputs;
      for (const std::size_t i : group) {
        const auto type = run.inputs[i].type();
        other[i] = runner_.random(type, run.inputs[i].shape(), -2, 2, random);
        both[i] = runner_.tensor(type, sum_of(run.inputs[i], other[i]));
      }
      const auto b = runner_.run(graph_, other);
      const auto whole = runner_.run(graph_, both);
      if (!b || !whole) return false;
      for (std::size_t o = 0; o < whole->size(); ++o) {
        const auto type = (*whole)[o].type();
        const Numbers sum = reduced({run.outputs[o], runner_.numbers((*b)[o])}, Reduce::sum);
        if (!is_floating_point(type) || !agree(runner_.numbers((*whole)[o]), sum, type)) {
          return false;
        }
      }
      return true;
    });
  }

  Numbers sum_of(const Tensor& a, const Tensor& b) const {
    return reduced({runner_.numbers(a), runner_.numbers(b)}, Reduce::sum);
  }

  const std::vector<OperatorRun>& runs_;
  const ShardRunner& runner_;
  const Graph& graph_;
  const Node& node_;
  Discovery found_;
  std::int64_t size_ = 0;
  std::vector<DiscoveredSplit> accepted_;  ///< those of some dimension of an input
  std::vector<std::vector<std::size_t>> linear_;
  int trials_ = 0;
};

/// Splits in the order in which a rule takes them.
bool comes_first(const DiscoveredSplit& a, const DiscoveredSplit& b) {
  const auto rank = [](const DiscoveredSplit& split) {
    return std::pair(split.kind != FactorKind::spatial,
                     split.count.input >= 0 || !split.count.attributes.empty());
  };
  return std::pair(rank(a), -a.size) < std::pair(rank(b), -b.size);
}

class RuleOfSplits {
 public:
  RuleOfSplits(const Graph& graph, const Node& node) : rule_(replicated_rule(graph, node)) {
    inputs_ = input_shapes(graph, node);
    outputs_ = output_shapes(graph, node);
  }

  void add(const DiscoveredSplit& split) {
    if (!is_free(split.inputs, rule_.inputs) || !is_free(split.outputs, rule_.outputs)) return;
    const auto factor = static_cast<int>(rule_.factors.size());
    rule_.factors.push_back({.letter = static_cast<char>('a' + factor % 26),
                             .size = split.size,
                             .kind = split.kind,
                             .even = split.even || split.kind == FactorKind::mean,
                             .never_empty = split.never_empty});
    claim(split.inputs, factor, inputs_, rule_.inputs);
    claim(split.outputs, factor, outputs_, rule_.outputs);
    counts_.emplace_back(factor, split.count);
  }

  ShardingRule finish() && {
    std::erase_if(counts_, [](const auto& count) {
      return count.second.attributes.empty() && count.second.input < 0;
    });
    if (counts_.empty()) return std::move(rule_);
    std::vector<std::int64_t> sizes;
    for (const Factor& factor : rule_.factors) sizes.push_back(factor.size);
    rule_.localize = [counts = std::move(counts_), sizes](LocalNode& local) {
      for (const auto& [factor, count] : counts) {
        const auto f = static_cast<std::size_t>(factor);
        const std::int64_t share = local.factor_ranges[f].size();
        Discoverer::apply_count(count, local.node, local.shard, share, sizes[f]);
      }
      local.shard.nodes.push_back(local.node);
    };
    return std::move(rule_);
  }

 private:
  using Tensors = std::vector<std::vector<std::vector<int>>>;

  static bool is_free(const std::vector<int>& dims, const Tensors& tensors) {
    for (std::size_t t = 0; t < dims.size(); ++t) {
      if (dims[t] >= 0 && !tensors[t][static_cast<std::size_t>(dims[t])].empty()) return false;
    }
    return true;
  }

  void claim(const std::vector<int>& dims, int factor, const std::vector<Shape>& shapes,
             Tensors& tensors) {
    const std::int64_t size = rule_.factors[static_cast<std::size_t>(factor)].size;
    for (std::size_t t = 0; t < dims.size(); ++t) {
      if (dims[t] < 0) continue;
      const auto dim = static_cast<std::size_t>(dims[t]);
      tensors[t][dim] = {factor};
      if (shapes[t][dim] == size) continue;
      tensors[t][dim].push_back(static_cast<int>(rule_.factors.size()));
      rule_.factors.push_back({.size = shapes[t][dim] / size, .kind = FactorKind::whole});
    }
  }

  ShardingRule rule_;
  std::vector<Shape> inputs_;
  std::vector<Shape> outputs_;
  std::vector<std::pair<int, LoopCount>> counts_;  ///< by factor
};

}  // namespace

Discovery discover(const std::vector<OperatorRun>& runs, const ShardRunner& runner) {
  Discovery found = Discoverer(runs, runner).discover();
  std::ranges::stable_sort(found.splits, comes_first);
  return found;
}

ShardingRule rule_of(const Discovery& discovery, const Graph& graph, const Node& node) {
  RuleOfSplits maker(graph, node);
  for (const DiscoveredSplit& split : discovery.splits) maker.add(split);
  ShardingRule rule = std::move(maker).finish();
  rule.linear = discovery.linear;
  return rule;
}

std::string to_string(const DiscoveredSplit& split, const Graph& graph, const Node& node) {
  const auto text = [](const std::vector<Shape>& shapes, const std::vector<int>& dims) {
    std::vector<std::string> texts;
    for (std::size_t t = 0; t < shapes.size(); ++t) {
      TensorShardSpec spec = TensorShardSpec::replicated(shapes[t].size());
      if (dims[t] >= 0) spec.dims[static_cast<std::size_t>(dims[t])] = {0};
      texts.push_back(to_string(spec));
    }
    return fmt::format("{}", fmt::join(texts, ","));
  };
  std::string result = text(input_shapes(graph, node), split.inputs) + "->" +
                       text(output_shapes(graph, node), split.outputs);
  if (split.kind != FactorKind::spatial)
    result += fmt::format(" {}", name_of(reduce_of(split.kind)));
  return result;
}

}  // namespace autopar::sharding
