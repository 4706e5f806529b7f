#include <algorithm>
#include <numeric>
#include <span>

#include "runtime/kernels/common/channels_last.h"
#include "runtime/passes/matcher.h"

namespace autopar::runtime::passes {
namespace {

bool is_convolution(const Node& node) {
  return node.domain == internal_domain && node.op_type == "ChannelsLastConv";
}

/// The convolution that makes the value, which nothing else reads; null where there is none, or one
/// that has an activation already.
const Node* bare_convolution(const Matcher& matcher, ValueId value) {
  const Node* node = matcher.is_read_once(value) ? matcher.maker(value) : nullptr;
  const bool is_bare =
      node != nullptr && is_convolution(*node) && !node->has_attribute("activation");
  return is_bare ? node : nullptr;
}

Node renamed(Node convolution, const Node& last) {
  convolution.name = last.name;
  convolution.outputs = last.outputs;
  return convolution;
}

std::optional<Node> with_addend(const Pass& pass, const Node& add) {
  for (std::size_t i = 0; i < 2; ++i) {
    const Node* convolution = bare_convolution(pass, add.inputs[i]);
    const ValueId addend = add.inputs[1 - i];
    if (convolution == nullptr || has_input(*convolution, 3) ||
        pass.shape(add.inputs[i]) != pass.shape(add.outputs[0]) ||
        pass.shape(addend) != pass.shape(add.outputs[0]))
      continue;
    Node sum = renamed(*convolution, add);
    sum.inputs.resize(4, graph::no_value);
    sum.inputs[3] = addend;
    if (pass.can_run(sum)) return sum;
  }
  return std::nullopt;
}

std::optional<Node> with_activation(const Pass& pass, const Node& activation) {
  const Node* convolution = bare_convolution(pass, activation.inputs[0]);
  if (convolution == nullptr) return std::nullopt;
  Node made = renamed(*convolution, activation);
  made.attributes["activation"] = activation.op_type;
  return pass.if_it_runs(std::move(made));
}

/// Whether each place of the result is a product of the weights with one of the image.
bool is_of_single_places(const Matcher& matcher, const Node& convolution) {
  const auto are = [](const auto& numbers, std::int64_t wanted) {
    return std::ranges::all_of(numbers, [&](std::int64_t number) { return number == wanted; });
  };
  const Shape& weights = matcher.shape(convolution.inputs[1]);
  return are(std::span(weights).subspan(2), 1) &&
         weights[1] == matcher.shape(convolution.inputs[0]).back() &&
         are(convolution.ints_attribute("strides", {}), 1) &&
         are(convolution.ints_attribute("pads", {}), 0);
}

/// Largest numbers of a convolution alone need not be stored with all others.
std::optional<Node> with_maximum(const Pass& pass, const Node& maximum) {
  const Node* convolution = bare_convolution(pass, maximum.inputs[0]);
  if (convolution == nullptr || has_input(*convolution, 3) ||
      !is_of_single_places(pass, *convolution) || !pass.is_constant(convolution->inputs[1]) ||
      reads_channels_second(*convolution))
    return std::nullopt;
  std::vector<std::int64_t> places(pass.shape(maximum.inputs[0]).size() - 2);
  std::iota(places.begin(), places.end(), 1);
  if (pass.reduced_axes(maximum) != places) return std::nullopt;
  Node made = renamed(*convolution, maximum);
  made.op_type = "ChannelsLastConvMaximum";
  return pass.if_it_runs(std::move(made));
}

bool moves_channels_last(const Node& transpose) {
  const std::vector<std::int64_t> permutation = transpose.ints_attribute("perm", {});
  return permutation.size() > 2 && permutation == permutation_to_last(permutation.size());
}

/// A convolution brings few channels to the end itself, in scratch memory, which it often needs for
/// the padding anyway.
std::optional<Node> without_transpose(const Pass& pass, const Node& convolution) {
  constexpr std::int64_t most_channels = 8;
  const ValueId image = convolution.inputs[0];
  const Node* transpose = pass.is_read_once(image) ? pass.maker(image, "Transpose") : nullptr;
  if (transpose == nullptr || !moves_channels_last(*transpose) ||
      pass.shape(image).back() > most_channels)
    return std::nullopt;
  Node made = convolution;
  made.inputs[0] = transpose->inputs[0];
  made.attributes[channels_second_attribute] = std::int64_t{1};
  return pass.if_it_runs(std::move(made));
}

}  // namespace

void fuse_convolutions(Graph& graph, const KernelTable& kernels) {
  rewrite_nodes(graph, kernels, [](Pass& pass, const Node& node) -> std::optional<Node> {
    if (is_onnx(node, "Add")) return with_addend(pass, node);
    if (is_onnx(node, "Relu") || is_onnx(node, "HardSwish")) return with_activation(pass, node);
    if (is_onnx(node, "ReduceMax")) return with_maximum(pass, node);
    if (is_convolution(node)) return without_transpose(pass, node);
    return std::nullopt;
  });
}

}  // namespace autopar::runtime::passes
