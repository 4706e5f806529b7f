#include <algorithm>
#include <numeric>

#include "runtime/passes/layout.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

class PermutationFusion {
 public:
  PermutationFusion(Graph& graph, const KernelTable& kernels)
      : graph_(graph), kernels_(kernels), matcher_(graph) {}

  void run() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node node = graph_.nodes[n];
      if (!is_product(node)) continue;
      if (!fuse(node, true, true) && !fuse(node, true, false)) fuse(node, false, true);
    }
    insertions_.apply(graph_);
  }

 private:
  bool is_product(const Node& node) const {
    const bool is_matmul = node.domain.empty() && node.op_type == "MatMul";
    const bool is_fused = node.domain == internal_domain && node.op_type == "FusedMatMul";
    return (is_matmul || is_fused) && matcher_.shape(node.inputs[0]).size() >= 2 &&
           matcher_.shape(node.inputs[1]).size() >= 2;
  }

  bool fuse(Node product, bool with_operands, bool with_result) {
    const ValueId result = product.outputs[0];
    const DataType type = matcher_.type(result);
    const Shape& shape = matcher_.shape(result);
    std::vector<std::int64_t> identity(shape.size());
    std::iota(identity.begin(), identity.end(), 0);
    const Tail tail =
        with_result ? find_tail(graph_, matcher_, result, type) : Tail{result, {shape, identity}};
    const NodeId root = matcher_.uses().producer(tail.value);
    Insertions inserted;
    bool is_changed = tail.value != result;
    if (with_operands) {
      is_changed |= permute(product, 0, "transA", "a_perm", root, inserted);
      is_changed |= permute(product, 1, "transB", "b_perm", root, inserted);
    }
    if (!is_changed) return false;
    product.domain = internal_domain;
    product.op_type = "FusedMatMul";
    set_permutation(product, "out_perm", tail.stored);
    if (!put(graph_, kernels_, std::move(product), tail, root, inserted)) return false;
    insertions_.append(std::move(inserted));
    return true;
  }

  /// Reads the operand from before its Transposes.
  bool permute(Node& product, std::size_t input, const char* flag, const char* name, NodeId root,
               Insertions& inserted) {
    const auto traced = trace(graph_, matcher_, product.inputs[input], false);
    for (auto each = traced.rbegin(); each != traced.rend(); ++each) {
      if (!each->is_moved || each->factor != 1) continue;
      Layout layout = each->layout;
      if (product.int_attribute(flag, 0) != 0) layout.swap_last_two();
      auto stored = layout.stored(matcher_.shape(each->source));
      if (!stored) continue;
      product.attributes.erase(flag);
      product.inputs[input] =
          inserted.reshape_before(root, graph_, each->source, stored->shape, name);
      auto& permutation = stored->permutation;
      std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
      if (stored->is_identity()) {
        product.attributes[flag] = std::int64_t{1};
      } else {
        std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
        set_permutation(product, name, *stored);
      }
      return true;
    }
    return false;
  }

  Graph& graph_;
  const KernelTable& kernels_;
  Matcher matcher_;
  Insertions insertions_;
};

}  // namespace

void fuse_permutations(Graph& graph, const KernelTable& kernels) {
  PermutationFusion(graph, kernels).run();
}

}  // namespace autopar::runtime::passes
