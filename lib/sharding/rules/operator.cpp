#include "sharding/rules/operator.h"

#include <fmt/ranges.h>

#include <numeric>

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
      texts[i] = whole(shapes[i].size());
    }
  }
  return fmt::format("{}", fmt::join(texts, ","));
}

}  // namespace

bool Operator::has_input(std::size_t i) const {
  return i < node.inputs.size() && node.inputs[i] != graph::no_value;
}

bool Operator::has_output(std::size_t i) const {
  return i < node.outputs.size() && node.outputs[i] != graph::no_value;
}

std::size_t Operator::axis(std::int64_t otherwise) const {
  return dimension(node.int_attribute("axis", otherwise), rank());
}

std::optional<std::vector<std::int64_t>> Operator::constant_ints(std::size_t i) const {
  if (!has_input(i)) return std::nullopt;
  const auto& constant = graph.value(node.inputs[i]).constant;
  if (!constant || !constant->has_data()) return std::nullopt;
  return constant->to_int64s();
}

std::vector<std::size_t> Operator::dimensions(
    const std::optional<std::vector<std::int64_t>>& axes) const {
  std::vector<std::size_t> dims(axes ? axes->size() : rank());
  std::iota(dims.begin(), dims.end(), std::size_t{0});
  for (std::size_t i = 0; axes && i < dims.size(); ++i) dims[i] = dimension((*axes)[i], rank());
  return dims;
}

ShardingRule Operator::rule(std::vector<std::string> input_texts,
                            std::vector<std::string> output_texts,
                            const std::vector<FactorOptions>& options) const {
  return make_rule(completed(std::move(input_texts), node.inputs, inputs) + "->" +
                       completed(std::move(output_texts), node.outputs, outputs),
                   inputs, outputs, options);
}

std::string letters(std::size_t count, std::string_view except) {
  std::string result = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::erase_if(result, [&](char letter) { return except.find(letter) != except.npos; });
  require(result.size() >= count, "a tensor has no more dimensions than there are letters");
  return result.substr(0, count);
}

std::vector<FactorOptions> options_of(std::string_view letters, FactorKind kind, bool never_empty) {
  std::vector<FactorOptions> options;
  for (const char letter : letters) options.push_back({letter, kind, never_empty});
  return options;
}

std::string aligned(std::string_view text, std::size_t rank) {
  if (rank > text.size()) return whole(rank - text.size()) + std::string(text);
  return std::string(text.substr(text.size() - rank));
}

std::string with_whole(std::string text, std::size_t dim) {
  text[dim] = '1';
  return text;
}

std::size_t dimension(std::int64_t axis, std::size_t rank) {
  const auto dims = static_cast<std::int64_t>(rank);
  require(axis >= -dims && axis < dims, "an axis lies within its tensor");
  return axis < 0 ? axis + dims : axis;
}

void add_bias_once(LocalNode& local, char factor, std::size_t bias) {
  auto& inputs = local.node.inputs;
  if (local.share(factor).begin == 0 || bias >= inputs.size()) return;
  inputs[bias] = graph::no_value;
  if (bias + 1 == inputs.size()) inputs.pop_back();
}

ShardingRule with_count(ShardingRule rule, char factor, const std::string& attribute) {
  rule.localize = [factor, attribute](LocalNode& local) {
    local.node.attributes[attribute] = local.extent(factor);
  };
  return rule;
}

void set_ints(LocalNode& local, std::size_t input, const char* name,
              const std::vector<std::int64_t>& ints) {
  local.node.inputs.at(input) = local.shard.add_constant(
      fmt::format("{}/{}", local.node.name, name),
      graph::Tensor::of_int64({static_cast<std::int64_t>(ints.size())}, ints));
}

}  // namespace autopar::sharding::rules
