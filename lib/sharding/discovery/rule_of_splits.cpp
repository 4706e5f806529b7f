#include <fmt/ranges.h>

#include <utility>

#include "sharding/discovery/split_trial.h"

namespace autopar::sharding {
namespace {

using graph::Graph;
using graph::Node;

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
        apply_count(count, share, sizes[f], local.node, local.shard);
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
