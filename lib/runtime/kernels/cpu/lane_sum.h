#pragma once

#include <cstdint>
#include <limits>

namespace autopar::runtime::cpu {

/// Sum of f(0) to f(n - 1), in lanes so that it vectorises and rounds less than one long sum.
template <typename T, typename Function>
[[gnu::always_inline]] inline T lane_sum(std::int64_t n, Function f) {
  constexpr int lanes = 16;
  T sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane) sums[lane] += f(i + lane);
  }
  T sum = 0;
  for (const T part : sums) sum += part;
  for (; i < n; ++i) sum += f(i);
  return sum;
}

/// The largest of n numbers, infinity below all where there is none; NaN does not count.
template <typename T>
[[gnu::always_inline]] inline T lane_largest(const T* from, std::int64_t n) {
  constexpr int lanes = 128 / sizeof(T);
  T largest[lanes];
  for (T& of_lane : largest) of_lane = -std::numeric_limits<T>::infinity();
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int lane = 0; lane < lanes; ++lane)
      largest[lane] = from[i + lane] > largest[lane] ? from[i + lane] : largest[lane];
  for (; i < n; ++i) largest[0] = from[i] > largest[0] ? from[i] : largest[0];
  for (const T of_lane : largest) largest[0] = of_lane > largest[0] ? of_lane : largest[0];
  return largest[0];
}

}  // namespace autopar::runtime::cpu
