#pragma once

#include <cstdint>
#include <cstring>

#include "runtime/kernels/cpu/simd.h"

/// Vectors of numbers of 32 bits for loops that compilers do not vectorise by themselves.
namespace autopar::runtime::cpu {

template <int lanes>
struct Vector {
  using Floats [[gnu::vector_size(4 * lanes)]] = float;
  using Integers [[gnu::vector_size(4 * lanes)]] = std::int32_t;
};

template <typename Lanes, typename Number>
[[gnu::always_inline]] inline void load(Lanes& to, const Number* from) {
  std::memcpy(&to, from, sizeof to);
}

/// Adds halves up, so that few additions wait for one another.
template <int lanes>
[[gnu::always_inline]] inline float sum_of_lanes(const typename Vector<lanes>::Floats& of) {
  if constexpr (lanes == 1) {
    return of[0];
  } else {
    typename Vector<lanes / 2>::Floats halves[2];
    std::memcpy(halves, &of, sizeof of);
    return sum_of_lanes<lanes / 2>(halves[0] + halves[1]);
  }
}

/// `Body<lanes>::run(Arguments...)`, which is always inlined, compiled for this machine with as
/// many lanes as its registers have. GCC keeps vectors that are wider than a register in memory.
template <template <int> class Body, typename... Arguments>
SimdFunction<Arguments...> function_in_lanes() {
  const SimdLevel level = simd_level();
  return level == SimdLevel::avx512 ? simd_function<Body<16>, Arguments...>(level)
         : level == SimdLevel::avx2 ? simd_function<Body<8>, Arguments...>(level)
                                    : simd_function<Body<4>, Arguments...>(level);
}

}  // namespace autopar::runtime::cpu
