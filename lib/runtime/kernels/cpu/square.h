#pragma once

#include <cstdint>

/// Squares of 8 by 8 elements in registers.
namespace autopar::runtime::cpu {

inline constexpr std::int64_t square_side = 8;

template <typename T>
struct Square {
  using Row [[gnu::vector_size(square_side * sizeof(T))]] = T;
  Row rows[square_side];

  /// Three times, each of the first four rows and its fellow in the last four are dealt into one
  /// another.
  [[gnu::always_inline]] void transpose() {
#pragma GCC unroll 3
    for (int round = 0; round < 3; ++round) {
      Row dealt[square_side];
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < square_side / 2; ++i) {
        dealt[2 * i] = __builtin_shufflevector(rows[i], rows[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
        dealt[2 * i + 1] =
            __builtin_shufflevector(rows[i], rows[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
      }
#pragma GCC unroll 8
      for (std::int64_t i = 0; i < square_side; ++i) rows[i] = dealt[i];
    }
  }
};

}  // namespace autopar::runtime::cpu
