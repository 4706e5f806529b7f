#include "runtime/passes/matcher.h"

namespace autopar::runtime::passes {
namespace {

/// Whether it makes the largest of elements of its first input, and nothing else. A maximum of no
/// elements is -inf, of which Relu would make 0.
bool is_maximum(const Matcher& matcher, const Node& node) {
  return (is_onnx(node, "ReduceMax") || is_onnx(node, "MaxPool") ||
          is_onnx(node, "GlobalMaxPool")) &&
         node.outputs.size() == 1 && graph::num_elements(matcher.shape(node.inputs[0])) > 0;
}

}  // namespace

void move_relus_behind_maxima(Graph& graph, const KernelTable& kernels) {
  rewrite_nodes(graph, kernels, [](Pass& pass, const Node& node) -> std::optional<Node> {
    const Node* relu = is_maximum(pass, node) ? pass.maker(node.inputs[0], "Relu") : nullptr;
    if (relu == nullptr || !pass.is_read_once(node.inputs[0]) ||
        pass.maker(relu->inputs[0], "Conv") == nullptr)
      return std::nullopt;
    const ValueId output = node.outputs[0];
    Node maximum = node;
    maximum.inputs[0] = relu->inputs[0];
    maximum.outputs = {pass.graph.add_value({pass.value(output).name + ":before_relu",
                                             pass.type(output), pass.shape(output), std::nullopt})};
    Node last{node.name + ":relu", "Relu", "", maximum.outputs, {output}, {}};
    pass.insertions.before(pass.producer(output), std::move(maximum));
    return last;
  });
}

}  // namespace autopar::runtime::passes
