#include "runtime/kernels/attention.h"

#include <limits>

#include "graph/error.h"
#include "runtime/kernels/strides.h"

namespace autopar::runtime {
namespace {

AttentionProblem::Layout layout_of(const std::vector<std::int64_t>& strides) {
  return {strides.at(0), strides.at(1), strides.at(2), strides.at(3)};
}

}  // namespace

AttentionProblem::AttentionProblem(const graph::Node& node, std::span<const TensorView> inputs,
                                   std::span<const TensorView> outputs)
    : scale(node.float_attribute("scale", 1)),
      fill(node.float_attribute("fill", -std::numeric_limits<float>::infinity())),
      causal(node.int_attribute("causal", 0) != 0),
      nan_to_zero(node.int_attribute("nan_to_zero", 0) != 0) {
  const auto permutation = [&](const char* name) { return node.ints_attribute(name, {}); };
  const StridedShape of_q = permuted(inputs[0].shape, permutation("q_perm"));
  const StridedShape of_k = permuted(inputs[1].shape, permutation("k_perm"));
  const StridedShape of_v = permuted(inputs[2].shape, permutation("v_perm"));
  // out_perm makes what is stored of the result.
  const StridedShape of_out = permuted(outputs[0].shape, inverse(permutation("out_perm")));
  const Shape& q_shape = of_q.dims;
  const Shape& k_shape = of_k.dims;
  const Shape& v_shape = of_v.dims;
  const bool fits = q_shape.size() == 4 && k_shape.size() == 4 && v_shape.size() == 4 &&
                    k_shape[0] == q_shape[0] && v_shape[0] == q_shape[0] &&
                    v_shape[1] == k_shape[1] && k_shape[1] > 0 && q_shape[1] % k_shape[1] == 0 &&
                    v_shape[2] == k_shape[2] && k_shape[3] == q_shape[3] &&
                    of_out.dims == Shape{q_shape[0], q_shape[1], q_shape[2], v_shape[3]};
  if (!fits)
    fail("node '{}': queries {}, keys {} and values {} of Attention do not fit together", node.name,
         graph::to_string(q_shape), graph::to_string(k_shape), graph::to_string(v_shape));
  batches = q_shape[0];
  heads = q_shape[1];
  key_heads = k_shape[1];
  queries = q_shape[2];
  keys = k_shape[2];
  depth = q_shape[3];
  value_depth = v_shape[3];
  q = layout_of(of_q.strides);
  k = layout_of(of_k.strides);
  v = layout_of(of_v.strides);
  out = layout_of(of_out.strides);
  if (inputs.size() < 4 || !inputs[3].present()) return;
  const auto strides = broadcast_strides(inputs[3].shape, {batches, heads, queries, keys});
  if (strides.empty())
    fail("node '{}': a mask of {} does not broadcast to scores of {}x{}x{}x{}", node.name,
         graph::to_string(inputs[3].shape), batches, heads, queries, keys);
  mask = layout_of(strides);
}

}  // namespace autopar::runtime
