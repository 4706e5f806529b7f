// Chains that GPUs have kernels of their own for, on every device, against formulas in double.

#include <catch2/catch.hpp>

#include "unit/runtime/kernels/elementwise/pattern_cases.h"

namespace autopar::runtime {
namespace {

using namespace testing;

void check_against_formula(const PatternCase& each, const NodeRun& run) {
  const Tensor result = run_node(run).front();
  std::vector<double> expected;
  for_each_index(run.outputs[0].second, [&](const Shape& index) {
    const auto x = [&](std::size_t i) { return i < each.inputs ? at(*run.inputs[i], index) : 0.0; };
    expected.push_back(each.value(x(0), x(1), x(2)));
  });
  check_close(result, expected, 16);
}

}  // namespace

TEST_CASE("chains that are common equal their formulas") {
  std::mt19937 random(31);
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16})
    for (const PatternCase& each : pattern_cases())
      for (const Shape& shape : std::vector<Shape>{{1}, {3, 43}, {5, 1000}, {2, 3, 72}}) {
        CAPTURE(each.name, name_of(type), graph::to_string(shape));
        const NodeRun run = pattern_run(each, type, shape, false, random);
        check_against_formula(each, run);
      }
}

TEST_CASE("the last operand of a common chain may be a row") {
  std::mt19937 random(32);
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16})
    for (const PatternCase& each : pattern_cases())
      for (const std::int64_t columns : {8, 104, 45}) {
        CAPTURE(each.name, name_of(type), columns);
        const NodeRun run = pattern_run(each, type, {2, 7, columns}, true, random);
        check_against_formula(each, run);
      }
}

TEST_CASE("a common chain of many elements") {
  std::mt19937 random(33);
  const PatternCase& each = pattern_cases()[2];
  const Shape shape{(1 << 21) + 8 * 300 + 3};
  const NodeRun run = pattern_run(each, DataType::bfloat16, shape, false, random);
  check_against_formula(each, run);
}

TEST_CASE("NaN and infinities in a common chain") {
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16}) {
    const Tensor x = tensor_of(type, {8}, {NAN, INFINITY, -INFINITY, 100, -100, 0, 30000, -30000});
    const Tensor y = tensor_of(type, {8}, std::vector<double>(8, 1));
    NodeRun run =
        pattern_run(pattern_cases()[2], type, {8}, false, *std::make_unique<std::mt19937>(1));
    run.inputs = {x, y};
    const std::vector<double> found = doubles(run_node(run).front());
    CHECK(std::isnan(found[0]));
    CHECK(found[1] == INFINITY);
    CHECK(std::isnan(found[2]));
    CHECK(found[3] == 100);
    CHECK(std::fabs(found[4]) < 1e-6);
    CHECK(found[5] == 0);
    CHECK(found[6] == number_at(x, 6));
    CHECK(found[7] == 0);
  }
}

}  // namespace autopar::runtime
