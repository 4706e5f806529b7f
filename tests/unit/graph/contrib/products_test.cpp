#include <algorithm>
#include <cmath>

#include "unit/graph/contrib/operator_call.h"

using namespace autopar::graph;

namespace {

const char* const ms = "com.microsoft";

/// Dimensions in another order.
Array permuted(const Array& x, const std::vector<std::size_t>& order) {
  Shape shape;
  for (const std::size_t d : order) shape.push_back(x.shape[d]);
  Array y(shape);
  const Shape from = row_major_strides(x.shape);
  const Shape to = row_major_strides(shape);
  for (std::int64_t i = 0; i < num_elements(shape); ++i) {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < order.size(); ++d) place += i / to[d] % shape[d] * from[order[d]];
    y.values[static_cast<std::size_t>(i)] = x.values[static_cast<std::size_t>(place)];
  }
  return y;
}

/// The products of two stacks of matrices.
Array stacked_matmul(const Array& a, const Array& b) {
  Array y({a.extent(0), a.extent(1), b.extent(2)});
  for (std::int64_t n = 0; n < a.extent(0); ++n)
    for (std::int64_t i = 0; i < a.extent(1); ++i)
      for (std::int64_t j = 0; j < b.extent(2); ++j)
        for (std::int64_t k = 0; k < a.extent(2); ++k) y(n, i, j) += a(n, i, k) * b(n, k, j);
  return y;
}

Array scaled(const Array& x, double factor) {
  return map(x, [factor](double value) { return factor * value; });
}

double relu(double x) { return std::max(x, 0.0); }

/// The activations that fused operators name, with parameters and what they are.
struct Activation {
  const char* name;
  std::vector<float> parameters;
  double (*f)(double x);
};
const std::vector<Activation> activations{
    {"Relu", {}, relu},
    {"Sigmoid", {}, sigmoid},
    {"Tanh", {}, [](double x) { return std::tanh(x); }},
    {"Softplus", {}, [](double x) { return std::log1p(std::exp(x)); }},
    {"LeakyRelu", {0.25F}, [](double x) { return x < 0 ? 0.25 * x : x; }},
    {"Elu", {0.5F}, [](double x) { return x < 0 ? 0.5 * std::expm1(x) : x; }},
    {"HardSigmoid", {0.5F, 0.25F}, [](double x) { return std::clamp(0.5 * x + 0.25, 0.0, 1.0); }},
    {"Clip", {-0.5F, 0.75F}, [](double x) { return std::clamp(x, -0.5, 0.75); }},
};

void set_parameters(Call& call, const Activation& activation) {
  const char* const names[] = {"activation_alpha", "activation_beta"};
  for (std::size_t i = 0; i < activation.parameters.size(); ++i)
    call.set(names[i], activation.parameters[i]);
}

}  // namespace

OPERATOR_TEST("com.microsoft", "FusedMatMul", "alpha times a product, its operands transposed") {
  Draw draw;
  const Array a = draw.numbers({2, 3, 4});
  const Array b = draw.numbers({2, 4, 5});
  const Array expected = scaled(stacked_matmul(a, b), 0.5);
  check(Call(ms, "FusedMatMul").in(a).in(b).set("alpha", 0.5F).result(), expected);
  check(Call(ms, "FusedMatMul")
            .in(permuted(a, {0, 2, 1}))
            .in(permuted(b, {0, 2, 1}))
            .set("alpha", 0.5F)
            .set("transA", std::int64_t{1})
            .set("transB", std::int64_t{1})
            .result(),
        expected);
  // transBatch: the batch stands before the last dimension.
  check(Call(ms, "FusedMatMul")
            .in(permuted(a, {1, 0, 2}))
            .in(permuted(b, {2, 0, 1}))
            .set("alpha", 0.5F)
            .set("transBatchA", std::int64_t{1})
            .set("transBatchB", std::int64_t{1})
            .set("transB", std::int64_t{1})
            .result(),
        expected);
}

