#include "runtime/kernels/cuda_operators.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "runtime/kernels/attention/attention.h"
#include "runtime/kernels/attention/rotary_embedding.h"
#include "runtime/kernels/common/strides.h"
#include "runtime/kernels/convolution/windows.h"
#include "runtime/kernels/elementwise/elementwise.h"
#include "runtime/kernels/elementwise/operators.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime {
namespace cuda {
namespace {

bool are_there(std::initializer_list<TensorView> views) {
  return std::ranges::all_of(views, [](const TensorView& view) { return view.elements() > 0; });
}

/// Not so the 8-bit floats.
bool is_computed_in(DataType type) {
  return graph::is_floating_point(type) && graph::bits_of(type) >= 16;
}

bool serves_fused_matmul(const graph::Node& node, std::span<const TensorView> outputs) {
  const std::string activation = node.string_attribute("activation", "");
  return is_computed_in(outputs[0].type) && (activation.empty() || activation == "Relu" ||
                                             activation == "Gelu" || activation == "GeluTanh");
}

bool serves_gathered_matmul(std::span<const TensorView> inputs) {
  return inputs[0].type == inputs[1].type && is_computed_in(inputs[0].type) &&
         are_there({inputs[0], inputs[1], inputs[2]});
}

bool serves_quantized_matmul(std::span<const TensorView> inputs,
                             std::span<const TensorView> outputs) {
  constexpr std::size_t most_dimensions = 8;
  if (outputs[0].elements() == 0) return true;
  return are_there({inputs[0], inputs[1]}) && outputs[0].shape.size() <= most_dimensions;
}

bool serves_quantized_conv(std::span<const TensorView> inputs,
                           std::span<const TensorView> outputs) {
  if (outputs[0].elements() == 0) return true;
  return are_there({inputs[0], inputs[1]}) && inputs[0].shape.size() <= 2 + Windows::dimensions;
}

bool has_attention_types(std::span<const TensorView> inputs) {
  const DataType type = inputs[0].type;
  if (inputs[1].type != type || inputs[2].type != type) return false;
  if (inputs.size() <= 3 || !inputs[3].present()) return true;
  const DataType mask = inputs[3].type;
  return mask == DataType::boolean || mask == DataType::float32 || mask == type;
}

/// A decoder's step: the kernel for every form takes a query at a time, and repeats no keys and
/// values for the heads that share them.
bool serves_few_queries(const graph::Node& node, std::span<const TensorView> inputs,
                        std::span<const TensorView> outputs) {
  constexpr std::int64_t few = 4;
  constexpr std::int64_t deepest = 2048;
  if (!is_computed_in(inputs[0].type) || !has_attention_types(inputs)) return false;
  const AttentionProblem problem(node, inputs, outputs);
  return problem.queries <= few && problem.depth <= deepest && problem.value_depth <= deepest;
}

/// The instructions that a program takes; rounding is a part of others unless there are none.
int instruction_count(const ElementwiseProgram& program) {
  const auto& instructions = program.instructions();
  const auto roundings = std::ranges::count_if(instructions, [](const auto& instruction) {
    return rounding_of(instruction.function) != DataType::undefined;
  });
  const auto all = static_cast<std::ptrdiff_t>(instructions.size());
  return static_cast<int>(roundings < all ? all - roundings : all);
}

}  // namespace

bool serves(const graph::Node& node, std::span<const TensorView> inputs,
            std::span<const TensorView> outputs) {
  if (node.op_type == "FusedMatMul") return serves_fused_matmul(node, outputs);
  if (node.op_type == "GatheredMatMul") return serves_gathered_matmul(inputs);
  if (node.op_type == "QuantizedMatMul") return serves_quantized_matmul(inputs, outputs);
  if (node.op_type == "QuantizedConv") return serves_quantized_conv(inputs, outputs);
  if (node.op_type == "Attention")
    return serves_attention(node, inputs, outputs) || serves_few_queries(node, inputs, outputs);
  if (node.op_type == "MaskedSoftmax")
    return inputs.size() < 2 || !inputs[1].present() || mask_layout(inputs).has_value();
  if (node.op_type == "RotaryEmbedding") return RotaryProblem::of(node, inputs).has_value();
  return true;
}

bool serves_attention(const graph::Node& node, std::span<const TensorView> inputs,
                      std::span<const TensorView> outputs) {
  const DataType type = inputs[0].type;
  if (type != DataType::float16 && type != DataType::bfloat16) return false;
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

std::optional<MaskLayout> mask_layout(std::span<const TensorView> inputs) {
  const TensorView& mask = inputs[1];
  if (mask.type != DataType::boolean && mask.type != inputs[0].type) return std::nullopt;
  Shape shape = inputs[0].shape;
  std::vector<std::int64_t> strides = broadcast_strides(mask.shape, shape);
  if (strides.empty()) return std::nullopt;
  const std::int64_t column_stride = strides.back();
  shape.pop_back();
  strides.pop_back();
  std::vector<std::vector<std::int64_t>> lists{std::move(strides)};
  merge_dimensions(shape, lists);
  if (shape.size() > MaskLayout::max_dimensions) return std::nullopt;
  return MaskLayout{std::move(shape), std::move(lists.front()), column_stride};
}

std::optional<int> chain_slots(const graph::Node& node, std::span<const TensorView> inputs,
                               const TensorView& output) {
  const auto program = link_program(node, inputs, output);
  if (!program || output.shape.size() > max_code_dimensions) return std::nullopt;
  return instruction_count(*program);
}

DataType rounding_of(FunctionId rounding) {
  if (rounding == function<functions::RoundTo<Float16>, Types<float>>) return DataType::float16;
  if (rounding == function<functions::RoundTo<BFloat16>, Types<float>>) return DataType::bfloat16;
  return DataType::undefined;
}

}  // namespace cuda

namespace {

/// CUDA's kernels are the CPU's by name, but for the body of a loop that only the run ends; and
/// collectives that go out together pay there alone.
std::vector<KernelEntry> entries() {
  std::vector<KernelEntry> names;
  for (const KernelEntry& entry : cpu_kernels().entries)
    if (entry.op_type != "Loop")
      names.push_back({entry.domain, entry.op_type, nullptr, entry.is_view});
  names.push_back({passes::internal_domain, "CollectiveGroup", nullptr});
  return names;
}

}  // namespace

const KernelTable& cuda_operators() {
  static const KernelTable table{"CUDA", entries(), cuda::chain_slots, cuda::max_chain_slots,
                                 cuda::serves};
  return table;
}

}  // namespace autopar::runtime
