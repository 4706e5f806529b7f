#include "runtime/kernels/cpu/transposition.h"

#include <cstring>

#include "runtime/kernels/cpu/simd.h"
#include "runtime/kernels/cpu/square.h"

namespace autopar::runtime::cpu {
namespace {

template <typename T>
struct TransposeSquares {
  [[gnu::always_inline]] static inline void transpose_square(const T* in, std::int64_t in_row,
                                                             T* out, std::int64_t out_row) {
    Square<T> square;
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < square_side; ++i)
      std::memcpy(&square.rows[i], in + i * in_row, sizeof square.rows[i]);
    square.transpose();
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < square_side; ++i)
      std::memcpy(out + i * out_row, &square.rows[i], sizeof square.rows[i]);
  }

  [[gnu::always_inline]] static inline void copy(const Transposition<T>& of, std::int64_t first_row,
                                                 std::int64_t last_row, std::int64_t first_column,
                                                 std::int64_t last_column) {
    for (std::int64_t r = first_row; r < last_row; ++r)
      for (std::int64_t c = first_column; c < last_column; ++c)
        of.out[r * of.out_row + c] = of.in[c * of.in_row + r];
  }

  [[gnu::always_inline]] static inline void run(const Transposition<T>& of) {
    const std::int64_t rows = of.rows / square_side * square_side;
    const std::int64_t columns = of.columns / square_side * square_side;
    for (std::int64_t c = 0; c < columns; c += square_side)
      for (std::int64_t r = 0; r < rows; r += square_side)
        transpose_square(of.in + c * of.in_row + r, of.in_row, of.out + r * of.out_row + c,
                         of.out_row);
    copy(of, 0, rows, columns, of.columns);
    copy(of, rows, of.rows, 0, of.columns);
  }
};

}  // namespace

template <typename T>
void transpose(const Transposition<T>& of) {
  static const auto run = simd_function<TransposeSquares<T>, const Transposition<T>&>(simd_level());
  run(of);
}

template void transpose(const Transposition<std::uint8_t>&);
template void transpose(const Transposition<std::uint16_t>&);
template void transpose(const Transposition<std::uint32_t>&);
template void transpose(const Transposition<std::uint64_t>&);

}  // namespace autopar::runtime::cpu
