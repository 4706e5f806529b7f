#include "nccl_reduce.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/kernels/common/half.h"

namespace autopar::fake_nccl {

namespace {

using runtime::BFloat16;
using runtime::Float16;

/// How a type is computed with: half types in float, rounded after each step.
template <typename T>
struct Arithmetic {
  using Wide = T;
  static Wide widen(T value) { return value; }
  static T narrow(Wide value) { return value; }
};

template <>
struct Arithmetic<Float16> {
  using Wide = float;
  static float widen(Float16 value) { return to_float(value); }
  static Float16 narrow(float value) { return runtime::to_float16(value); }
};

template <>
struct Arithmetic<BFloat16> {
  using Wide = float;
  static float widen(BFloat16 value) { return to_float(value); }
  static BFloat16 narrow(float value) { return runtime::to_bfloat16(value); }
};

/// Integers wrap around.
template <typename Wide>
Wide combine(Wide a, Wide b, ncclRedOp_t op) {
  if constexpr (std::is_floating_point_v<Wide>) {
    if (op == ncclMax) return std::fmax(a, b);
    if (op == ncclMin) return std::fmin(a, b);
    return op == ncclProd ? a * b : a + b;
  } else {
    if (op == ncclMax) return a > b ? a : b;
    if (op == ncclMin) return a < b ? a : b;
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    return static_cast<Wide>(op == ncclProd ? x * y : x + y);
  }
}

template <typename T>
void reduce_typed(std::span<const std::byte* const> inputs, std::byte* out, std::size_t count,
                  ncclRedOp_t op) {
  using A = Arithmetic<T>;
  using Wide = typename A::Wide;
  constexpr bool is_floating = std::is_floating_point_v<Wide>;
  const Wide ranks = static_cast<Wide>(inputs.size());
  const Wide share = is_floating ? A::widen(A::narrow(Wide{1} / ranks)) : Wide{1};
  const auto load = [&](std::size_t input, std::size_t i) {
    T value;
    std::memcpy(&value, inputs[input] + i * sizeof value, sizeof value);
    if (op != ncclAvg || !is_floating) return A::widen(value);
    return A::widen(A::narrow(static_cast<Wide>(A::widen(value) * share)));
  };
  for (std::size_t i = 0; i < count; ++i) {
    Wide sum = load(0, i);
    for (std::size_t input = 1; input < inputs.size(); ++input) {
      sum = A::widen(A::narrow(combine(sum, load(input, i), op)));
    }
    if (op == ncclAvg && !is_floating) sum = static_cast<Wide>(sum / ranks);
    const T result = A::narrow(sum);
    std::memcpy(out + i * sizeof result, &result, sizeof result);
  }
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

void reduce(std::span<const std::byte* const> inputs, std::byte* out, std::size_t count,
            ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
    case ncclInt8:
      return reduce_typed<std::int8_t>(inputs, out, count, op);
    case ncclUint8:
      return reduce_typed<std::uint8_t>(inputs, out, count, op);
    case ncclInt32:
      return reduce_typed<std::int32_t>(inputs, out, count, op);
    case ncclUint32:
      return reduce_typed<std::uint32_t>(inputs, out, count, op);
    case ncclInt64:
      return reduce_typed<std::int64_t>(inputs, out, count, op);
    case ncclUint64:
      return reduce_typed<std::uint64_t>(inputs, out, count, op);
    case ncclFloat16:
      return reduce_typed<Float16>(inputs, out, count, op);
    case ncclBfloat16:
      return reduce_typed<BFloat16>(inputs, out, count, op);
    case ncclFloat32:
      return reduce_typed<float>(inputs, out, count, op);
    case ncclFloat64:
      return reduce_typed<double>(inputs, out, count, op);
    default:
      return;
  }
}

}  // namespace autopar::fake_nccl
