#include <optional>

#include "runtime/passes/matcher.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

/// Matrices of a constant table, named by a list of numbers.
struct GatheredMatrices {
  ValueId table = graph::no_value;
  ValueId indices = graph::no_value;
};

class GatheredProductFusion {
 public:
  GatheredProductFusion(Graph& graph, const KernelTable& kernels)
      : graph_(graph), kernels_(kernels), matcher_(graph) {}

  void run() {
    for (Node& node : graph_.nodes) {
      if (!node.domain.empty() || node.op_type != "MatMul") continue;
      if (!fuse(node, 0)) fuse(node, 1);
    }
  }

 private:
  /// The product of matrices, as many as there are vectors, on the table's side.
  bool fuse(Node& matmul, std::size_t table) {
    const auto matrices = gathered(matmul.inputs[table]);
    if (!matrices) return false;
    const graph::Shape& stacked = matcher_.shape(matmul.inputs[table]);
    const graph::Shape& vectors = matcher_.shape(matmul.inputs[1 - table]);
    if (vectors.size() != 3 || vectors[0] != stacked[0] || vectors[2 - table] != 1) return false;
    Node fused{matmul.name, "GatheredMatMul", internal_domain, matmul.inputs, matmul.outputs, {}};
    fused.inputs[table] = matrices->table;
    fused.inputs.push_back(matrices->indices);
    fused.attributes["table"] = static_cast<std::int64_t>(table);
    if (!can_run(kernels_, graph_, fused)) return false;
    matmul = std::move(fused);
    return true;
  }

  /// Whole matrices out of [matrices, rows, columns], by Gather or GatherND.
  std::optional<GatheredMatrices> gathered(ValueId value) const {
    const Node* gather = matcher_.maker(value, "Gather");
    const Node* gather_nd = matcher_.maker(value, "GatherND");
    const Node* node = gather != nullptr ? gather : gather_nd;
    if (node == nullptr || !graph_.is_constant(node->inputs[0])) return std::nullopt;
    const graph::Shape& indices = matcher_.shape(node->inputs[1]);
    const bool names_matrices =
        gather != nullptr
            ? node->int_attribute("axis", 0) == 0 && indices.size() == 1
            : node->int_attribute("batch_dims", 0) == 0 && indices.size() == 2 && indices[1] == 1;
    if (!names_matrices || matcher_.shape(node->inputs[0]).size() != 3) return std::nullopt;
    return GatheredMatrices{node->inputs[0], node->inputs[1]};
  }

  Graph& graph_;
  const KernelTable& kernels_;
  Matcher matcher_;
};

}  // namespace

void fuse_gathered_products(Graph& graph, const KernelTable& kernels) {
  GatheredProductFusion(graph, kernels).run();
}

}  // namespace autopar::runtime::passes
