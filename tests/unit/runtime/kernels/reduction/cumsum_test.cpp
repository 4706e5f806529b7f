#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "unit/runtime/run_node.h"

namespace autopar::runtime {
namespace {

using namespace testing;

Tensor scalar(std::int64_t value) { return Tensor::of_int64({}, std::span(&value, 1)); }

Tensor run_cumsum(const Tensor& x, std::int64_t axis, bool exclusive, bool reverse) {
  return run_node({"CumSum",
                   {{"exclusive", std::int64_t{exclusive}}, {"reverse", std::int64_t{reverse}}},
                   {x, scalar(axis)},
                   {{x.type(), x.shape()}},
                   {1}})[0];
}

/// CumSum by definition: all sums anew.
std::vector<double> sums(const Tensor& x, std::size_t axis, bool exclusive, bool reverse) {
  const std::vector<double> values = doubles(x);
  std::int64_t inner = 1;
  for (std::size_t d = axis + 1; d < x.shape().size(); ++d) inner *= x.shape()[d];
  const std::int64_t extent = x.shape()[axis];
  std::vector<double> result(values.size(), 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t place = static_cast<std::int64_t>(i) / inner % extent;
    const std::int64_t step = reverse ? 1 : -1;
    for (std::int64_t p = exclusive ? place + step : place; p >= 0 && p < extent; p += step)
      result[i] +=
          values[static_cast<std::size_t>(static_cast<std::int64_t>(i) + (p - place) * inner)];
  }
  return result;
}

TEST_CASE("CumSum along every axis, either way, with and without its own element") {
  std::mt19937 random(1);
  for (const Shape& shape : {Shape{3, 4, 5}, Shape{2, 7, 40}, Shape{3, 600}})
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      for (const bool exclusive : {false, true})
        for (const bool reverse : {false, true})
          for (const DataType type : {DataType::float32, DataType::float64, DataType::float16,
                                      DataType::bfloat16, DataType::int32, DataType::int64}) {
            if (shape.size() == 2 && type != DataType::float32 && type != DataType::int64) continue;
            const Tensor x = random_in(type, shape, random, -8, 8);
            const auto expected = sums(x, axis, exclusive, reverse);
            const auto given =
                doubles(run_cumsum(x, static_cast<std::int64_t>(axis), exclusive, reverse));
            CAPTURE(name_of(type), axis, exclusive, reverse);
            for (std::size_t i = 0; i < expected.size(); ++i)
              if (std::abs(given[i] - expected[i]) >
                  tolerance_of(type) * std::max(1.0, std::abs(expected[i])) + 1e-12)
                FAIL("at " << i << ": " << given[i] << ", not " << expected[i]);
          }
}

TEST_CASE("CumSum is spoilt by infinities and NaN from where they stand, not before") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = tensor_of(DataType::float32, {5}, {1, 2, infinity, 3, -infinity});
  const auto inclusive = doubles(run_cumsum(x, 0, false, false));
  CHECK(inclusive[1] == 3);
  CHECK(inclusive[2] == infinity);
  CHECK(inclusive[3] == infinity);
  CHECK(std::isnan(inclusive[4]));
  const auto exclusive = doubles(run_cumsum(x, -1, true, false));
  CHECK(exclusive[2] == 3);
  CHECK(exclusive[4] == infinity);
}

TEST_CASE("CumSum of nothing, and of narrow integers, which wrap around") {
  CHECK(run_cumsum(Tensor::zeros(DataType::float32, {3, 0}), 1, false, false).elements() == 0);
  CHECK(run_cumsum(Tensor::zeros(DataType::float32, {0, 3}), 1, false, false).elements() == 0);
  const Tensor bytes = tensor_of(DataType::uint8, {3}, {200, 100, 1});
  CHECK(doubles(run_cumsum(bytes, 0, false, false)) == std::vector<double>{200, 44, 45});
}

TEST_CASE("CumSum whose axis is no constant, or outside, is an error that names the node") {
  const Tensor x = Tensor::zeros(DataType::float32, {3});
  CHECK_THROWS_WITH(run_node({"CumSum", {}, {x, scalar(0)}, {{x.type(), {3}}}}),
                    Catch::Contains("the_node") && Catch::Contains("axis"));
  CHECK_THROWS_WITH(run_cumsum(x, 1, false, false), Catch::Contains("the_node"));
}

}  // namespace
}  // namespace autopar::runtime
