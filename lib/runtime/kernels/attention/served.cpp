#include "runtime/kernels/attention/kernels.h"

#include <limits>

#include "runtime/kernels/attention/attention.h"
#include "runtime/kernels/attention/rotary_embedding.h"
#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {
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
  if (problem.softcap != 0 || problem.left_window >= 0 || problem.right_window >= 0 ||
      problem.has_lengths || problem.mask_keys != problem.keys ||
      problem.scores != AttentionProblem::Scores::none)
    return false;
  // Rows are copied 16 bytes at a time.
  const auto has_packed_rows = [](const AttentionProblem::Layout& layout) {
    return layout.column == 1 && layout.row % 8 == 0 && layout.head % 8 == 0 &&
           layout.batch % 8 == 0;
  };
  constexpr std::int64_t most = std::numeric_limits<int>::max();
  return problem.depth % 8 == 0 && problem.value_depth % 8 == 0 && problem.depth <= 256 &&
         problem.value_depth <= 256 && has_packed_rows(problem.q) && has_packed_rows(problem.k) &&
         has_packed_rows(problem.v) && has_packed_rows(problem.out) && problem.keys <= most / 2 &&
         problem.queries <= most / 2 &&
         problem.batches * problem.heads * (problem.queries / attention_tile_queries + 1) <= most;
}

bool serves_attention(const graph::Node& node, std::span<const TensorView> inputs,
                      std::span<const TensorView> outputs) {
  return serves_tiled_attention(node, inputs, outputs) || serves_few_queries(node, inputs, outputs);
}

}  // namespace cuda

bool serves_rotary_embedding(const graph::Node& node, std::span<const TensorView> inputs,
                             std::span<const TensorView>) {
  return RotaryProblem::of(node, inputs).has_value();
}

}  // namespace autopar::runtime
