#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/common/strides.h"
#include "runtime/kernels/elementwise/functions.h"

namespace autopar::runtime {

/// What a Reduce operator says, for all devices: the kept and the reduced dimensions, merged where
/// they walk the input in one stride, outermost first.
struct ReducedDimensions {
  StridedShape kept{Shape{}};
  StridedShape reduced{Shape{}};

  /// The dimensions that the node's axes name.
  explicit ReducedDimensions(const KernelRequest& request);
  /// The places of images: what global poolings reduce.
  static ReducedDimensions of_images(const KernelRequest& request);
  std::int64_t rows() const { return graph::num_elements(kept.dims); }
  std::int64_t row_elements() const { return graph::num_elements(reduced.dims); }

 private:
  ReducedDimensions(const Shape& shape, const std::vector<bool>& is_reduced);
};

/// Some merged dimensions of the input, as rows' elements are walked.
struct ReducedSpace {
  static constexpr int max_dimensions = 6;

  int dimensions = 0;
  std::int64_t extents[max_dimensions] = {};
  std::int64_t strides[max_dimensions] = {};

  /// Error where there are too many dimensions.
  ReducedSpace(const KernelRequest& request, const StridedShape& from);

  AUTOPAR_ELEMENTWISE std::int64_t offset(std::int64_t index) const {
    std::int64_t result = 0;
    for (int d = dimensions - 1; d >= 0; --d) {
      result += index % extents[d] * strides[d];
      index /= extents[d];
    }
    return result;
  }
};

/// What CumSum and CumProd say, for all devices.
struct CumSumArguments {
  bool exclusive = false;
  bool reverse = false;
  AxisExtents extents;  ///< of the input around the axis
};
CumSumArguments cumsum_arguments(const KernelRequest& request);

/// What elements are added up in: integers in 64 bits, floats in double.
template <typename T>
using Accumulator = std::conditional_t<
    std::is_floating_point_v<decltype(widened(T{}))>, double,
    std::conditional_t<std::is_same_v<T, std::uint64_t>, std::uint64_t, std::int64_t>>;

/// An element as its accumulator.
template <typename T>
AUTOPAR_ELEMENTWISE Accumulator<T> accumulated(T value) {
  return static_cast<Accumulator<T>>(widened(value));
}

namespace reductions {

/// Below all elements, or above them: infinity, or the end of an integer type, which is narrower
/// than what it is accumulated in.
template <typename T>
constexpr Accumulator<T> beyond_all(bool above) {
  if constexpr (std::numeric_limits<Accumulator<T>>::has_infinity) {
    const auto infinity = std::numeric_limits<Accumulator<T>>::infinity();
    return above ? infinity : -infinity;
  } else {
    return above ? std::numeric_limits<T>::max() : std::numeric_limits<T>::lowest();
  }
}

/// One reduction: what it starts from by the type of elements, how it takes an element in, how two
/// parts become one, and what it makes of the end. Integers wrap around, as ONNX Runtime's do.
struct Sum {
  static constexpr bool selects = false;  ///< the result is one of the elements
  template <typename T>
  static constexpr Accumulator<T> start = 0;
  AUTOPAR_ELEMENTWISE static auto take(auto sum, auto x) { return functions::Add{}(sum, x); }
  AUTOPAR_ELEMENTWISE static auto join(auto sum, auto other) { return take(sum, other); }
  AUTOPAR_ELEMENTWISE static auto finish(auto sum, std::int64_t) { return sum; }
};
struct Mean : Sum {
  template <typename W>
  AUTOPAR_ELEMENTWISE static W finish(W sum, std::int64_t n) {
    if (std::is_integral_v<W> && n == 0) return 0;
    return sum / static_cast<W>(n);
  }
};
struct Product : Sum {
  template <typename T>
  static constexpr Accumulator<T> start = 1;
  AUTOPAR_ELEMENTWISE static auto take(auto product, auto x) {
    return functions::Mul{}(product, x);
  }
  AUTOPAR_ELEMENTWISE static auto join(auto product, auto other) { return take(product, other); }
};
struct Max : Sum {
  static constexpr bool selects = true;
  template <typename T>
  static constexpr Accumulator<T> start = beyond_all<T>(false);
  AUTOPAR_ELEMENTWISE static auto take(auto largest, auto x) {
    return (x > largest) | (x != x) ? x : largest;
  }
  AUTOPAR_ELEMENTWISE static auto join(auto largest, auto other) { return take(largest, other); }
};
struct Min : Sum {
  static constexpr bool selects = true;
  template <typename T>
  static constexpr Accumulator<T> start = beyond_all<T>(true);
  AUTOPAR_ELEMENTWISE static auto take(auto least, auto x) {
    return (x < least) | (x != x) ? x : least;
  }
  AUTOPAR_ELEMENTWISE static auto join(auto least, auto other) { return take(least, other); }
};
struct SumSquare : Sum {
  AUTOPAR_ELEMENTWISE static auto take(auto sum, auto x) {
    return functions::Add{}(sum, functions::Mul{}(x, x));
  }
};
struct L1 : Sum {
  AUTOPAR_ELEMENTWISE static auto take(auto sum, auto x) {
    return functions::Add{}(sum, x < 0 ? functions::Neg{}(x) : x);
  }
};
struct LogSum : Sum {
  template <typename W>
  AUTOPAR_ELEMENTWISE static W finish(W sum, std::int64_t) {
    return functions::Convert<W>{}(std::log(static_cast<double>(sum)));
  }
};
struct L2 : SumSquare {
  template <typename W>
  AUTOPAR_ELEMENTWISE static W finish(W sum, std::int64_t) {
    return functions::Convert<W>{}(std::sqrt(static_cast<double>(sum)));
  }
};

}  // namespace reductions
}  // namespace autopar::runtime
