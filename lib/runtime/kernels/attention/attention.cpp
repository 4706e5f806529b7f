#include "runtime/kernels/attention/attention.h"

#include <cmath>
#include <limits>

#include "graph/arena.h"
#include "runtime/kernels/attention/kernels.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/common/strides.h"

namespace autopar::runtime {
namespace {

using Layout = AttentionProblem::Layout;

Layout layout_of(const std::vector<std::int64_t>& strides) {
  return {strides.at(0), strides.at(1), strides.at(2), strides.at(3)};
}

/// An operand as [batch, heads, rows, columns].
struct Heads {
  std::int64_t batches = 0;
  std::int64_t heads = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Layout layout;
  Shape told;  ///< for messages
};

/// ONNX's: [batch, heads, rows, columns], or [batch, rows, heads x columns].
Heads heads_of(const graph::Node& node, const Shape& shape, std::int64_t packed_heads) {
  const bool is_packed = shape.size() == 3;
  if ((shape.size() != 4 && !is_packed) ||
      (is_packed && (packed_heads <= 0 || shape[2] % packed_heads != 0)))
    fail("node '{}': {} is neither [batch, heads, rows, columns] nor [batch, rows, {} heads]",
         node.name, graph::to_string(shape), packed_heads);
  if (!is_packed)
    return {shape[0], shape[1], shape[2], shape[3], layout_of(row_major_strides(shape)), shape};
  const std::int64_t columns = shape[2] / packed_heads;
  return {shape[0], packed_heads, shape[1], columns, {shape[1] * shape[2], columns, shape[2], 1},
          shape};
}

/// The compiler's, of four dimensions after a permutation.
Heads heads_of(const StridedShape& of) {
  if (of.dims.size() != 4) return {-1, 0, 0, 0, {}, of.dims};  // fits nothing
  return {of.dims[0], of.dims[1], of.dims[2], of.dims[3], layout_of(of.strides), of.dims};
}

[[noreturn]] void fail_shapes(const graph::Node& node, const Shape& q, const Shape& k,
                              const Shape& v) {
  fail("node '{}': queries {}, keys {} and values {} of Attention do not fit together", node.name,
       graph::to_string(q), graph::to_string(k), graph::to_string(v));
}

void check_heads(const graph::Node& node, const Heads& q, const Heads& k, const Heads& v,
                 const Heads& out) {
  const bool fits = q.batches >= 0 && k.batches == q.batches && v.batches == q.batches &&
                    out.batches == q.batches && k.heads > 0 && q.heads % k.heads == 0 &&
                    v.heads == k.heads && out.heads == q.heads && v.rows == k.rows &&
                    out.rows == q.rows && k.columns == q.columns && out.columns == v.columns;
  if (!fits) fail_shapes(node, q.told, k.told, v.told);
}

}  // namespace

AttentionProblem::AttentionProblem(const graph::Node& node, std::span<const TensorView> inputs,
                                   std::span<const TensorView> outputs)
    : fill(node.float_attribute("fill", -std::numeric_limits<float>::infinity())) {
  const bool is_onnx = node.domain.empty();
  const auto operand = [&](const Shape& shape, const char* packed_heads, const char* permutation) {
    if (is_onnx) return heads_of(node, shape, node.int_attribute(packed_heads, 0));
    return heads_of(permuted(shape, node.ints_attribute(permutation, {})));
  };
  const Heads of_q = operand(inputs[0].shape, "q_num_heads", "q_perm");
  const Heads of_k = operand(inputs[1].shape, "kv_num_heads", "k_perm");
  const Heads of_v = operand(inputs[2].shape, "kv_num_heads", "v_perm");
  // out_perm makes what is stored of the result.
  const Heads of_out =
      is_onnx ? operand(outputs[0].shape, "q_num_heads", "")
              : heads_of(permuted(outputs[0].shape, inverse(node.ints_attribute("out_perm", {}))));
  check_heads(node, of_q, of_k, of_v, of_out);
  batches = of_q.batches;
  heads = of_q.heads;
  key_heads = of_k.heads;
  queries = of_q.rows;
  keys = of_k.rows;
  depth = of_q.columns;
  value_depth = of_v.columns;
  q = of_q.layout;
  k = of_k.layout;
  v = of_v.layout;
  out = of_out.layout;
  if (is_onnx)
    read_onnx(node, inputs, outputs);
  else
    read_internal(node);
  read_mask(node, inputs);
}

void AttentionProblem::read_internal(const graph::Node& node) {
  scale = node.float_attribute("scale", 1);
  causal = node.int_attribute("causal", 0) != 0;
  nan_to_zero = node.int_attribute("nan_to_zero", 0) != 0;
  first_position = keys - queries;
}

void AttentionProblem::read_onnx(const graph::Node& node, std::span<const TensorView> inputs,
                                 std::span<const TensorView> outputs) {
  if (is_given(inputs, 4) != is_given(inputs, 5))
    fail("node '{}': Attention has a past of keys or values without the other", node.name);
  if (is_given(inputs, 4)) {
    const Shape& past_k = inputs[4].shape;
    past = past_k.size() == 4 ? past_k[2] : 0;
    if (past_k != Shape{batches, key_heads, past, depth} ||
        inputs[5].shape != Shape{batches, key_heads, past, value_depth})
      fail_shapes(node, inputs[0].shape, past_k, inputs[5].shape);
  }
  keys += past;
  first_position = past;
  has_cache = is_given(inputs, 4) || is_given(outputs, 1) || is_given(outputs, 2);
  has_lengths = is_given(inputs, 6);
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
  if (is_given(outputs, 3)) {
    const std::int64_t mode = node.int_attribute("qk_matmul_output_mode", 0);
    if (mode < 0 || mode > 3 || outputs[3].shape != Shape{batches, heads, queries, keys})
      fail("node '{}': qk_matmul_output of Attention has mode {} and shape {}", node.name, mode,
           graph::to_string(outputs[3].shape));
    scores = static_cast<Scores>(mode + 1);
  }
}

void AttentionProblem::read_mask(const graph::Node& node, std::span<const TensorView> inputs) {
  mask_keys = keys;
  if (!is_given(inputs, 3)) return;
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

AttentionCache::AttentionCache(const KernelRequest& request, AttentionProblem& problem) {
  if (!problem.has_cache) return;
  const auto side = [&](std::size_t input, Layout& layout, std::int64_t columns) {
    const int bytes = element_bytes_of(request, request.inputs[input]);
    const std::int64_t head = problem.keys * columns;
    const std::int64_t rows = problem.keys - problem.past;
    Side made;
    made.shape = {problem.batches, problem.key_heads, problem.keys, columns};
    made.has_output = is_given(request.outputs, input);
    made.past_elements = problem.past * columns;
    const std::vector<std::int64_t> to{problem.key_heads * head, head, columns, 1};
    made.present =
        request.device.make_strided_copy({problem.batches, problem.key_heads, rows, columns},
                                         {layout.batch, layout.head, layout.row, 1}, to, bytes);
    if (problem.past > 0)
      made.past = request.device.make_strided_copy(
          {problem.batches, problem.key_heads, problem.past, columns},
          {problem.key_heads * made.past_elements, made.past_elements, columns, 1}, to, bytes);
    if (!made.has_output) scratch_bytes_ += graph::aligned(graph::num_elements(made.shape) * bytes);
    layout = {to[0], to[1], to[2], 1};
    return made;
  };
  sides_ = {side(1, problem.k, problem.depth), side(2, problem.v, problem.value_depth)};
}

TensorView AttentionCache::join(std::size_t input, const KernelIo& io, std::byte*& scratch) const {
  const Side& side = sides_[input - 1];
  if (!side.present) return io.inputs[input];
  TensorView joined{io.inputs[input].type, side.shape, nullptr};
  joined.data = side.has_output ? io.outputs[input].data : scratch;
  if (!side.has_output) scratch += graph::aligned(joined.size_bytes());
  if (joined.elements() == 0) return joined;
  if (side.past) side.past->run(io.inputs[input + 3].data, joined.data, io.stream);
  const std::int64_t element_bytes = joined.size_bytes() / joined.elements();
  side.present->run(io.inputs[input].data, joined.data + side.past_elements * element_bytes,
                    io.stream);
  return joined;
}

AttentionCache::Joined AttentionCache::join(const KernelIo& io, std::byte* scratch) const {
  const TensorView keys = join(1, io, scratch);
  return {keys, join(2, io, scratch)};
}

namespace cuda {
namespace {

bool has_attention_types(std::span<const TensorView> inputs) {
  const DataType type = inputs[0].type;
  if (inputs[1].type != type || inputs[2].type != type) return false;
  if (!is_given(inputs, 3)) return true;
  const DataType mask = inputs[3].type;
  return mask == DataType::boolean || mask == DataType::float32 || mask == type;
}

/// A decoder's step: the kernel for every form takes a query at a time, and repeats no keys and
/// values for the heads that share them.
bool serves_few_queries(const graph::Node& node, std::span<const TensorView> inputs,
                        std::span<const TensorView> outputs) {
  constexpr std::int64_t few = 4;
  constexpr std::int64_t deepest = 2048;
  if (!is_wide_float(inputs[0].type) || !has_attention_types(inputs)) return false;
  const AttentionProblem problem(node, inputs, outputs);
  return problem.queries <= few && problem.depth <= deepest && problem.value_depth <= deepest;
}

}  // namespace

bool serves_tiled_attention(const graph::Node& node, std::span<const TensorView> inputs,
                            std::span<const TensorView> outputs) {
  const DataType type = inputs[0].type;
  if (!is_half(type)) return false;
  if (!has_attention_types(inputs)) return false;
  const AttentionProblem problem(node, inputs, outputs);
  if (problem.scores != AttentionProblem::Scores::none) return false;
  // Rows are copied 16 bytes at a time.
  const auto has_packed_rows = [](const AttentionProblem::Layout& layout) {
    return layout.column == 1 && layout.row % 8 == 0 && layout.head % 8 == 0 &&
           layout.batch % 8 == 0;
  };
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  return problem.depth % 8 == 0 && problem.value_depth % 8 == 0 && problem.depth <= 256 &&
         problem.value_depth <= 256 && has_packed_rows(problem.q) && has_packed_rows(problem.k) &&
         has_packed_rows(problem.v) && has_packed_rows(problem.out) && problem.keys <= most / 2 &&
         problem.queries <= most / 2 / (problem.heads / problem.key_heads) &&
         problem.batches * problem.heads * (problem.queries / attention_tile_queries + 1) <= most;
}

bool serves_attention(const graph::Node& node, std::span<const TensorView> inputs,
                      std::span<const TensorView> outputs) {
  return serves_tiled_attention(node, inputs, outputs) || serves_few_queries(node, inputs, outputs);
}

}  // namespace cuda

}  // namespace autopar::runtime
