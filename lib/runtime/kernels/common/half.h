#pragma once

#include <bit>

#include "graph/data_type.h"
#include "runtime/kernels/common/host_device.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace autopar::runtime {

/// IEEE binary16 as it lies in memory. Kernels compute in float.
struct Float16 {
  static constexpr auto data_type = graph::DataType::float16;
  std::uint16_t bits = 0;
};

/// The upper half of a float, as it lies in memory. Kernels compute in float.
struct BFloat16 {
  static constexpr auto data_type = graph::DataType::bfloat16;
  std::uint16_t bits = 0;
};

/// The conversions have no branch, so that loops over them vectorise; GPUs have instructions for
/// them. Rounding is to nearest even; NaN stays NaN.
AUTOPAR_ELEMENTWISE float to_float(Float16 half) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(half.bits));
#else
  const std::uint32_t magnitude = static_cast<std::uint32_t>(half.bits & 0x7FFF) << 13;
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(
      std::bit_cast<float>(magnitude) * 0x1p112F);  // rebiases the exponent, subnormals included
  const std::uint32_t special = magnitude | 0x7F800000U;
  const bool is_special = (half.bits & 0x7C00) == 0x7C00;
  const std::uint32_t sign = static_cast<std::uint32_t>(half.bits & 0x8000) << 16;
  return std::bit_cast<float>((is_special ? special : finite) | sign);
#endif
}

AUTOPAR_ELEMENTWISE float to_float(BFloat16 half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half.bits) << 16);
}

AUTOPAR_ELEMENTWISE Float16 to_float16(float value) {
#if defined(__CUDA_ARCH__)
  return {__half_as_ushort(__float2half_rn(value))};
#else
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const std::uint32_t normal = (magnitude + 0xFFF + ((magnitude >> 13) & 1) - (112U << 23)) >> 13;
  // Adding one half rounds at 2^-24, the step of binary16's subnormals.
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000U;
  std::uint32_t result = magnitude < 0x38800000U ? subnormal : normal;
  result = magnitude >= 0x477FF000U ? 0x7C00U : result;  // 65520 and above round to infinity
  result = magnitude > 0x7F800000U ? 0x7E00U : result;
  return {static_cast<std::uint16_t>(result | ((bits >> 16) & 0x8000U))};
#endif
}

AUTOPAR_ELEMENTWISE BFloat16 to_bfloat16(float value) {
#if defined(__CUDA_ARCH__)
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
#else
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  const bool is_nan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return {static_cast<std::uint16_t>(is_nan ? (bits >> 16) | 0x40U : rounded)};
#endif
}

}  // namespace autopar::runtime