OPERATOR_TEST("com.microsoft", "TransposeMatMul",
              "alpha times a product, its operands transposed") {
  Draw draw;
  const Array a = draw.numbers({3, 4});
  const Array b = draw.numbers({4, 5});
  check(Call(ms, "TransposeMatMul")
            .in(transposed(a))
            .in(b)
            .set("alpha", 2.0F)
            .set("transA", std::int64_t{1})
            .result(),
        scaled(matmul(a, b), 2));
}

OPERATOR_TEST("com.microsoft", "FusedMatMulActivation", "each activation of a product") {
  Draw draw;
  const Array a = draw.numbers({3, 4});
  const Array b = draw.numbers({4, 5});
  for (const Activation& activation : activations) {
    CAPTURE(activation.name);
    Call call(ms, "FusedMatMulActivation");
    call.in(a).in(transposed(b)).set("alpha", 0.5F).set("transB", std::int64_t{1});
    call.set("activation", std::string(activation.name));
    set_parameters(call, activation);
    check(call.result(), map(scaled(matmul(a, b), 0.5), activation.f));
  }
}

OPERATOR_TEST("com.microsoft", "FusedGemm", "each activation of alpha A B + beta C") {
  Draw draw;
  const Array a = draw.numbers({3, 4});
  const Array b = draw.numbers({4, 5});
  const Array c = draw.numbers({5});
  for (const Activation& activation : activations) {
    CAPTURE(activation.name);
    Call call(ms, "FusedGemm");
    call.in(transposed(a)).in(b).in(c).set("transA", std::int64_t{1});
    call.set("alpha", 0.5F).set("beta", 2.0F).set("activation", std::string(activation.name));
    set_parameters(call, activation);
    check(call.result(), map(sum(scaled(matmul(a, b), 0.5), scaled(c, 2)), activation.f));
  }
  check(Call(ms, "FusedGemm").in(a).in(b).set("activation", std::string("Relu")).result(),
        map(matmul(a, b), relu));
}

OPERATOR_TEST("com.microsoft", "FusedConv", "each activation of a convolution and what is added") {
  Draw draw;
  const Array x = draw.numbers({1, 2, 4, 5});
  const Array w = draw.numbers({3, 2, 3, 3});
  const Array bias = draw.numbers({3});
  const Array added = draw.numbers({1, 3, 4, 5});
  Array made({1, 3, 4, 5});
  for (std::int64_t m = 0; m < 3; ++m)
    for (std::int64_t i = 0; i < 4; ++i)
      for (std::int64_t j = 0; j < 5; ++j) {
        made(0, m, i, j) = bias(m);
        for (std::int64_t c = 0; c < 2; ++c)
          for (std::int64_t u = 0; u < 3; ++u)
            for (std::int64_t v = 0; v < 3; ++v) {
              const std::int64_t row = i + u - 1;
              const std::int64_t column = j + v - 1;
              if (row >= 0 && row < 4 && column >= 0 && column < 5)
                made(0, m, i, j) += x(0, c, row, column) * w(m, c, u, v);
            }
      }
  for (const Activation& activation : activations) {
    CAPTURE(activation.name);
    const auto call = [&] {
      Call result(ms, "FusedConv");
      result.in(x).in(w).in(bias).set("activation", std::string(activation.name));
      if (!activation.parameters.empty()) result.set("activation_params", activation.parameters);
      return result.set("pads", std::vector<std::int64_t>{1, 1, 1, 1});
    };
    check(call().result(), map(made, activation.f));
    check(call().in(added).result(), map(sum(made, added), activation.f));
  }
}

OPERATOR_TEST("com.microsoft", "GemmFastGelu", "FastGelu of a product and a bias") {
  Draw draw;
  const Array x = draw.numbers({3, 4});
  const Array w = draw.numbers({4, 5});
  const Array bias = draw.numbers({5});
  check(Call(ms, "GemmFastGelu").in(x).in(w).result(), map(matmul(x, w), tanh_gelu));
  check(Call(ms, "GemmFastGelu").in(x).in(w).in(bias).result(),
        map(sum(matmul(x, w), bias), tanh_gelu));
}
