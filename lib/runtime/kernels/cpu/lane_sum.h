#pragma once

#include <cstdint>

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

}  // namespace autopar::runtime::cpu
