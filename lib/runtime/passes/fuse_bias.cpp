#include "runtime/passes/matcher.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

bool is_product_without_bias(const Graph& graph, const Node& node) {
  const bool is_matmul = node.domain.empty() && node.op_type == "MatMul";
  const bool is_fused = node.domain == internal_domain && node.op_type == "FusedMatMul";
  if (!(is_matmul || is_fused) || node.inputs.size() != 2) return false;
  return graph.value(node.inputs[0]).shape.size() >= 2 &&
         graph.value(node.inputs[1]).shape.size() >= 2;
}

/// A constant with one element a column of a product of this shape.
bool is_bias(const Graph& graph, ValueId id, const graph::Shape& product) {
  if (!graph.is_constant(id)) return false;
  const graph::Shape& shape = graph.value(id).shape;
  return !shape.empty() && shape.back() == product.back() &&
         graph::num_elements(shape) == product.back() && shape.size() <= product.size();
}

class BiasFusion {
 public:
  BiasFusion(Graph& graph, const KernelTable& kernels)
      : graph_(graph), kernels_(kernels), uses_(graph) {}

  void run() {
    for (Node& node : graph_.nodes) {
      if (!node.domain.empty()) continue;
      if (node.op_type == "Gemm") rewrite(node);
      if (node.op_type == "Add" && !fuse(node, 0, 1)) fuse(node, 1, 0);
    }
  }

 private:
  /// A Gemm that scales nothing and adds at most a row is a product with bias.
  void rewrite(Node& gemm) {
    const bool has_addend = gemm.inputs.size() > 2 && gemm.inputs[2] != graph::no_value;
    const bool is_scaled = gemm.float_attribute("alpha", 1) != 1 ||
                           (has_addend && gemm.float_attribute("beta", 1) != 1);
    const std::int64_t columns = graph_.value(gemm.outputs[0]).shape.back();
    if (is_scaled || (has_addend && graph_.value(gemm.inputs[2]).shape != graph::Shape{columns}))
      return;
    Node product{gemm.name, "FusedMatMul", internal_domain, gemm.inputs, gemm.outputs, {}};
    if (!has_addend) product.inputs.resize(2);
    for (const char* flag : {"transA", "transB"})
      if (gemm.int_attribute(flag, 0) != 0) product.attributes[flag] = std::int64_t{1};
    if (can_run(kernels_, graph_, product)) gemm = std::move(product);
  }

  /// The Add becomes the product with bias; the old product is dead.
  bool fuse(Node& add, std::size_t product_input, std::size_t bias_input) {
    const ValueId product = add.inputs[product_input];
    const NodeId producer = uses_.producer(product);
    if (producer == graph::no_node) return false;
    const Node& matmul = graph_.node(producer);
    if (!uses_.is_read_once(product) || !is_product_without_bias(graph_, matmul)) return false;
    const ValueId bias = add.inputs[bias_input];
    if (!is_bias(graph_, bias, graph_.value(product).shape)) return false;
    const std::vector<ValueId> inputs = {matmul.inputs[0], matmul.inputs[1], as_vector(bias)};
    Node fused{add.name, "FusedMatMul", internal_domain, inputs, add.outputs, matmul.attributes};
    if (!can_run(kernels_, graph_, fused)) return false;
    add = std::move(fused);
    return true;
  }

  ValueId as_vector(ValueId bias) {
    const graph::Tensor& tensor = *graph_.value(bias).constant;
    if (tensor.shape().size() == 1) return bias;
    const graph::Tensor vector =
        (tensor.is_contiguous() ? tensor : tensor.contiguous_copy()).reshaped({tensor.elements()});
    return graph_.add_constant(graph_.value(bias).name, vector);
  }

  Graph& graph_;
  const KernelTable& kernels_;
  ValueUses uses_;
};

}  // namespace

void fuse_biases(Graph& graph, const KernelTable& kernels) { BiasFusion(graph, kernels).run(); }

}  // namespace autopar::runtime::passes
