// Programs with kernels of their own on the emulated GPU, against their formulas in double.

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/kernels/elementwise/chain.h"
#include "runtime/kernels/elementwise/elementwise.h"
#include "runtime/kernels/elementwise/pattern_cuda.h"
#include "runtime/passes/passes.h"
#include "unit/runtime/loops.h"

namespace autopar::runtime::cuda {
namespace {

using namespace testing;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/// A chain and what it is worth for one element of each input.
struct Case {
  const char* name;
  std::size_t inputs;
  std::vector<ChainLink> links;
  std::function<double(double, double, double)> value;
};

ChainLink link(const char* op_type, std::vector<std::int64_t> operands) {
  return {op_type, {}, std::move(operands), DataType::undefined};
}
ChainLink gelu_by_tanh(std::vector<std::int64_t> operands) {
  return {"Gelu", {{"approximate", std::string("tanh")}}, std::move(operands), {}};
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"sum", 2, {link("Add", {0, 1})}, [](double x, double y, double) { return x + y; }},
      {"sums",
       3,
       {link("Add", {0, 1}), link("Add", {2, 3})},
       [](double x, double y, double z) { return x + y + z; }},
      {"SwiGLU of two",
       2,
       {link("Sigmoid", {0}), link("Mul", {0, 2}), link("Mul", {3, 1})},
       [](double x, double y, double) { return x * sigmoid(x) * y; }},
      {"SwiGLU, the other way round",
       2,
       {link("Sigmoid", {1}), link("Mul", {2, 1}), link("Mul", {0, 3})},
       [](double x, double y, double) { return y * sigmoid(y) * x; }},
      {"Swish",
       2,
       {{"Swish", {{"alpha", 1.5F}}, {0}, {}}, link("Mul", {2, 1})},
       [](double x, double y, double) { return x * sigmoid(1.5 * x) * y; }},
      {"GELU behind a bias",
       2,
       {link("Add", {0, 1}), link("Gelu", {2})},
       [](double x, double y, double) { return gelu(x + y); }},
      {"GELU by tanh behind a bias",
       2,
       {link("Add", {1, 0}), gelu_by_tanh({2})},
       [](double x, double y, double) { return gelu_tanh(x + y); }},
      {"GeGLU",
       2,
       {gelu_by_tanh({1}), link("Mul", {0, 2})},
       [](double x, double y, double) { return gelu_tanh(y) * x; }},
      {"Relu behind a bias",
       2,
       {link("Add", {0, 1}), link("Relu", {2})},
       [](double x, double y, double) { return std::max(x + y, 0.0); }},
  };
  return all;
}

NodeRun run_of(const Case& each, DataType type, const Shape& shape, bool last_is_row,
               std::mt19937& random) {
  std::vector<ChainLink> links = each.links;
  for (ChainLink& link : links) link.result = type;
  NodeRun run{.op_type = "ElementwiseChain",
              .attributes = encode_chain(links),
              .inputs = {},
              .outputs = {{type, shape}},
              .domain = passes::internal_domain};
  for (std::size_t i = 0; i < each.inputs; ++i) {
    const bool is_row = last_is_row && i + 1 == each.inputs;
    run.inputs.emplace_back(random_in(type, is_row ? Shape{shape.back()} : shape, random, -6, 6));
  }
  return run;
}

bool has_pattern(const NodeRun& run) {
  const graph::Graph graph = make_graph(run);
  std::vector<TensorView> inputs;
  for (const auto& input : run.inputs) inputs.push_back({input->type(), input->shape(), nullptr});
  const TensorView output{run.outputs[0].first, run.outputs[0].second, nullptr};
  return make_pattern_kernel(
             chain_program({graph.nodes[0], inputs, {output}, *device_under_test()})) != nullptr;
}

void check_against_formula(const Case& each, const NodeRun& run) {
  const Tensor result = run_node(run).front();
  std::vector<double> expected;
  for_each_index(run.outputs[0].second, [&](const Shape& index) {
    const auto x = [&](std::size_t i) { return i < each.inputs ? at(*run.inputs[i], index) : 0.0; };
    expected.push_back(each.value(x(0), x(1), x(2)));
  });
  check_close(result, expected, 16);
}

}  // namespace

TEST_CASE("programs with kernels of their own equal their formulas") {
  std::mt19937 random(31);
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16})
    for (const Case& each : cases())
      for (const Shape& shape : std::vector<Shape>{{1}, {3, 43}, {5, 1000}, {2, 3, 72}}) {
        CAPTURE(each.name, name_of(type), graph::to_string(shape));
        const NodeRun run = run_of(each, type, shape, false, random);
        CHECK(has_pattern(run));
        check_against_formula(each, run);
      }
}

TEST_CASE("their last operand may be a row of whole packs, and else the interpreter runs them") {
  std::mt19937 random(32);
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16})
    for (const Case& each : cases())
      for (const std::int64_t columns : {8, 104, 45}) {
        CAPTURE(each.name, name_of(type), columns);
        const NodeRun run = run_of(each, type, {2, 7, columns}, true, random);
        CHECK(has_pattern(run) == (columns % 8 == 0));
        check_against_formula(each, run);
      }
}

TEST_CASE("a tensor whose threads take several packs each") {
  std::mt19937 random(33);
  const Case& each = cases()[2];
  const Shape shape{(1 << 21) + 8 * 300 + 3};
  const NodeRun run = run_of(each, DataType::bfloat16, shape, false, random);
  CHECK(has_pattern(run));
  check_against_formula(each, run);
}

TEST_CASE("NaN and infinities are what the interpreter's functions make of them") {
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16}) {
    const Tensor x = tensor_of(type, {8}, {NAN, INFINITY, -INFINITY, 100, -100, 0, 30000, -30000});
    const Tensor y = tensor_of(type, {8}, std::vector<double>(8, 1));
    NodeRun run = run_of(cases()[2], type, {8}, false, *std::make_unique<std::mt19937>(1));
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

TEST_CASE("programs of operands of several types or of other functions have no such kernel") {
  std::mt19937 random(34);
  Case other = cases()[0];
  other.links = {link("Div", {0, 1})};
  CHECK_FALSE(has_pattern(run_of(other, DataType::float32, {16}, false, random)));
  other.links = {link("Sigmoid", {0}), link("Mul", {1, 2}), link("Mul", {3, 1})};  // y s(x) y
  CHECK_FALSE(has_pattern(run_of(other, DataType::float32, {16}, false, random)));
  CHECK_FALSE(has_pattern(run_of(cases()[0], DataType::float64, {16}, false, random)));
}

}  // namespace autopar::runtime::cuda
