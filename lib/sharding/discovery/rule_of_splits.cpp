#include <fmt/ranges.h>

#include <utility>

#include "sharding/discovery/discovery.h"

namespace autopar::sharding {
namespace {

using graph::Graph;
using graph::Node;

bool is_free(const std::vector<int>& dims, const std::vector<TensorFactors>& tensors) {
  for (std::size_t t = 0; t < dims.size(); ++t) {
    if (dims[t] >= 0 && !tensors[t][dims[t]].empty()) return false;
  }
  return true;
}

/// Makes the factor the major part of these dimensions. What remains of one is a whole factor.
void claim(const std::vector<int>& dims, int factor, const std::vector<Shape>& shapes,
           std::vector<TensorFactors>& tensors, std::vector<Factor>& factors) {
  for (std::size_t t = 0; t < dims.size(); ++t) {
    if (dims[t] < 0) continue;
    std::vector<int>& parts = tensors[t][dims[t]];
    parts = {factor};
    const std::int64_t rest = shapes[t][dims[t]] / factors[factor].size;
    if (rest == 1) continue;
    parts.push_back(static_cast<int>(factors.size()));
    factors.push_back({.size = rest, .kind = FactorKind::whole});
  }
}

}  // namespace

ShardingRule rule_of(const Discovery& discovery, const Graph& graph, const Node& node) {
  ShardingRule rule = replicated_rule(graph, node);
  std::vector<std::pair<int, LoopCount>> counts;  // by factor
  for (const DiscoveredSplit& split : discovery.splits) {
    if (!is_free(split.inputs, rule.inputs) || !is_free(split.outputs, rule.outputs)) continue;
    const auto factor = static_cast<int>(rule.factors.size());
    rule.factors.push_back({.letter = static_cast<char>('a' + factor % 26),
                            .size = split.size,
                            .kind = split.kind,
                            .even = split.even || split.kind == FactorKind::mean,
                            .never_empty = split.never_empty});
    claim(split.inputs, factor, input_shapes(graph, node), rule.inputs, rule.factors);
    claim(split.outputs, factor, output_shapes(graph, node), rule.outputs, rule.factors);
    if (split.count.any()) counts.emplace_back(factor, split.count);
  }
  rule.linear = discovery.linear;
  if (counts.empty()) return rule;
  rule.localize = [counts](LocalNode& local) {
    for (const auto& [factor, count] : counts) {
      apply_count(count, local.factor_ranges[factor].size(), local.rule.factors[factor].size,
                  local.node, local.shard);
    }
  };
  return rule;
}

std::string to_string(const DiscoveredSplit& split, const Graph& graph, const Node& node) {
  const auto text = [](const std::vector<Shape>& shapes, const std::vector<int>& dims) {
    std::vector<std::string> texts;
    for (std::size_t t = 0; t < shapes.size(); ++t) {
      TensorShardSpec spec = TensorShardSpec::replicated(shapes[t].size());
      if (dims[t] >= 0) spec.dims[dims[t]] = {0};
      texts.push_back(to_string(spec));
    }
    return fmt::format("{}", fmt::join(texts, ","));
  };
  std::string result = text(input_shapes(graph, node), split.inputs) + "->" +
                       text(output_shapes(graph, node), split.outputs);
  if (split.kind != FactorKind::spatial)
    result += fmt::format(" {}", name_of(*reduce_of(split.kind)));
  return result;
}

}  // namespace autopar::sharding
