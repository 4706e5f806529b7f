#include "runtime/kernels/quantized/byte_finish.h"

#include <cstring>
#include <type_traits>

#include "runtime/kernels/cpu/lanes.h"

namespace autopar::runtime::cpu {
namespace {

constexpr int lanes = 8;
using Floats = Vector<lanes>::Floats;
using Sums [[gnu::vector_size(4 * lanes)]] = std::uint32_t;
using Integers = Vector<lanes>::Integers;

template <typename To>
struct Finish {
  /// Finishes `lanes` columns from `first` on.
  [[gnu::always_inline]] static inline void finish(const ByteTileTerms& rows,
                                                   const ByteColumnTerms& columns,
                                                   std::int64_t first, const std::int32_t* sums,
                                                   To* results) {
    Sums column_sums;
    Sums zeros;
    Floats scales;
    Floats biases;
    load(column_sums, columns.sums.data() + first);
    load(zeros, columns.zeros.data() + first);
    load(scales, columns.scales.data() + first);
    load(biases, columns.biases.data() + first);
    std::int64_t at = first;
    for (const ByteRowTerms& row : rows) {
      Sums sum;
      load(sum, sums + at);
      sum -= row.zero * column_sums + row.sum * zeros;
      if constexpr (std::is_same_v<To, float>) {
        const Floats scaled =
            __builtin_convertvector(reinterpret_cast<Integers>(sum), Floats) * scales + biases;
        std::memcpy(results + at, &scaled, sizeof scaled);
      } else {
        std::memcpy(results + at, &sum, sizeof sum);
      }
      at += byte_panel_columns;
    }
  }

  [[gnu::always_inline]] static inline void run(const ByteTileTerms& rows,
                                                const ByteColumnTerms& columns,
                                                const std::int32_t* sums, To* results) {
    for (std::int64_t first = 0; first < byte_panel_columns; first += lanes)
      finish(rows, columns, first, sums, results);
  }
};

template <typename To>
void finish(const ByteTileTerms& rows, const ByteColumnTerms& columns, const std::int32_t* sums,
            To* results) {
  static const auto run = simd_function<Finish<To>, const ByteTileTerms&, const ByteColumnTerms&,
                                        const std::int32_t*, To*>(SimdLevel::avx2);
  run(rows, columns, sums, results);
}

}  // namespace

void finish_byte_tile(const ByteTileTerms& rows, const ByteColumnTerms& columns,
                      const std::int32_t* sums, std::int32_t* results) {
  finish(rows, columns, sums, results);
}
void finish_byte_tile(const ByteTileTerms& rows, const ByteColumnTerms& columns,
                      const std::int32_t* sums, float* results) {
  finish(rows, columns, sums, results);
}

}  // namespace autopar::runtime::cpu
