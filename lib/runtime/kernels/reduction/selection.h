#pragma once

#include "runtime/kernels/common/host_device.h"

/// The order in which elements are chosen, for all devices.
namespace autopar::runtime {

/// Whether `x` is more than `y`; NaN is more than all numbers, as NumPy and PyTorch sort.
template <typename T>
AUTOPAR_ELEMENTWISE bool is_more(T x, T y) {
  return x > y || (x != x && y == y);
}

/// Whether ArgMax (or ArgMin) prefers `x` to `y`: NaN comes before all numbers.
template <bool is_max, typename T>
AUTOPAR_ELEMENTWISE bool is_better(T x, T y) {
  return (is_max ? x > y : x < y) | ((x != x) & (y == y));
}

/// Whether they are equal, or both NaN.
template <typename T>
AUTOPAR_ELEMENTWISE bool is_same(T x, T y) {
  return (x == y) | ((x != x) & (y != y));
}

}  // namespace autopar::runtime
