#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/element_types.h"

namespace autopar::runtime {

/// A few floating-point numbers whose type is known only at run time, for all devices.
struct AnyFloats {
  void* data = nullptr;
  DataType type = DataType::undefined;

  AnyFloats() = default;
  explicit AnyFloats(const TensorView& view) : data(view.data), type(view.type) {}

  AUTOPAR_ELEMENTWISE double at(std::int64_t i) const {
    double value = 0;
    visit_stored(type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
      value = static_cast<double>(widened(static_cast<const T*>(data)[i]));
    });
    return value;
  }

  AUTOPAR_ELEMENTWISE void store(std::int64_t i, double value) const {
    visit_stored(type, Joined<Floats, Halves>{},
                 [&]<typename T>(T) { static_cast<T*>(data)[i] = narrowed<T>(value); });
  }
};

}  // namespace autopar::runtime
