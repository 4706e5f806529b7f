#include "runtime/passes/matcher.h"

namespace autopar::runtime::passes {
namespace {

/// The node that takes whole matrices out of a constant [matrices, rows, columns], by Gather or
/// GatherND; null where the value is something else.
const Node* gather_of_matrices(const Matcher& matcher, ValueId value) {
  const Node* gather = matcher.maker(value, "Gather");
  const Node* node = gather != nullptr ? gather : matcher.maker(value, "GatherND");
  if (node == nullptr || !matcher.is_constant(node->inputs[0])) return nullptr;
  const Shape& indices = matcher.shape(node->inputs[1]);
  const bool names_matrices =
      gather != nullptr
          ? node->int_attribute("axis", 0) == 0 && indices.size() == 1
          : node->int_attribute("batch_dims", 0) == 0 && indices.size() == 2 && indices[1] == 1;
  return names_matrices && matcher.shape(node->inputs[0]).size() == 3 ? node : nullptr;
}

/// The product of matrices, as many as there are vectors, on the table's side.
std::optional<Node> product_with_table(const Pass& pass, const Node& matmul, std::size_t table) {
  const Node* gather = gather_of_matrices(pass, matmul.inputs[table]);
  if (gather == nullptr) return std::nullopt;
  const Shape& stacked = pass.shape(matmul.inputs[table]);
  const Shape& vectors = pass.shape(matmul.inputs[1 - table]);
  if (vectors.size() != 3 || vectors[0] != stacked[0] || vectors[2 - table] != 1)
    return std::nullopt;
  Node fused{matmul.name, "GatheredMatMul", internal_domain, matmul.inputs, matmul.outputs, {}};
  fused.inputs[table] = gather->inputs[0];
  fused.inputs.push_back(gather->inputs[1]);
  fused.attributes["table"] = static_cast<std::int64_t>(table);
  return pass.if_it_runs(std::move(fused));
}

}  // namespace

void fuse_gathered_products(Graph& graph, const KernelTable& kernels) {
  rewrite_nodes(graph, kernels, [](Pass& pass, const Node& node) -> std::optional<Node> {
    if (!is_onnx(node, "MatMul")) return std::nullopt;
    auto fused = product_with_table(pass, node, 0);
    return fused ? fused : product_with_table(pass, node, 1);
  });
}

}  // namespace autopar::runtime::passes
