#pragma once

#include <cstdint>
#include <optional>

#include "runtime/kernel.h"
#include "runtime/kernels/common/host_device.h"

namespace autopar::runtime {

/// What a RotaryEmbedding node says, for all devices: ONNX's, or the compiler's (passes/passes.h).
/// A row holds pairs of elements, which are turned by an angle each; what follows them in the row
/// stays. Strides are in elements.
struct RotaryProblem {
  /// The dimensions of rows: batch, position and head in the order in which they are stored, or
  /// any; how each finds its cosines and sines.
  static constexpr int dimensions = 4;
  std::int64_t extents[dimensions] = {1, 1, 1, 1};
  std::int64_t cos_strides[dimensions] = {};
  std::int64_t sin_strides[dimensions] = {};
  /// Where a row finds its position in input 3; all 0 and unused without it.
  std::int64_t position_strides[dimensions] = {};
  bool has_positions = false;
  std::int64_t table_rows = 0;  ///< of cosines, where there are positions
  std::int64_t rows = 0;
  std::int64_t row_elements = 0;
  std::int64_t pairs = 0;  ///< of a row
  /// From the first element of a pair to that of the next, and to its second element.
  std::int64_t pair_stride = 1;
  std::int64_t within_pair = 1;
  /// From the factors of a pair's first element to those of its second; ONNX's share theirs.
  std::int64_t second_factor = 0;

  /// Where a row finds its cosines, its sines and its position.
  struct RowPlaces {
    std::int64_t cos = 0;
    std::int64_t sin = 0;
    std::int64_t position = 0;
  };
  AUTOPAR_ELEMENTWISE RowPlaces places_of(std::int64_t row) const {
    RowPlaces places;
    for (int d = dimensions - 1; d >= 0; --d) {
      const std::int64_t index = row % extents[d];
      row /= extents[d];
      places.cos += index * cos_strides[d];
      places.sin += index * sin_strides[d];
      places.position += index * position_strides[d];
    }
    return places;
  }

  /// nullopt where no kernel finds its way through the shapes and types.
  static std::optional<RotaryProblem> of(const graph::Node& node,
                                         std::span<const TensorView> inputs);
};

/// `RotaryProblem::of`, but throws Error naming the node instead of returning nullopt.
RotaryProblem rotary_problem(const KernelRequest& request);

}  // namespace autopar::runtime
