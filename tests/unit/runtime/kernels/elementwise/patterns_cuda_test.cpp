// Which programs have kernels of their own.

#include <catch2/catch.hpp>

#include "runtime/kernels/elementwise/elementwise.h"
#include "runtime/kernels/elementwise/pattern_cuda.h"
#include "unit/runtime/kernels/elementwise/pattern_cases.h"

namespace autopar::runtime::cuda {
namespace {

using namespace testing;

bool has_pattern(const NodeRun& run) {
  const graph::Graph graph = make_graph(run);
  std::vector<TensorView> inputs;
  for (const auto& input : run.inputs) inputs.push_back({input->type(), input->shape(), nullptr});
  const TensorView output{run.outputs[0].first, run.outputs[0].second, nullptr};
  return make_pattern_kernel(
             chain_program({graph.nodes[0], inputs, {output}, *device_under_test()})) != nullptr;
}

}  // namespace

TEST_CASE(
    "common chains have kernels of their own, also where the last operand is a row of packs") {
  std::mt19937 random(31);
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16})
    for (const PatternCase& each : pattern_cases()) {
      CAPTURE(each.name, name_of(type));
      CHECK(has_pattern(pattern_run(each, type, {3, 43}, false, random)));
      if (each.inputs == 1) continue;
      for (const std::int64_t columns : {8, 104, 45})
        CHECK(has_pattern(pattern_run(each, type, {2, 7, columns}, true, random)) ==
              (columns % 8 == 0));
    }
}

TEST_CASE("programs of operands of several types or of other functions have no such kernel") {
  std::mt19937 random(34);
  PatternCase other = pattern_cases()[0];
  other.links = {link("Div", {0, 1})};
  CHECK_FALSE(has_pattern(pattern_run(other, DataType::float32, {16}, false, random)));
  other.links = {link("Sigmoid", {0}), link("Mul", {1, 2}), link("Mul", {3, 1})};  // y s(x) y
  CHECK_FALSE(has_pattern(pattern_run(other, DataType::float32, {16}, false, random)));
  CHECK_FALSE(has_pattern(pattern_run(pattern_cases()[0], DataType::float64, {16}, false, random)));
}

}  // namespace autopar::runtime::cuda
