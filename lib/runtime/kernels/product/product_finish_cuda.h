#pragma once

#include <concepts>

#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/elementwise/activation_functions.h"
#include "runtime/kernels/product/product.h"

/// What becomes of a product's sum before it is stored.
namespace autopar::runtime::cuda {

/// Integers have no activation.
template <typename W>
__device__ __forceinline__ W activated(W x, Activation activation) {
  if constexpr (std::floating_point<W>) {
    switch (activation) {
      case Activation::relu:
        return functions::Relu{}(x);
      case Activation::gelu:
        return functions::Gelu{}(x);
      case Activation::gelu_tanh:
        return functions::GeluTanh{}(x);
      case Activation::none:
        break;
    }
  }
  return x;
}

/// alpha * sum + beta * c; integers by way of double, unless neither scales.
template <typename W>
__device__ __forceinline__ W scaled_sum(W sum, W c, float alpha, float beta) {
  if constexpr (std::floating_point<W>) {
    return static_cast<W>(alpha) * sum + static_cast<W>(beta) * c;
  } else {
    if (alpha == 1 && beta == 1) return functions::Add{}(sum, c);
    return static_cast<W>(alpha * static_cast<double>(sum) + beta * static_cast<double>(c));
  }
}

}  // namespace autopar::runtime::cuda
