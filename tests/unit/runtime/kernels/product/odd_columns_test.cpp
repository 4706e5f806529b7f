// Products of many rows whose results have a row of no alignment, against a loop in double.

#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/passes/passes.h"
#include "unit/runtime/loops.h"

namespace autopar::runtime {
namespace {

using namespace testing;

void check_columns(DataType type, std::int64_t rows, std::int64_t columns, bool is_transposed,
                   bool has_bias, std::mt19937& random) {
  constexpr std::int64_t depth = 64;
  CAPTURE(name_of(type), rows, columns, is_transposed, has_bias);
  const Tensor a = random_in(type, {rows, depth}, random, -1, 1);
  const Shape shape = is_transposed ? Shape{columns, depth} : Shape{depth, columns};
  const Tensor b = random_in(type, shape, random, -1, 1);
  const Tensor bias = random_in(type, {columns}, random, -1, 1);
  const std::vector<double> x = doubles(a);
  const std::vector<double> weights = doubles(b);
  const std::vector<double> added = doubles(bias);
  std::vector<double> expected;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t n = 0; n < columns; ++n) {
      double sum = has_bias ? added[static_cast<std::size_t>(n)] : 0;
      for (std::int64_t k = 0; k < depth; ++k)
        sum += x[static_cast<std::size_t>(r * depth + k)] *
               weights[static_cast<std::size_t>(is_transposed ? n * depth + k : k * columns + n)];
      expected.push_back(sum);
    }
  NodeRun node{.op_type = "FusedMatMul",
               .attributes = {{"transB", std::int64_t{is_transposed}}},
               .inputs = {a, b},
               .outputs = {{type, {rows, columns}}},
               .domain = passes::internal_domain};
  if (has_bias) node.inputs.emplace_back(bias);
  check_close(run_node(node)[0], expected, 2 + std::sqrt(static_cast<double>(depth)));
}

}  // namespace

TEST_CASE("many rows of odd lengths, computed some at a time") {
  std::mt19937 random(22);
  for (const DataType type : {DataType::float16, DataType::bfloat16})
    for (const std::int64_t rows : {256, 600})  // one turn, and three of which the last overlaps
      for (const bool is_transposed : {false, true})
        check_columns(type, rows, 1025, is_transposed, rows == 600, random);
}

}  // namespace autopar::runtime
