#pragma once

#include <cmath>
#include <functional>

#include "runtime/kernels/elementwise/chain.h"
#include "runtime/passes/passes.h"
#include "unit/runtime/loops.h"

/// Chains that GPUs have kernels of their own for, and their formulas.
namespace autopar::runtime::testing {

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
inline double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

/// A chain and what it is worth for one element of each input.
struct PatternCase {
  const char* name;
  std::size_t inputs;
  std::vector<ChainLink> links;
  std::function<double(double, double, double)> value;
};

inline ChainLink link(const char* op_type, std::vector<std::int64_t> operands) {
  return {op_type, {}, std::move(operands), DataType::undefined};
}
inline ChainLink gelu_by_tanh(std::vector<std::int64_t> operands) {
  return {"Gelu", {{"approximate", std::string("tanh")}}, std::move(operands), {}};
}

inline const std::vector<PatternCase>& pattern_cases() {
  static const std::vector<PatternCase> all = {
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
      {"product", 2, {link("Mul", {0, 1})}, [](double x, double y, double) { return x * y; }},
      {"Relu", 1, {link("Relu", {0})}, [](double x, double, double) { return std::max(x, 0.0); }},
      {"GELU", 1, {link("Gelu", {0})}, [](double x, double, double) { return gelu(x); }},
      {"GELU by tanh",
       1,
       {gelu_by_tanh({0})},
       [](double x, double, double) { return gelu_tanh(x); }},
      {"GELU of one",
       2,
       {link("Gelu", {0}), link("Mul", {2, 1})},
       [](double x, double y, double) { return gelu(x) * y; }},
      {"SiLU",
       1,
       {link("Sigmoid", {0}), link("Mul", {0, 1})},
       [](double x, double, double) { return x * sigmoid(x); }},
      {"Swish alone",
       1,
       {{"Swish", {{"alpha", 0.5F}}, {0}, {}}},
       [](double x, double, double) { return x * sigmoid(0.5 * x); }},
      {"a gate",
       2,
       {link("Sigmoid", {0}), link("Mul", {2, 1})},
       [](double x, double y, double) { return sigmoid(x) * y; }},
  };
  return all;
}

inline NodeRun pattern_run(const PatternCase& each, DataType type, const Shape& shape,
                           bool last_is_row, std::mt19937& random) {
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

}  // namespace autopar::runtime::testing
