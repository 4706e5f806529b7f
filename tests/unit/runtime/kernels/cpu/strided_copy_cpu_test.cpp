#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "graph/tensor.h"
#include "runtime/kernels/cpu/strided_copy.h"

namespace autopar::runtime::cpu {
namespace {

constexpr auto untouched = std::byte{0xA5};

struct Matrix {
  std::int64_t rows;
  std::int64_t row_bytes;
  std::int64_t in_stride;   ///< bytes from a row to the next one
  std::int64_t out_stride;  ///< the same
};

/// Copies a matrix of bytes and checks every byte of where it goes.
void check_rows(const Matrix& of, int element_bytes) {
  const auto size = [&](std::int64_t stride) { return static_cast<std::size_t>(of.rows * stride); };
  std::vector<std::byte> in(size(of.in_stride));
  std::mt19937 random(1);
  for (std::byte& each : in) each = static_cast<std::byte>(random());
  std::vector<std::byte> out(size(of.out_stride), untouched);
  std::vector<std::byte> expected = out;
  for (std::int64_t row = 0; row < of.rows; ++row)
    std::copy_n(in.begin() + row * of.in_stride, of.row_bytes,
                expected.begin() + row * of.out_stride);
  StridedCopy({of.rows, of.row_bytes / element_bytes}, {of.in_stride / element_bytes, 1},
              {of.out_stride / element_bytes, 1}, element_bytes)
      .run(in.data(), out.data(), 2);
  CAPTURE(of.rows, of.row_bytes, element_bytes);
  CHECK(out == expected);
}

}  // namespace

TEST_CASE("rows of any width are copied, and nothing beside them") {
  for (const std::int64_t bytes : {1, 15, 16, 17, 31, 32, 33, 48, 255, 256, 257, 1000})
    check_rows({70, bytes, bytes + 3, bytes + 5}, 1);
  for (const std::int64_t elements : {1, 3, 4, 5, 8, 63, 64, 65})
    check_rows({5, 4 * elements, 4 * elements + 8, 4 * elements + 4}, 4);
}

}  // namespace autopar::runtime::cpu
