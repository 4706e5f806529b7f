#include "runtime/comm/reduce.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "graph/error.h"
#include "runtime/kernels/half.h"

namespace autopar::runtime {

namespace {

template <typename T>
T load(T value) {
  return value;
}
float load(Float16 value) { return to_float(value); }
float load(BFloat16 value) { return to_float(value); }

template <typename T, typename Wide>
T store(Wide value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return to_bfloat16(value);
  } else {
    return static_cast<T>(value);
  }
}

/// NaN wins, as in ONNX's Max and Min.
template <typename Wide>
Wide combine(Wide a, Wide b, ReduceOp op) {
  switch (op) {
    case ReduceOp::max:
      return (a > b || a != a) ? a : b;
    case ReduceOp::min:
      return (a < b || a != a) ? a : b;
    case ReduceOp::sum:
    case ReduceOp::mean:
      break;
  }
  return static_cast<Wide>(a + b);
}

template <typename T>
void reduce_as(std::span<const std::byte* const> sources, std::int64_t elements, ReduceOp op,
               std::byte* out) {
  using Wide = decltype(load(T{}));
  auto* result = reinterpret_cast<T*>(out);
  const auto count = static_cast<Wide>(static_cast<int>(sources.size()));
  for (std::int64_t i = 0; i < elements; ++i) {
    Wide sum = load(reinterpret_cast<const T*>(sources[0])[i]);
    for (std::size_t s = 1; s < sources.size(); ++s) {
      sum = combine(sum, Wide{load(reinterpret_cast<const T*>(sources[s])[i])}, op);
    }
    if (op == ReduceOp::mean) sum = static_cast<Wide>(sum / count);
    result[i] = store<T>(sum);
  }
}

/// The common case, in a form that vectorises.
void add_floats(std::span<const std::byte* const> sources, std::int64_t elements, std::byte* out) {
  auto* result = reinterpret_cast<float*>(out);
  const auto* first = reinterpret_cast<const float*>(sources[0]);
  std::copy(first, first + elements, result);
  for (const std::byte* source : sources.subspan(1)) {
    const auto* values = reinterpret_cast<const float*>(source);
    for (std::int64_t i = 0; i < elements; ++i) result[i] += values[i];
  }
}

}  // namespace

void reduce_elements(std::span<const std::byte* const> sources, std::int64_t elements,
                     graph::DataType type, ReduceOp op, std::byte* out) {
  using graph::DataType;
  if (elements == 0) return;
  if (type == DataType::float32 && op == ReduceOp::sum) return add_floats(sources, elements, out);
  switch (type) {
    case DataType::float32:
      return reduce_as<float>(sources, elements, op, out);
    case DataType::float64:
      return reduce_as<double>(sources, elements, op, out);
    case DataType::float16:
      return reduce_as<Float16>(sources, elements, op, out);
    case DataType::bfloat16:
      return reduce_as<BFloat16>(sources, elements, op, out);
    case DataType::int8:
      return reduce_as<std::int8_t>(sources, elements, op, out);
    case DataType::uint8:
    case DataType::boolean:
      return reduce_as<std::uint8_t>(sources, elements, op, out);
    case DataType::int16:
      return reduce_as<std::int16_t>(sources, elements, op, out);
    case DataType::uint16:
      return reduce_as<std::uint16_t>(sources, elements, op, out);
    case DataType::int32:
      return reduce_as<std::int32_t>(sources, elements, op, out);
    case DataType::uint32:
      return reduce_as<std::uint32_t>(sources, elements, op, out);
    case DataType::int64:
      return reduce_as<std::int64_t>(sources, elements, op, out);
    case DataType::uint64:
      return reduce_as<std::uint64_t>(sources, elements, op, out);
    default:
      fail("a tensor of {} cannot be reduced over ranks", name_of(type));
  }
}

}  // namespace autopar::runtime
