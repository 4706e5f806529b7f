// PyTorch's exporters write GroupNorm as InstanceNormalization of images whose groups were made
// channels by a Reshape, and put scale and bias behind.

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/passes/channel_scale.h"

namespace autopar::runtime::passes {
namespace {

/// As a GroupNormalization has it, one number a channel.
struct Parameters {
  Doubles scale;
  Doubles bias;
};

std::optional<Parameters> parameters_of(const Matcher& matcher, const Node& normalization) {
  auto scale = numbers(matcher, normalization.inputs[1]);
  auto bias = numbers(matcher, normalization.inputs[2]);
  if (!scale || !bias) return std::nullopt;
  return Parameters{std::move(*scale), std::move(*bias)};
}

/// Numbers that float32 has, if not all their digits.
bool are_in_range(const Doubles& numbers) {
  return std::ranges::all_of(
      numbers, [](double x) { return std::abs(x) <= std::numeric_limits<float>::max(); });
}

std::optional<Node> with_parameters(Pass& pass, Node node, const Parameters& parameters) {
  if (!are_in_range(parameters.scale) || !are_in_range(parameters.bias)) return std::nullopt;
  const DataType type = pass.type(node.inputs[0]);
  node.inputs.resize(3);
  node.inputs[1] = pass.graph.add_constant(node.name + ":scale", tensor_of(type, parameters.scale));
  node.inputs[2] = pass.graph.add_constant(node.name + ":bias", tensor_of(type, parameters.bias));
  return pass.if_it_runs(std::move(node));
}

std::optional<Node> group_normalization(Pass& pass, const Node& back) {
  const Node* normalization = pass.maker(back.inputs[0], "InstanceNormalization");
  if (normalization == nullptr || !pass.is_read_once(back.inputs[0])) return std::nullopt;
  const Node* grouping = pass.maker(normalization->inputs[0], "Reshape");
  if (grouping == nullptr) return std::nullopt;
  const Shape& shape = pass.shape(back.outputs[0]);
  const Shape& grouped = pass.shape(normalization->inputs[0]);
  if (shape.size() < 3 || pass.shape(grouping->inputs[0]) != shape || grouped.size() < 3 ||
      grouped[0] != shape[0] || grouped[1] == 0 || shape[1] % grouped[1] != 0)
    return std::nullopt;
  const auto of_groups = parameters_of(pass, *normalization);
  if (!of_groups) return std::nullopt;
  Parameters of_channels;
  for (std::int64_t c = 0; c < shape[1]; ++c) {
    const auto group = static_cast<std::size_t>(c / (shape[1] / grouped[1]));
    of_channels.scale.push_back(of_groups->scale[group]);
    of_channels.bias.push_back(of_groups->bias[group]);
  }
  Node node{back.name, "GroupNormalization", "", {grouping->inputs[0]}, back.outputs, {}};
  node.attributes["num_groups"] = grouped[1];
  node.attributes["epsilon"] = normalization->float_attribute("epsilon", 1e-5F);
  return with_parameters(pass, std::move(node), of_channels);
}

/// A GroupNormalization whose result is scaled or shifted channel by channel.
std::optional<Node> with_scale(Pass& pass, const Node& node) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const Node* normalization = pass.maker(node.inputs[i], "GroupNormalization");
    if (normalization == nullptr || !pass.is_read_once(node.inputs[i])) continue;
    auto parameters = parameters_of(pass, *normalization);
    const auto more = scale_of(pass, node, i);
    if (!parameters || !more || parameters->scale.size() != more->factors.size()) continue;
    for (std::size_t c = 0; c < more->factors.size(); ++c) {
      parameters->scale[c] *= more->factors[c];
      parameters->bias[c] = parameters->bias[c] * more->factors[c] + more->shifts[c];
    }
    Node made = *normalization;
    made.name = node.name;
    made.outputs = node.outputs;
    return with_parameters(pass, std::move(made), *parameters);
  }
  return std::nullopt;
}

}  // namespace

void fuse_group_normalizations(Graph& graph, const KernelTable& kernels) {
  rewrite_nodes(graph, kernels, [](Pass& pass, const Node& node) -> std::optional<Node> {
    const bool is_scale = is_onnx(node, "Mul") || is_onnx(node, "Add");
    if (!is_scale && !is_onnx(node, "Reshape")) return std::nullopt;
    // Half types would round the factors.
    if (pass.type(node.outputs[0]) != DataType::float32) return std::nullopt;
    return is_scale ? with_scale(pass, node) : group_normalization(pass, node);
  });
}

}  // namespace autopar::runtime::passes
