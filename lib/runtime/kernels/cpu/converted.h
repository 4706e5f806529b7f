#pragma once

#include <cstdint>

#include "runtime/kernel.h"
#include "runtime/kernels/half.h"

/// Half types compute in float: their tensors are converted on the way in and out.
namespace autopar::runtime::cpu {

inline bool is_half(DataType type) {
  return type == DataType::float16 || type == DataType::bfloat16;
}

/// The tensor's elements as floats, in `memory` unless it holds floats already.
inline const float* as_floats(const TensorView& view, float* memory) {
  if (!is_half(view.type)) return view.as<const float>();
  const std::int64_t n = view.elements();
  if (view.type == DataType::float16) {
    for (std::int64_t i = 0; i < n; ++i) memory[i] = to_float(view.as<const Float16>()[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) memory[i] = to_float(view.as<const BFloat16>()[i]);
  }
  return memory;
}

/// Where floats are computed to before store_floats: the tensor itself, or `memory`.
inline float* float_target(const TensorView& view, float* memory) {
  return is_half(view.type) ? memory : view.as<float>();
}

inline void store_floats(const TensorView& view, const float* memory) {
  const std::int64_t n = view.elements();
  if (view.type == DataType::float16) {
    for (std::int64_t i = 0; i < n; ++i) view.as<Float16>()[i] = to_float16(memory[i]);
  } else if (view.type == DataType::bfloat16) {
    for (std::int64_t i = 0; i < n; ++i) view.as<BFloat16>()[i] = to_bfloat16(memory[i]);
  }
}

/// Scratch bytes that the conversion of a tensor takes, a multiple of 64.
inline std::int64_t float_bytes(const TensorView& view) {
  return is_half(view.type) ? (view.elements() * 4 + 63) / 64 * 64 : 0;
}

}  // namespace autopar::runtime::cpu
