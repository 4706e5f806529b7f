#include "runtime/kernels/product/small_product.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "runtime/kernels/cpu/simd.h"

namespace autopar::runtime::cpu {
namespace {

using Random = std::mt19937;

std::vector<float> random_numbers(Random& random, std::int64_t count) {
  std::uniform_real_distribution<float> number(-1, 1);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& x : numbers) x = number(random);
  return numbers;
}

/// What the product adds up for an element, in double.
double element_of(const SmallProduct& of, std::int64_t row, std::int64_t column) {
  double sum = 0;
  for (std::int64_t k = 0; k < of.depth; ++k)
    sum += static_cast<double>(of.a[row * of.a_stride + k]) *
           of.b[k * of.b_row_stride + column * of.b_column_stride];
  return of.scale * sum + (of.bias == nullptr ? 0 : of.bias[column]);
}

/// Rows that lie apart, of both orders of b, and nothing written between the rows of the result.
void check_product(Random& random, std::int64_t rows, std::int64_t depth, std::int64_t columns) {
  const bool is_transposed = random() % 2 == 0;
  CAPTURE(rows, depth, columns, is_transposed);
  const std::int64_t a_stride = depth + 3;
  const std::int64_t b_stride = (is_transposed ? depth : columns) + 5;
  const std::int64_t out_stride = columns + 2;
  const std::vector<float> a = random_numbers(random, rows * a_stride);
  const std::vector<float> b = random_numbers(random, (is_transposed ? columns : depth) * b_stride);
  const std::vector<float> bias = random_numbers(random, columns);
  constexpr float untouched = 7;
  std::vector<float> out(static_cast<std::size_t>(rows * out_stride), untouched);
  const SmallProduct product{.rows = rows,
                             .columns = columns,
                             .depth = depth,
                             .scale = 0.3F,
                             .a = a.data(),
                             .a_stride = a_stride,
                             .b = b.data(),
                             .b_row_stride = is_transposed ? 1 : b_stride,
                             .b_column_stride = is_transposed ? b_stride : 1,
                             .bias = random() % 2 == 0 ? bias.data() : nullptr,
                             .out = out.data(),
                             .out_stride = out_stride};
  multiply_small(product);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < out_stride; ++column) {
      const double expected = column < columns ? element_of(product, row, column) : untouched;
      const float found = out[static_cast<std::size_t>(row * out_stride + column)];
      REQUIRE(std::abs(found - expected) <= 1e-6 * static_cast<double>(1 + depth));
    }
}

}  // namespace

TEST_CASE("small products equal loops in double, whatever their strides") {
  if (simd_level() == SimdLevel::baseline) return;
  Random random(3);
  const auto up_to = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  for (int round = 0; round < 300; ++round) {
    const std::int64_t depth = up_to(100);
    const std::int64_t columns = up_to(70);
    if (is_small_matrix(depth, columns)) check_product(random, up_to(20), depth, columns);
  }
  for (const auto& [depth, columns] :
       {std::pair{256, 16}, {64, 64}, {1, 4096}, {256, 1}, {65, 200}, {256, 40}, {0, 3}})
    check_product(random, 7, depth, columns);
}

TEST_CASE("matrices that do not fit the stack are not small") {
  CHECK_FALSE(is_small_matrix(257, 16));
  CHECK_FALSE(is_small_matrix(64, 65));
  CHECK(is_small_matrix(64, 64) == (simd_level() != SimdLevel::baseline));
}

}  // namespace autopar::runtime::cpu
