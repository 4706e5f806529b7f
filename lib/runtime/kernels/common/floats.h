#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/element_types.h"

namespace autopar::runtime {

/// What floats are computed in: half types in float.
template <typename T>
using WideFloat = decltype(widened(T{}));

/// A few floating-point numbers whose type is known only at run time, for all devices.
struct AnyFloats {
  void* data = nullptr;
  DataType type = DataType::undefined;

  AnyFloats() = default;
  explicit AnyFloats(const TensorView& view) : data(view.data), type(view.type) {}

  AUTOPAR_ELEMENTWISE double at(std::int64_t i) const {
    switch (type) {
      case DataType::float32:
        return static_cast<double>(static_cast<const float*>(data)[i]);
      case DataType::float64:
        return static_cast<const double*>(data)[i];
      case DataType::float16:
        return static_cast<double>(widened(static_cast<const Float16*>(data)[i]));
      case DataType::bfloat16:
        return static_cast<double>(widened(static_cast<const BFloat16*>(data)[i]));
      default:
        return 0;
    }
  }

  AUTOPAR_ELEMENTWISE void store(std::int64_t i, double value) const {
    switch (type) {
      case DataType::float32:
        static_cast<float*>(data)[i] = static_cast<float>(value);
        break;
      case DataType::float64:
        static_cast<double*>(data)[i] = value;
        break;
      case DataType::float16:
        static_cast<Float16*>(data)[i] = narrowed<Float16>(value);
        break;
      case DataType::bfloat16:
        static_cast<BFloat16*>(data)[i] = narrowed<BFloat16>(value);
        break;
      default:
        break;
    }
  }
};

}  // namespace autopar::runtime
