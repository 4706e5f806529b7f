#include "runtime/kernels/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/common/strides.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/transposition.h"

namespace autopar::runtime::cpu {
namespace {

constexpr std::int64_t parallel_elements = 32 * 1024;
/// Side of the squares in which a matrix is transposed, so that both sides' lines stay cached.
constexpr std::int64_t square = 16;
/// Rows that one thread takes at a time; and columns, which are many where rows are few.
constexpr std::int64_t chunk_rows = 4 * square;
constexpr std::int64_t chunk_columns = 4096;

/// Rows of so many bytes are copied in pieces of a known size: a call of memcpy takes longer.
constexpr std::size_t piece_bytes = 16;
constexpr std::size_t most_short_bytes = 256;

/// Copies piece_bytes or more. The last piece may overlap the one before.
void copy_short(const char* from, std::size_t bytes, char* to) {
  for (std::size_t i = 0; i + piece_bytes < bytes; i += piece_bytes)
    std::memcpy(to + i, from + i, piece_bytes);
  std::memcpy(to + bytes - piece_bytes, from + bytes - piece_bytes, piece_bytes);
}

}  // namespace

StridedCopy::StridedCopy(Shape shape, std::vector<std::int64_t> in_strides,
                         std::vector<std::int64_t> out_strides, int element_bytes)
    : outer_(std::move(shape)),
      in_strides_(std::move(in_strides)),
      out_strides_(std::move(out_strides)),
      element_bytes_(element_bytes) {
  merge_dimensions(outer_, {&in_strides_, &out_strides_});
  const auto take = [&](std::size_t d, std::int64_t& extent, std::int64_t& in_stride,
                        std::int64_t& out_stride) {
    const auto at = static_cast<std::ptrdiff_t>(d);
    extent = outer_[d];
    in_stride = in_strides_[d];
    out_stride = out_strides_[d];
    for (auto* list : {&outer_, &in_strides_, &out_strides_}) list->erase(list->begin() + at);
  };
  if (!outer_.empty())
    take(outer_.size() - 1, matrix_.columns, matrix_.in_column, matrix_.out_column);
  if (!outer_.empty()) {
    const auto innermost_in = std::ranges::find(in_strides_, 1);
    const bool is_transposed = matrix_.in_column != 1 && innermost_in != in_strides_.end();
    const auto row_dim = is_transposed
                             ? static_cast<std::size_t>(innermost_in - in_strides_.begin())
                             : outer_.size() - 1;
    take(row_dim, matrix_.rows, matrix_.in_row, matrix_.out_row);
  }
}

void StridedCopy::run(const std::byte* in, std::byte* out, int threads) const {
  const auto run_as = [&]<typename T>(T) {
    run_typed(reinterpret_cast<const T*>(in), reinterpret_cast<T*>(out), threads);
  };
  if (!visit_size(element_bytes_, Words{}, run_as))
    throw InternalError("internal error: elements of 1, 2, 4, 8 or 16 bytes are copied");
}

template <typename T>
void StridedCopy::run_typed(const T* in, T* out, int threads) const {
  const std::int64_t matrices = graph::num_elements(outer_);
  const std::int64_t row_chunks = (matrix_.rows + chunk_rows - 1) / chunk_rows;
  const std::int64_t column_chunks = (matrix_.columns + chunk_columns - 1) / chunk_columns;
  const std::int64_t chunks = row_chunks * column_chunks;
  const std::int64_t elements = matrices * matrix_.rows * matrix_.columns;
  if (elements == 0) return;
  for_in_threads(
      elements >= parallel_elements ? threads : 1, matrices * chunks, [&](std::int64_t item) {
        const std::int64_t first_row = item % row_chunks * chunk_rows;
        const std::int64_t first_column = item / row_chunks % column_chunks * chunk_columns;
        std::int64_t in_offset = first_row * matrix_.in_row + first_column * matrix_.in_column;
        std::int64_t out_offset = first_row * matrix_.out_row + first_column * matrix_.out_column;
        std::int64_t rest = item / chunks;
        for (std::size_t d = outer_.size(); d-- > 0; rest /= outer_[d]) {
          in_offset += rest % outer_[d] * in_strides_[d];
          out_offset += rest % outer_[d] * out_strides_[d];
        }
        Matrix part = matrix_;
        part.rows = std::min(chunk_rows, matrix_.rows - first_row);
        part.columns = std::min(chunk_columns, matrix_.columns - first_column);
        copy_rows(part, in + in_offset, out + out_offset);
      });
}

template <typename T>
void StridedCopy::copy_rows(const Matrix& m, const T* in, T* out) {
  if (m.in_column == 1 && m.out_column == 1) {
    const auto bytes = static_cast<std::size_t>(m.columns) * sizeof(T);
    const bool is_short = bytes >= piece_bytes && bytes <= most_short_bytes;
    for (std::int64_t row = 0; row < m.rows; ++row) {
      T* const to = out + row * m.out_row;
      const T* const from = in + row * m.in_row;
      if (is_short)
        copy_short(reinterpret_cast<const char*>(from), bytes, reinterpret_cast<char*>(to));
      else
        std::memcpy(to, from, bytes);
    }
    return;
  }
  if (m.in_column == 0 && m.out_column == 1) {
    for (std::int64_t row = 0; row < m.rows; ++row)
      std::fill_n(out + row * m.out_row, m.columns, in[row * m.in_row]);
    return;
  }
  if constexpr (std::is_integral_v<T>)
    if (m.in_row == 1 && m.out_column == 1)
      return transpose<T>({in, out, m.rows, m.columns, m.in_column, m.out_row});
  for (std::int64_t row = 0; row < m.rows; row += square)
    for (std::int64_t column = 0; column < m.columns; column += square)
      for (std::int64_t r = row; r < std::min(row + square, m.rows); ++r)
        for (std::int64_t c = column; c < std::min(column + square, m.columns); ++c)
          out[r * m.out_row + c * m.out_column] = in[r * m.in_row + c * m.in_column];
}

}  // namespace autopar::runtime::cpu
