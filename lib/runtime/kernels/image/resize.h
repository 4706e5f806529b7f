#pragma once

#include <cstdint>
#include <vector>

#include "runtime/kernel.h"

/// What Resize asks for. Every dimension is resized by itself: a table has, for each place of the
/// result, places of the input and their weights.
namespace autopar::runtime {

/// The table of one dimension, in host memory.
struct AxisTable {
  std::size_t axis = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t taps = 1;
  std::vector<std::int32_t> places;  ///< [out, taps], all of them inside; -1 first: extrapolated
  std::vector<double> weights;       ///< [out, taps]

  /// Whether each place is taken from the place of its own index.
  bool is_identity() const;
};

enum class ResizeMode { nearest, linear, cubic };

/// What Resize says: tables of the dimensions that it changes, the innermost first.
struct Resizing {
  ResizeMode mode = ResizeMode::nearest;
  double extrapolation_value = 0;
  std::vector<AxisTable> axes;
};
Resizing resizing_of(const KernelRequest& request);

}  // namespace autopar::runtime
