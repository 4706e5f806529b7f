#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "runtime/kernels/elementwise/function.h"

/// Loops over blocks of a few hundred elements that lie together: what every element-wise kernel
/// is put together from. Each loop is compiled for several instruction sets and picked at run time.
namespace autopar::runtime::cpu {

enum class SimdLevel { baseline, avx2, avx512 };
/// The best that this machine has.
SimdLevel simd_level();

struct BlockArguments {
  std::array<const std::byte*, 3> inputs{};
  std::byte* output = nullptr;  ///< overlaps no input
  std::int64_t elements = 0;
  Parameters parameters;
};
using BlockFunction = void (*)(const BlockArguments&);

namespace detail {

template <typename Op, typename... In, std::size_t... I>
[[gnu::always_inline]] inline void run_loop(const BlockArguments& arguments,
                                            std::index_sequence<I...>) {
  using Out = decltype(Op{}(In{}...));
  const Op op = make_function<Op>(arguments.parameters);
  Out* __restrict out = reinterpret_cast<Out*>(arguments.output);
  const std::int64_t n = arguments.elements;
  for (std::int64_t i = 0; i < n; ++i)
    out[i] = op(reinterpret_cast<const In*>(arguments.inputs[I])[i]...);
}

template <typename Op, typename... In>
void loop_baseline(const BlockArguments& arguments) {
  run_loop<Op, In...>(arguments, std::index_sequence_for<In...>{});
}
#if defined(__x86_64__)
template <typename Op, typename... In>
[[gnu::target("avx2,fma,bmi,bmi2")]] void loop_avx2(const BlockArguments& arguments) {
  run_loop<Op, In...>(arguments, std::index_sequence_for<In...>{});
}
template <typename Op, typename... In>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,bmi,bmi2")]] void loop_avx512(
    const BlockArguments& arguments) {
  run_loop<Op, In...>(arguments, std::index_sequence_for<In...>{});
}
#endif

}  // namespace detail

/// The loop that calls `Op` on every element of operands of types `In`.
template <typename Op, typename... In>
BlockFunction block_function(SimdLevel level = simd_level()) {
#if defined(__x86_64__)
  if (level == SimdLevel::avx512) return detail::loop_avx512<Op, In...>;
  if (level == SimdLevel::avx2) return detail::loop_avx2<Op, In...>;
#endif
  static_cast<void>(level);
  return detail::loop_baseline<Op, In...>;
}

}  // namespace autopar::runtime::cpu
