#pragma once

/// Functions compiled for several instruction sets, and picked when the program runs.
namespace autopar::runtime::cpu {

enum class SimdLevel { baseline, avx2, avx512 };
/// The best that this machine has.
inline SimdLevel simd_level() {
#if defined(__x86_64__)
  static const SimdLevel level = [] {
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
      return SimdLevel::avx512;
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return has_avx2 ? SimdLevel::avx2 : SimdLevel::baseline;
  }();
  return level;
#else
  return SimdLevel::baseline;
#endif
}

namespace detail {

template <typename Body, typename... Arguments>
void run_baseline(Arguments... arguments) {
  Body::run(arguments...);
}
#if defined(__x86_64__)
template <typename Body, typename... Arguments>
[[gnu::target("avx2,fma,bmi,bmi2")]] void run_avx2(Arguments... arguments) {
  Body::run(arguments...);
}
template <typename Body, typename... Arguments>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,bmi,bmi2")]] void run_avx512(
    Arguments... arguments) {
  Body::run(arguments...);
}
#endif

}  // namespace detail

template <typename... Arguments>
using SimdFunction = void (*)(Arguments...);

/// `Body::run(Arguments...)`, which is always inlined, for a level.
template <typename Body, typename... Arguments>
SimdFunction<Arguments...> simd_function([[maybe_unused]] SimdLevel level) {
#if defined(__x86_64__)
  if (level == SimdLevel::avx512) return detail::run_avx512<Body, Arguments...>;
  if (level == SimdLevel::avx2) return detail::run_avx2<Body, Arguments...>;
#endif
  return detail::run_baseline<Body, Arguments...>;
}

}  // namespace autopar::runtime::cpu
