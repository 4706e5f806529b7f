#include "runtime/passes/matcher.h"

namespace autopar::runtime::passes {
namespace {

/// The convolution that makes the value, which nothing else reads; null where there is none, or one
/// that has an activation already.
const Node* bare_convolution(const Matcher& matcher, ValueId value) {
  const Node* node = matcher.is_read_once(value) ? matcher.maker(value) : nullptr;
  const bool is_bare = node != nullptr && node->domain == internal_domain &&
                       node->op_type == "ChannelsLastConv" && !node->has_attribute("activation");
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

std::optional<Node> with_relu(const Pass& pass, const Node& relu) {
  const Node* convolution = bare_convolution(pass, relu.inputs[0]);
  if (convolution == nullptr) return std::nullopt;
  Node made = renamed(*convolution, relu);
  made.attributes["activation"] = std::string("Relu");
  return pass.if_it_runs(std::move(made));
}

}  // namespace

void fuse_convolutions(Graph& graph, const KernelTable& kernels) {
  rewrite_nodes(graph, kernels, [](Pass& pass, const Node& node) -> std::optional<Node> {
    if (is_onnx(node, "Add")) return with_addend(pass, node);
    if (is_onnx(node, "Relu")) return with_relu(pass, node);
    return std::nullopt;
  });
}

}  // namespace autopar::runtime::passes
