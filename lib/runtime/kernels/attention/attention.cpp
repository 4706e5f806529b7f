#include "runtime/kernels/attention/attention.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "runtime/kernels/common/strides.h"

namespace autopar::runtime {
namespace {

using Layout = AttentionProblem::Layout;

Layout layout_of(const std::vector<std::int64_t>& strides) {
  return {strides.at(0), strides.at(1), strides.at(2), strides.at(3)};
}

bool is_there(std::span<const TensorView> views, std::size_t i) {
  return i < views.size() && views[i].present();
}

/// [batch, heads, rows, columns], or [batch, rows, heads x columns].
struct Heads {
  std::int64_t batches = 0;
  std::int64_t heads = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Layout layout;

  Heads(const graph::Node& node, const Shape& shape, std::int64_t packed_heads) {
    const bool is_packed = shape.size() == 3;
    if ((shape.size() != 4 && !is_packed) ||
        (is_packed && (packed_heads <= 0 || shape[2] % packed_heads != 0)))
      fail("node '{}': {} is neither [batch, heads, rows, columns] nor [batch, rows, {} heads]",
           node.name, graph::to_string(shape), packed_heads);
    batches = shape[0];
    heads = is_packed ? packed_heads : shape[1];
    rows = is_packed ? shape[1] : shape[2];
    columns = is_packed ? shape[2] / packed_heads : shape[3];
    layout = is_packed ? Layout{rows * shape[2], columns, shape[2], 1}
                       : Layout{heads * rows * columns, rows * columns, columns, 1};
  }
};

[[noreturn]] void fail_shapes(const graph::Node& node, const Shape& q, const Shape& k,
                              const Shape& v) {
  fail("node '{}': queries {}, keys {} and values {} of Attention do not fit together", node.name,
       graph::to_string(q), graph::to_string(k), graph::to_string(v));
}

}  // namespace

AttentionProblem::AttentionProblem(const graph::Node& node, std::span<const TensorView> inputs,
                                   std::span<const TensorView> outputs)
    : fill(node.float_attribute("fill", -std::numeric_limits<float>::infinity())) {
  if (node.domain.empty())
    read_onnx(node, inputs, outputs);
  else
    read_internal(node, inputs, outputs);
}

void AttentionProblem::read_internal(const graph::Node& node, std::span<const TensorView> inputs,
                                     std::span<const TensorView> outputs) {
  scale = node.float_attribute("scale", 1);
  causal = node.int_attribute("causal", 0) != 0;
  nan_to_zero = node.int_attribute("nan_to_zero", 0) != 0;
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
  if (!fits) fail_shapes(node, q_shape, k_shape, v_shape);
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
  first_position = keys - queries;
  read_mask(node, inputs);
}

void AttentionProblem::read_onnx(const graph::Node& node, std::span<const TensorView> inputs,
                                 std::span<const TensorView> outputs) {
  const std::int64_t packed_heads = node.int_attribute("q_num_heads", 0);
  const std::int64_t packed_key_heads = node.int_attribute("kv_num_heads", 0);
  const Heads of_q(node, inputs[0].shape, packed_heads);
  const Heads of_k(node, inputs[1].shape, packed_key_heads);
  const Heads of_v(node, inputs[2].shape, packed_key_heads);
  const Heads of_out(node, outputs[0].shape, packed_heads);
  if (of_k.batches != of_q.batches || of_v.batches != of_q.batches || of_v.heads != of_k.heads ||
      of_k.heads <= 0 || of_q.heads % of_k.heads != 0 || of_v.rows != of_k.rows ||
      of_k.columns != of_q.columns || of_out.rows != of_q.rows || of_out.heads != of_q.heads ||
      of_out.batches != of_q.batches || of_out.columns != of_v.columns)
    fail_shapes(node, inputs[0].shape, inputs[1].shape, inputs[2].shape);
  batches = of_q.batches;
  heads = of_q.heads;
  key_heads = of_k.heads;
  queries = of_q.rows;
  depth = of_q.columns;
  value_depth = of_v.columns;
  q = of_q.layout;
  k = of_k.layout;
  v = of_v.layout;
  out = of_out.layout;
  if (is_there(inputs, 4) != is_there(inputs, 5))
    fail("node '{}': Attention has a past of keys or values without the other", node.name);
  if (is_there(inputs, 4)) {
    const Shape& past_k = inputs[4].shape;
    past = past_k.size() == 4 ? past_k[2] : 0;
    if (past_k != Shape{batches, key_heads, past, depth} ||
        inputs[5].shape != Shape{batches, key_heads, past, value_depth})
      fail_shapes(node, inputs[0].shape, past_k, inputs[5].shape);
  }
  keys = past + of_k.rows;
  first_position = past;
  has_cache = is_there(inputs, 4) || is_there(outputs, 1) || is_there(outputs, 2);
  has_lengths = is_there(inputs, 6);
  if (has_lengths &&
      (inputs[6].shape != Shape{batches} || inputs[6].type != DataType::int64 || past > 0))
    fail("node '{}': nonpad_kv_seqlen of Attention is {}, and stands beside a past of {} keys",
         node.name, graph::to_string(inputs[6].shape), past);
  scale = node.has_attribute("scale") ? static_cast<double>(node.float_attribute("scale", 1))
                                      : 1 / std::sqrt(static_cast<double>(depth));
  softcap = node.float_attribute("softcap", 0);
  causal = node.int_attribute("is_causal", 0) != 0;
  left_window = node.int_attribute("left_window_size", -1);
  right_window = node.int_attribute("right_window_size", -1);
  none_is_zero = true;
  if (is_there(outputs, 3)) {
    const std::int64_t mode = node.int_attribute("qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3 || outputs[3].shape != Shape{batches, heads, queries, keys})
      fail("node '{}': qk_matmul_output of Attention has mode {} and shape {}", node.name, mode,
           graph::to_string(outputs[3].shape));
    scores = static_cast<Scores>(mode + 1);
  }
  read_mask(node, inputs);
}

void AttentionProblem::read_mask(const graph::Node& node, std::span<const TensorView> inputs) {
  mask_keys = keys;
  if (!is_there(inputs, 3)) return;
  Shape to{batches, heads, queries, keys};
  const Shape& shape = inputs[3].shape;
  if (node.domain.empty() && !shape.empty() && shape.back() != 1 && shape.back() < keys)
    to.back() = mask_keys = shape.back();
  const auto strides = broadcast_strides(shape, to);
  if (strides.empty())
    fail("node '{}': a mask of {} does not broadcast to scores of {}x{}x{}x{}", node.name,
         graph::to_string(shape), batches, heads, queries, keys);
  mask = layout_of(strides);
}

}  // namespace autopar::runtime
