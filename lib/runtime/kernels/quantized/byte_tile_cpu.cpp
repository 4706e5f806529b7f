#include "runtime/kernels/quantized/byte_tile.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/simd_clones.h"
#include "runtime/kernels/cpu/simd.h"
#include "runtime/kernels/product/onednn_product.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace autopar::runtime::cpu {
namespace {

using ComputeTile = void(const ByteTile&, std::int32_t* sums);

#if defined(__x86_64__)

/// A word of each row is multiplied by the same word of 16 columns, in two vectors.
template <ByteForm form>
struct Words;

template <>
struct Words<ByteForm::quads> {
  static constexpr std::int64_t weight_bytes = 4 * byte_panel_columns;

  [[gnu::target("avx2"), gnu::always_inline]] static void load(const std::byte* from, __m256i& low,
                                                               __m256i& high) {
    low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + weight_bytes / 2));
  }
  [[gnu::target("avx2"), gnu::always_inline]] static void add(__m256i& sum, const __m256i& word,
                                                              const __m256i& weights) {
    const __m256i pairs = _mm256_maddubs_epi16(word, weights);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
};

template <>
struct Words<ByteForm::pairs> {
  static constexpr std::int64_t weight_bytes = 2 * byte_panel_columns;

  [[gnu::target("avx2"), gnu::always_inline]] static void load(const std::byte* from, __m256i& low,
                                                               __m256i& high) {
    const auto* const both = reinterpret_cast<const __m128i*>(from);
    low = _mm256_cvtepi8_epi16(_mm_loadu_si128(both));
    high = _mm256_cvtepi8_epi16(_mm_loadu_si128(both + 1));
  }
  [[gnu::target("avx2"), gnu::always_inline]] static void add(__m256i& sum, const __m256i& word,
                                                              const __m256i& weights) {
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(word, weights));
  }
};

/// Loops over rows are unrolled, so that sums stay in registers.
template <ByteForm form, int rows>
[[gnu::target("avx2")]] void compute_tile(const ByteTile& of, std::int32_t* sums) {
  using Word = Words<form>;
  __m256i low[rows];
  __m256i high[rows];
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) low[i] = high[i] = _mm256_setzero_si256();
  const std::byte* weights = of.panel;
  for (const WordStretch& stretch : of.stretches) {
    const std::byte* seen[rows];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) seen[i] = of.rows[i] + stretch.offset;
    for (std::int64_t k = 0; k < stretch.words; ++k, weights += Word::weight_bytes) {
      __m256i of_low;
      __m256i of_high;
      Word::load(weights, of_low, of_high);
#pragma GCC unroll 8
      for (int i = 0; i < rows; ++i) {
        std::int32_t bits;
        __builtin_memcpy(&bits, seen[i] + 4 * k, sizeof bits);
        const __m256i word = _mm256_set1_epi32(bits);
        Word::add(low[i], word, of_low);
        Word::add(high[i], word, of_high);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; ++i) {
    auto* const to = reinterpret_cast<__m256i*>(sums + i * byte_panel_columns);
    _mm256_storeu_si256(to, low[i]);
    _mm256_storeu_si256(to + 1, high[i]);
  }
}

template <ByteForm form, int... rows>
constexpr std::array<ComputeTile*, sizeof...(rows)> functions_of(
    std::integer_sequence<int, rows...> /*less 1*/) {
  return {compute_tile<form, rows + 1>...};
}

ComputeTile* tile_function(ByteForm form, std::size_t rows) {
  using Rows = std::make_integer_sequence<int, byte_tile_rows>;
  static constexpr auto of_quads = functions_of<ByteForm::quads>(Rows());
  static constexpr auto of_pairs = functions_of<ByteForm::pairs>(Rows());
  return (form == ByteForm::quads ? of_quads : of_pairs)[rows - 1];
}

#else

ComputeTile* tile_function(ByteForm, std::size_t) { fail("this processor has no AVX2"); }

#endif

template <typename To>
[[gnu::always_inline]] inline std::int32_t write_numbers(const std::uint8_t* from,
                                                         std::int64_t count, std::uint8_t moved,
                                                         To* to) {
  std::int32_t sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto number = static_cast<std::uint8_t>(from[i] ^ moved);
    to[i] = number;
    sum += number;
  }
  return sum;
}

AUTOPAR_SIMD_CLONES std::int32_t write_bytes(const std::uint8_t* from, std::int64_t count,
                                             std::uint8_t moved, std::uint8_t* to) {
  return write_numbers(from, count, moved, to);
}
AUTOPAR_SIMD_CLONES std::int32_t write_wide(const std::uint8_t* from, std::int64_t count,
                                            std::uint8_t moved, std::int16_t* to) {
  return write_numbers(from, count, moved, to);
}

}  // namespace

bool has_byte_tiles() {
  static const bool has = simd_level() != SimdLevel::baseline && !adds_bytes_exactly();
  return has;
}

void compute_byte_tile(const ByteTile& of, std::int32_t* sums) {
  tile_function(of.form, of.rows.size())(of, sums);
}

std::int32_t write_byte_row(const std::byte* from, std::int64_t count, bool is_signed,
                            ByteForm form, std::byte* to) {
  constexpr std::uint8_t sign = 0x80;  // to turn it over is to add 128
  const std::uint8_t moved = is_signed ? sign : 0;
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(from);
  const auto pad = [&](auto* numbers) {
    const std::int64_t in_word = numbers_in_word(form);
    std::fill(numbers + count, numbers + (count + in_word - 1) / in_word * in_word, 0);
    return numbers;
  };
  return form == ByteForm::quads
             ? write_bytes(bytes, count, moved, pad(reinterpret_cast<std::uint8_t*>(to)))
             : write_wide(bytes, count, moved, pad(reinterpret_cast<std::int16_t*>(to)));
}

}  // namespace autopar::runtime::cpu
