#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "runtime/kernel.h"
#include "runtime/kernels/element_types.h"
#include "runtime/kernels/elementwise_functions.h"

namespace autopar::runtime {
template <>
inline constexpr DataType data_type_of<functions::Boolean> = DataType::boolean;
}  // namespace autopar::runtime

/// Loops over blocks of a few hundred elements that lie together: what every element-wise kernel
/// is put together from. Each loop is compiled for several instruction sets and picked at run time.
namespace autopar::runtime::cpu {

using functions::Boolean;
using functions::Parameters;

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

/// A block function and the type of its results; no function where it serves not the type asked.
struct Block {
  BlockFunction function = nullptr;
  DataType result = DataType::undefined;
};

using Booleans = Types<Boolean>;
using NumbersAndBooleans = Joined<Numbers, Booleans>;

namespace detail {

template <typename Op>
AUTOPAR_ELEMENTWISE Op make_op(const Parameters& parameters) {
  if constexpr (requires { Op{parameters}; })
    return Op{parameters};
  else
    return Op{};
}

template <typename Op, typename... In, std::size_t... I>
[[gnu::always_inline]] inline void run_loop(const BlockArguments& arguments,
                                            std::index_sequence<I...>) {
  using Out = decltype(Op{}(In{}...));
  const Op op = make_op<Op>(arguments.parameters);
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

/// The block of `Op` whose operands all have type `T` (but the condition of Where).
template <typename Op, typename T>
Block block_of_type() {
  if constexpr (std::invocable<Op, T>)
    return {block_function<Op, T>(), data_type_of<decltype(Op{}(T{}))>};
  else if constexpr (std::invocable<Op, T, T>)
    return {block_function<Op, T, T>(), data_type_of<decltype(Op{}(T{}, T{}))>};
  else
    return {block_function<Op, Boolean, T, T>(), data_type_of<T>};
}

/// The block of `Op` for operands of `type`, one of the list `Ts`.
template <typename Op, typename Ts>
Block block(DataType type) {
  Block found;
  visit_type(type, Ts{}, [&]<typename T>(T) { found = block_of_type<Op, T>(); });
  return found;
}

}  // namespace autopar::runtime::cpu
