#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "runtime/kernel.h"
#include "runtime/kernels/common/element_types.h"

namespace autopar::runtime {

/// What a Reduce operator says, for all devices: the kept and the reduced dimensions, merged where
/// they walk the input in one stride, outermost first.
struct ReducedDimensions {
  Shape kept_extents;
  std::vector<std::int64_t> kept_strides;  ///< elements of the input
  Shape reduced_extents;
  std::vector<std::int64_t> reduced_strides;

  /// The dimensions that the node's axes name.
  explicit ReducedDimensions(const KernelRequest& request);
  /// The places of images: what global poolings reduce.
  static ReducedDimensions of_images(const KernelRequest& request);
  std::int64_t rows() const { return graph::num_elements(kept_extents); }
  std::int64_t row_elements() const { return graph::num_elements(reduced_extents); }

 private:
  ReducedDimensions(const Shape& shape, const std::vector<bool>& is_reduced);
};

using Reducible = Joined<Floats, Halves, SignedIntegers, UnsignedIntegers>;

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

/// One reduction: what it starts from, how it takes an element in, how two parts become one, and
/// what it makes of the end.
struct Sum {
  template <typename W>
  AUTOPAR_ELEMENTWISE static W start() {
    return 0;
  }
  template <typename W>
  AUTOPAR_ELEMENTWISE static W take(W sum, W x) {
    return sum + x;
  }
  template <typename W>
  AUTOPAR_ELEMENTWISE static W join(W sum, W other) {
    return sum + other;
  }
  template <typename W>
  AUTOPAR_ELEMENTWISE static W finish(W sum, std::int64_t) {
    return sum;
  }
};
struct Mean : Sum {
  template <typename W>
  AUTOPAR_ELEMENTWISE static W finish(W sum, std::int64_t n) {
    if constexpr (std::is_integral_v<W>) {
      return n == 0 ? 0 : sum / static_cast<W>(n);
    } else {
      return sum / static_cast<W>(n);
    }
  }
};
struct Product : Sum {
  template <typename W>
  AUTOPAR_ELEMENTWISE static W start() {
    return 1;
  }
  template <typename W>
  AUTOPAR_ELEMENTWISE static W take(W product, W x) {
    return product * x;
  }
  template <typename W>
  AUTOPAR_ELEMENTWISE static W join(W product, W other) {
    return take(product, other);
  }
};
struct Max : Sum {
  template <typename W>
  AUTOPAR_ELEMENTWISE static W start() {
    return std::numeric_limits<W>::has_infinity ? -std::numeric_limits<W>::infinity()
                                                : std::numeric_limits<W>::lowest();
  }
  template <typename W>
  AUTOPAR_ELEMENTWISE static W take(W largest, W x) {
    return (x > largest || x != x) ? x : largest;
  }
  template <typename W>
  AUTOPAR_ELEMENTWISE static W join(W largest, W other) {
    return take(largest, other);
  }
};
struct Min : Sum {
  template <typename W>
  AUTOPAR_ELEMENTWISE static W start() {
    return std::numeric_limits<W>::has_infinity ? std::numeric_limits<W>::infinity()
                                                : std::numeric_limits<W>::max();
  }
  template <typename W>
  AUTOPAR_ELEMENTWISE static W take(W least, W x) {
    return (x < least || x != x) ? x : least;
  }
  template <typename W>
  AUTOPAR_ELEMENTWISE static W join(W least, W other) {
    return take(least, other);
  }
};
struct SumSquare : Sum {
  template <typename W>
  AUTOPAR_ELEMENTWISE static W take(W sum, W x) {
    return sum + x * x;
  }
};
struct L1 : Sum {
  template <typename W>
  AUTOPAR_ELEMENTWISE static W take(W sum, W x) {
    return sum + (x < 0 ? -x : x);
  }
};
struct LogSum : Sum {
  template <typename W>
  AUTOPAR_ELEMENTWISE static W finish(W sum, std::int64_t) {
    return static_cast<W>(std::log(static_cast<double>(sum)));
  }
};
struct L2 : SumSquare {
  template <typename W>
  AUTOPAR_ELEMENTWISE static W finish(W sum, std::int64_t) {
    return static_cast<W>(std::sqrt(static_cast<double>(sum)));
  }
};

}  // namespace reductions
}  // namespace autopar::runtime
