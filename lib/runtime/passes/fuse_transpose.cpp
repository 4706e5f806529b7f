#include <algorithm>
#include <numeric>
#include <optional>

#include "runtime/passes/passes.h"
#include "runtime/passes/value_uses.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;
using Permutation = std::vector<std::int64_t>;

/// The permutation without the swap of the last two dimensions that the product will do itself;
/// nullopt where taking the swap out leaves no cheaper copy.
std::optional<Permutation> without_swap(const Graph& graph, const Node& transpose) {
  const std::size_t rank = graph.value(transpose.inputs[0]).shape.size();
  if (rank < 2) return std::nullopt;
  Permutation reversed(rank);
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  Permutation permutation = transpose.ints_attribute("perm", reversed);
  std::swap(permutation[rank - 1], permutation[rank - 2]);
  const bool keeps_rows = permutation[rank - 1] == static_cast<std::int64_t>(rank) - 1;
  return keeps_rows ? std::optional(permutation) : std::nullopt;
}

class TransposeFusion {
 public:
  explicit TransposeFusion(Graph& graph) : graph_(graph), uses_(graph) {}

  void run() {
    for (Node& node : graph_.nodes)
      if (node.domain.empty() && node.op_type == "MatMul") fuse(node);
  }

 private:
  void fuse(Node& matmul) {
    const bool vectors = graph_.value(matmul.inputs[0]).shape.size() < 2 ||
                         graph_.value(matmul.inputs[1]).shape.size() < 2;
    if (vectors) return;
    const bool a = take_transpose(matmul.inputs[0]);
    const bool b = take_transpose(matmul.inputs[1]);
    if (!a && !b) return;
    matmul.domain = internal_domain;
    matmul.op_type = "FusedMatMul";
    if (a) matmul.attributes["transA"] = std::int64_t{1};
    if (b) matmul.attributes["transB"] = std::int64_t{1};
  }

  /// Replaces the operand by one with its last two dimensions swapped, where that is cheaper.
  bool take_transpose(ValueId& operand) {
    const NodeId producer = uses_.producer(operand);
    if (producer == graph::no_node) return false;
    Node& transpose = graph_.node(producer);
    if (!transpose.domain.empty() || transpose.op_type != "Transpose") return false;
    const auto permutation = without_swap(graph_, transpose);
    if (!permutation) return false;
    const bool is_identity = std::ranges::is_sorted(*permutation);
    const bool reads_constant = is_identity && graph_.is_constant(transpose.inputs[0]);
    if (!uses_.is_read_once(operand) && !reads_constant) return false;
    if (is_identity) {
      operand = transpose.inputs[0];
      return true;
    }
    transpose.attributes["perm"] = *permutation;
    graph::Shape& shape = graph_.value(operand).shape;
    std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
    return true;
  }

  Graph& graph_;
  ValueUses uses_;
};

}  // namespace

void fuse_transposes(Graph& graph, const KernelTable& kernels) {
  if (kernels.find(internal_domain, "FusedMatMul") != nullptr) TransposeFusion(graph).run();
}

}  // namespace autopar::runtime::passes
