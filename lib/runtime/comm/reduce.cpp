#include "runtime/comm/reduce.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/kernels/common/element_types.h"

namespace autopar::runtime {

namespace {

/// NaN wins, as in ONNX's Max and Min.
template <typename Wide>
Wide combine(Wide a, Wide b, ReduceOp op) {
  if (op == ReduceOp::max) return (a > b || a != a) ? a : b;
  if (op == ReduceOp::min) return (a < b || a != a) ? a : b;
  return static_cast<Wide>(a + b);
}

template <typename T>
void reduce_as(std::span<const std::byte* const> sources, std::int64_t elements, ReduceOp op,
               std::byte* out) {
  using Wide = decltype(widened(T{}));
  auto* result = reinterpret_cast<T*>(out);
  const auto count = static_cast<Wide>(static_cast<int>(sources.size()));
  for (std::int64_t i = 0; i < elements; ++i) {
    Wide sum = widened(reinterpret_cast<const T*>(sources[0])[i]);
    for (std::size_t s = 1; s < sources.size(); ++s)
      sum = combine(sum, widened(reinterpret_cast<const T*>(sources[s])[i]), op);
    if (op == ReduceOp::mean) sum = static_cast<Wide>(sum / count);
    result[i] = narrowed<T>(sum);
  }
}

/// The common case, of two sources or more, in a form that vectorises.
void add_floats(std::span<const std::byte* const> sources, std::int64_t elements, std::byte* out) {
  auto* result = reinterpret_cast<float*>(out);
  const auto* sum = reinterpret_cast<const float*>(sources[0]);
  for (const std::byte* source : sources.subspan(1)) {
    const auto* values = reinterpret_cast<const float*>(source);
    for (std::int64_t i = 0; i < elements; ++i) result[i] = sum[i] + values[i];
    sum = result;
  }
}

}  // namespace

void reduce_elements(std::span<const std::byte* const> sources, std::int64_t elements,
                     DataType type, ReduceOp op, std::byte* out) {
  if (elements == 0) return;
  if (type == DataType::float32 && op == ReduceOp::sum && sources.size() > 1)
    return add_floats(sources, elements, out);
  const bool is_number =
      visit_type(stored_type(type), Joined<Numbers, Halves>{},
                 [&]<typename T>(T) { reduce_as<T>(sources, elements, op, out); });
  if (!is_number) fail("a tensor of {} cannot be reduced over ranks", name_of(type));
}

}  // namespace autopar::runtime
