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

}  // namespace autopar::runtime::cuda
