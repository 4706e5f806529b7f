#include "sharding/rules/rule_text.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace autopar::sharding::rules {
namespace {

/// A text for every tensor: those left out have none, those not told of are whole.
std::string completed(std::vector<std::string> texts, const std::vector<graph::ValueId>& values,
                      const std::vector<Shape>& shapes) {
  texts.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == graph::no_value) {
      texts[i].clear();
    } else if (texts[i].empty()) {
      texts[i] = whole(shapes[i]);
    }
  }
  return fmt::format("{}", fmt::join(texts, ","));
}

}  // namespace

std::string letters(std::size_t count, std::string_view except) {
  std::string result;
  for (const char letter :
       std::string_view("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")) {
    if (result.size() == count) break;
    if (except.find(letter) == std::string_view::npos) result += letter;
  }
  require(result.size() == count, "a tensor has no more dimensions than there are letters");
  return result;
}

std::string aligned(std::string_view text, std::size_t rank) {
  if (rank > text.size()) return std::string(rank - text.size(), '1') + std::string(text);
  return std::string(text.substr(text.size() - rank));
}

std::string with_whole(std::string text, std::size_t dim) {
  text[dim] = '1';
  return text;
}

std::string whole(const Shape& shape) { return std::string(shape.size(), '1'); }

std::size_t dimension(std::int64_t axis, std::size_t rank) {
  const auto dims = static_cast<std::int64_t>(rank);
  require(axis >= -dims && axis < dims, "an axis lies within its tensor");
  return static_cast<std::size_t>(axis < 0 ? axis + dims : axis);
}

std::size_t axis_attribute(const graph::Node& node, std::size_t rank, std::int64_t otherwise) {
  return dimension(node.int_attribute("axis", otherwise), rank);
}

bool has_input(const graph::Node& node, std::size_t input) {
  return input < node.inputs.size() && node.inputs[input] != graph::no_value;
}

bool has_output(const graph::Node& node, std::size_t output) {
  return output < node.outputs.size() && node.outputs[output] != graph::no_value;
}

std::optional<std::vector<std::int64_t>> constant_ints(const graph::Graph& graph,
                                                       const graph::Node& node, std::size_t input) {
  if (!has_input(node, input)) return std::nullopt;
  const auto& constant = graph.value(node.inputs[input]).constant;
  if (!constant || !constant->has_data()) return std::nullopt;
  return constant->to_int64s();
}

ShardingRule node_rule(const graph::Graph& graph, const graph::Node& node, std::string_view text,
                       const std::vector<FactorOptions>& options) {
  return make_rule(text, input_shapes(graph, node), output_shapes(graph, node), options);
}

ShardingRule node_rule(const graph::Graph& graph, const graph::Node& node,
                       std::vector<std::string> inputs, std::vector<std::string> outputs,
                       const std::vector<FactorOptions>& options) {
  return node_rule(graph, node,
                   completed(std::move(inputs), node.inputs, input_shapes(graph, node)) + "->" +
                       completed(std::move(outputs), node.outputs, output_shapes(graph, node)),
                   options);
}

std::size_t factor_index(const ShardingRule& rule, char letter) {
  const auto found = std::ranges::find(rule.factors, letter, &Factor::letter);
  require(found != rule.factors.end(), "a rule has the factor that it is asked for");
  return static_cast<std::size_t>(found - rule.factors.begin());
}

void add_bias_once(ShardingRule& rule, std::size_t factor, std::size_t bias) {
  rule.localize = [factor, bias](LocalNode& local) {
    if (local.factor_ranges[factor].begin != 0) local.node.inputs.resize(bias);
    local.shard.nodes.push_back(local.node);
  };
}

void localize_count(ShardingRule& rule, char letter, const std::string& attribute) {
  rule.localize = [factor = factor_index(rule, letter), attribute](LocalNode& local) {
    local.node.attributes[attribute] = local.factor_ranges[factor].size();
    local.shard.nodes.push_back(local.node);
  };
}

void append_with_ints(LocalNode& local, std::size_t input, std::string_view name,
                      const std::vector<std::int64_t>& ints) {
  local.node.inputs.at(input) = local.shard.add_constant(
      fmt::format("{}/{}", local.node.name, name),
      graph::Tensor::of_int64({static_cast<std::int64_t>(ints.size())}, ints));
  local.shard.nodes.push_back(local.node);
}

}  // namespace autopar::sharding::rules
