#pragma once

#include <cstdint>

namespace autopar::runtime::cpu {

/// A matrix as it is transposed: rows of `in` become columns of `out`; in both, elements of a row
/// lie one behind the other.
template <typename T>
struct Transposition {
  const T* in;
  T* out;
  std::int64_t rows;     ///< of out
  std::int64_t columns;  ///< of out
  std::int64_t in_row;   ///< elements from a row of `in` to the next one
  std::int64_t out_row;
};

/// Transposes a matrix of unsigned integers of 8, 16, 32 or 64 bits.
template <typename T>
void transpose(const Transposition<T>& of);

}  // namespace autopar::runtime::cpu
