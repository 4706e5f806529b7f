// Products of one to four rows, against a loop in double.

#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/executable.h"
#include "runtime/passes/passes.h"
#include "unit/runtime/loops.h"

namespace autopar::runtime {
namespace {

using namespace testing;

/// A few rows times weights [depth, columns], or their transpose, against a loop in double; all
/// runs give the same bits.
void check_rows(DataType type, std::int64_t rows, std::int64_t depth, std::int64_t columns,
                bool by_columns, std::mt19937& random) {
  CAPTURE(name_of(type), rows, depth, columns, by_columns);
  const Tensor a = random_in(type, {rows, depth}, random, -1, 1);
  const Shape shape = by_columns ? Shape{columns, depth} : Shape{depth, columns};
  const Tensor b = random_in(type, shape, random, -1, 1);
  const std::vector<double> x = doubles(a);
  const std::vector<double> weights = doubles(b);
  const auto count = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  std::vector<double> expected(count(rows * columns));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t n = 0; n < columns; ++n)
        expected[count(r * columns + n)] +=
            x[count(r * depth + k)] * weights[count(by_columns ? n * depth + k : k * columns + n)];
  const NodeRun node{.op_type = "FusedMatMul",
                     .attributes = {{"transB", std::int64_t{by_columns}}},
                     .inputs = {a, b},
                     .outputs = {{type, {rows, columns}}},
                     .domain = passes::internal_domain};
  const graph::Graph graph = make_graph(node);
  Executable executable(graph, {.device = device_under_test()});
  const Tensor first = testing::run(executable, graph, {a, b})[0];
  check_close(first, expected, 2 + std::sqrt(static_cast<double>(depth)));
  for (int run = 0; run < 2; ++run)
    CHECK(doubles(testing::run(executable, graph, {a, b})[0]) == doubles(first));
}

}  // namespace

TEST_CASE("a few rows times weights: sums split over blocks, tiles and steps that are not full") {
  std::mt19937 random(20);
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16})
    for (const std::int64_t rows : {1, 2, 3, 4})
      for (const bool by_columns : {false, true})
        for (const auto& [depth, columns] :
             {std::pair<std::int64_t, std::int64_t>{256, 64}, {264, 328}, {2056, 72}, {1600, 264}})
          check_rows(type, rows, depth, columns, by_columns, random);
}

TEST_CASE("a few rows times weights: more than shared memory holds, and tiles for all of the GPU") {
  std::mt19937 random(21);
  check_rows(DataType::float32, 4, 2400, 32 * 140, false, random);
}

}  // namespace autopar::runtime
