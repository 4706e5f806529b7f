#include <string>

#include "runtime/passes/matcher.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

/// The name in the attribute `activation`; empty for other operators.
std::string activation_name(const Node& node) {
  if (!node.domain.empty() || node.inputs.size() != 1) return {};
  if (node.op_type == "Relu") return "Relu";
  if (node.op_type != "Gelu") return {};
  return node.string_attribute("approximate", "none") == "tanh" ? "GeluTanh" : "Gelu";
}

class ProductActivationFusion {
 public:
  ProductActivationFusion(Graph& graph, const KernelTable& kernels)
      : graph_(graph), kernels_(kernels), uses_(graph) {}

  void run() {
    for (Node& node : graph_.nodes) fuse(node);
  }

 private:
  /// The product takes the activation in. A Reshape between them moves behind both.
  void fuse(Node& activation) {
    const std::string name = activation_name(activation);
    if (name.empty()) return;
    const ValueId input = activation.inputs[0];
    Node* before = maker(input);
    if (before == nullptr) return;
    const bool is_reshaped = before->domain.empty() && before->op_type == "Reshape";
    Node* product = is_reshaped ? maker(before->inputs[0]) : before;
    if (product == nullptr || !is_plain_product(*product)) return;
    Node fused = *product;
    fused.domain = internal_domain;
    fused.op_type = "FusedMatMul";
    fused.attributes["activation"] = name;
    if (!can_run(kernels_, graph_, fused)) return;
    Node last = is_reshaped ? *before : fused;
    last.name = activation.name;
    last.outputs = activation.outputs;
    activation = std::move(last);
    if (is_reshaped) *product = std::move(fused);
  }

  /// The node that makes the value for one reader alone.
  Node* maker(ValueId value) {
    const NodeId producer = uses_.producer(value);
    return producer != graph::no_node && uses_.is_read_once(value) ? &graph_.node(producer)
                                                                   : nullptr;
  }

  bool is_plain_product(const Node& node) const {
    if (node.domain.empty())
      return node.op_type == "MatMul" && graph_.value(node.inputs[0]).shape.size() >= 2 &&
             graph_.value(node.inputs[1]).shape.size() >= 2;
    return node.domain == internal_domain && node.op_type == "FusedMatMul" &&
           !node.has_attribute("activation") && !node.has_attribute("out_perm");
  }

  Graph& graph_;
  const KernelTable& kernels_;
  ValueUses uses_;
};

}  // namespace

void fuse_product_activations(Graph& graph, const KernelTable& kernels) {
  ProductActivationFusion(graph, kernels).run();
}

}  // namespace autopar::runtime::passes
