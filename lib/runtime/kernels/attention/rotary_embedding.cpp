#include "runtime/kernels/attention/rotary_embedding.h"

#include <algorithm>
#include <iterator>

#include "runtime/kernels/attention/kernels.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/common/strides.h"

namespace autopar::runtime {
namespace {

/// X, cosines and sines that broadcast to it; the first half of a row is paired with the second.
std::optional<RotaryProblem> broadcast_problem(std::span<const TensorView> inputs) {
  Shape shape = inputs[0].shape;
  if (shape.empty() || shape.back() % 2 != 0) return std::nullopt;
  std::vector<std::vector<std::int64_t>> strides{row_major_strides(shape)};
  for (const TensorView& factor : inputs.subspan(1)) {
    strides.push_back(broadcast_strides(factor.shape, shape));
    if (factor.type != inputs[0].type || strides.back().empty() || strides.back().back() != 1)
      return std::nullopt;
  }
  RotaryProblem problem;
  problem.row_elements = shape.back();
  problem.rows = inputs[0].elements() / std::max<std::int64_t>(1, shape.back());
  problem.pairs = problem.within_pair = problem.second_factor = shape.back() / 2;
  shape.pop_back();
  for (auto& each : strides) each.pop_back();
  merge_dimensions(shape, {&strides[0], &strides[1], &strides[2]});
  if (shape.size() > RotaryProblem::dimensions) return std::nullopt;
  std::copy_backward(shape.begin(), shape.end(), std::end(problem.extents));
  std::copy_backward(strides[1].begin(), strides[1].end(), std::end(problem.cos_strides));
  std::copy_backward(strides[2].begin(), strides[2].end(), std::end(problem.sin_strides));
  return problem;
}

/// [batch, heads, positions, elements] or [batch, positions, heads x elements], and tables of
/// cosines and sines of half a row by position, or by batch and place in it.
std::optional<RotaryProblem> onnx_problem(const graph::Node& node,
                                          std::span<const TensorView> inputs) {
  const Shape& shape = inputs[0].shape;
  const Shape& table = inputs[1].shape;
  const bool is_packed = shape.size() == 3;
  const std::int64_t packed_heads = node.int_attribute("num_heads", 0);
  if ((!is_packed && shape.size() != 4) || inputs[2].shape != table || table.empty() ||
      inputs[1].type != inputs[0].type || inputs[2].type != inputs[0].type ||
      (is_packed && (packed_heads <= 0 || shape[2] % packed_heads != 0)))
    return std::nullopt;
  RotaryProblem problem;
  const std::int64_t heads = is_packed ? packed_heads : shape[1];
  const std::int64_t positions = is_packed ? shape[1] : shape[2];
  problem.row_elements = is_packed ? shape[2] / packed_heads : shape[3];
  const std::int64_t given = node.int_attribute("rotary_embedding_dim", 0);
  const std::int64_t turned = given == 0 ? problem.row_elements : given;
  if (turned < 0 || turned > problem.row_elements || turned % 2 != 0 || table.back() != turned / 2)
    return std::nullopt;
  problem.pairs = turned / 2;
  const bool is_interleaved = node.int_attribute("interleaved", 0) != 0;
  problem.pair_stride = is_interleaved ? 2 : 1;
  problem.within_pair = is_interleaved ? 1 : problem.pairs;
  problem.rows = shape[0] * heads * positions;
  const int position = is_packed ? 2 : 3;
  problem.extents[1] = shape[0];
  problem.extents[position] = positions;
  problem.extents[is_packed ? 3 : 2] = heads;
  problem.has_positions = is_given(inputs, 3);
  if (problem.has_positions) {
    const auto strides = broadcast_strides(inputs[3].shape, {shape[0], positions});
    if (inputs[3].type != DataType::int64 || strides.empty() || table.size() != 2)
      return std::nullopt;
    problem.position_strides[1] = strides[0];
    problem.position_strides[position] = strides[1];
    problem.table_rows = table[0];
  } else {
    const auto strides = broadcast_strides(table, {shape[0], positions, problem.pairs});
    if (strides.empty()) return std::nullopt;
    for (auto* factors : {problem.cos_strides, problem.sin_strides}) {
      factors[1] = strides[0];
      factors[position] = strides[1];
    }
  }
  return problem;
}

}  // namespace

std::optional<RotaryProblem> RotaryProblem::of(const graph::Node& node,
                                               std::span<const TensorView> inputs) {
  if (inputs.size() < 3 || !is_among(inputs[0].type, AllFloats{})) return std::nullopt;
  return node.domain.empty() ? onnx_problem(node, inputs) : broadcast_problem(inputs);
}

RotaryProblem rotary_problem(const KernelRequest& request) {
  const auto problem = RotaryProblem::of(request.node, request.inputs);
  if (problem) return *problem;
  const TensorView& x = request.inputs.at(0);
  fail("node '{}': cosines of {} and sines of {} do not rotate {} of {}", request.node.name,
       graph::to_string(request.inputs.at(1).shape), graph::to_string(request.inputs.at(2).shape),
       graph::to_string(x.shape), name_of(x.type));
}

bool serves_rotary_embedding(const graph::Node& node, std::span<const TensorView> inputs,
                             std::span<const TensorView>) {
  return RotaryProblem::of(node, inputs).has_value();
}

}  // namespace autopar::runtime
