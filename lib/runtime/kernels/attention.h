#pragma once

#include <cstdint>

#include "runtime/kernel.h"

namespace autopar::runtime {

/// What an Attention node (passes/passes.h) says, for all devices. Layouts have strides, in
/// elements, of batch, head, row and column.
struct AttentionProblem {
  struct Layout {
    std::int64_t batch = 0;
    std::int64_t head = 0;
    std::int64_t row = 0;
    std::int64_t column = 0;
  };
  std::int64_t batches = 1;
  std::int64_t heads = 1;
  std::int64_t key_heads = 1;  ///< divides heads
  std::int64_t queries = 1;
  std::int64_t keys = 1;
  std::int64_t depth = 1;        ///< of queries and keys
  std::int64_t value_depth = 1;  ///< of values and the result
  Layout q;
  Layout k;
  Layout v;
  Layout out;
  Layout mask;  ///< of scores; 0 where it is broadcast
  float scale = 1;
  float fill = 0;
  bool causal = false;
  bool nan_to_zero = false;

  /// Throws Error for shapes that do not fit together.
  AttentionProblem(const graph::Node& node, std::span<const TensorView> inputs,
                   std::span<const TensorView> outputs);
};

}  // namespace autopar::runtime
