#include <algorithm>
#include <cmath>
#include <numeric>

#include "unit/graph/contrib/operator_call.h"

using namespace autopar::graph;

namespace {

const char* const ms = "com.microsoft";

using Vector = std::vector<double>;

/// Experts' matrices [experts, rows, columns] times a vector.
Vector times(const Array& matrices, std::int64_t expert, const Vector& x) {
  Vector y(static_cast<std::size_t>(matrices.extent(1)));
  for (std::size_t i = 0; i < y.size(); ++i)
    for (std::size_t j = 0; j < x.size(); ++j) y[i] += matrices(expert, i, j) * x[j];
  return y;
}

/// The experts of the largest probabilities, best first, and their probabilities.
std::vector<std::pair<std::int64_t, double>> best_experts(const Array& router, std::int64_t token,
                                                          std::size_t count) {
  const Array shares = softmax(router);
  std::vector<std::pair<std::int64_t, double>> experts;
  for (std::int64_t e = 0; e < router.extent(1); ++e) experts.emplace_back(e, shares(token, e));
  std::ranges::stable_sort(experts, std::ranges::greater(),
                           &std::pair<std::int64_t, double>::second);
  experts.resize(count);
  return experts;
}

/// Tokens through their experts: `of_expert` is what an expert makes of a token.
template <typename OfExpert>
Array mixture(const Array& tokens, const Array& router, std::size_t chosen, bool normalizes,
              const OfExpert& of_expert) {
  Array y(tokens.shape);
  for (std::int64_t t = 0; t < tokens.extent(0); ++t) {
    Vector x;
    for (std::int64_t h = 0; h < tokens.extent(1); ++h) x.push_back(tokens(t, h));
    const auto experts = best_experts(router, t, chosen);
    double all = 0;
    for (const auto& [expert, share] : experts) all += share;
    for (const auto& [expert, share] : experts) {
      const Vector made = of_expert(expert, x);
      for (std::int64_t h = 0; h < tokens.extent(1); ++h)
        y(t, h) += share / (normalizes ? all : 1) * made[static_cast<std::size_t>(h)];
    }
  }
  return y;
}

double silu(double x) { return x * sigmoid(x); }
double relu(double x) { return std::max(x, 0.0); }
double identity(double x) { return x; }

/// Numbers of 4 bits in `packed`, two to a byte, the first one low, and what they stand for: 8
/// less, times a scale a row.
struct Packed {
  Array packed;
  Array scales;
  Array numbers;

  Packed(Draw& draw, std::int64_t experts, std::int64_t rows, std::int64_t columns)
      : packed({experts, rows, columns / 2}),
        scales(draw.numbers({experts, rows}, 0.05, 0.2)),
        numbers({experts, rows, columns}) {
    const Array stored = draw.integers(numbers.shape, 0, 15);
    for (std::int64_t e = 0; e < experts; ++e)
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j) {
          packed(e, i, j / 2) += stored(e, i, j) * (j % 2 == 0 ? 1 : 16);
          numbers(e, i, j) = (stored(e, i, j) - 8) * scales(e, i);
        }
  }
};

}  // namespace

OPERATOR_TEST("com.microsoft", "MoE", "each activation between both products of the best experts") {
  Draw draw;
  const Array tokens = draw.numbers({5, 4});
  const Array router = draw.numbers({5, 3});
  const Array first = draw.numbers({3, 6, 4});
  const Array second = draw.numbers({3, 4, 6});
  const Array first_bias = draw.numbers({3, 6});
  const Array second_bias = draw.numbers({3, 4});
  const std::vector<std::pair<std::string, double (*)(double)>> activations{
      {"relu", relu}, {"gelu", tanh_gelu}, {"silu", silu}, {"identity", identity}};
  for (const auto& [name, f] : activations) {
    CAPTURE(name);
    const Array expected =
        mixture(tokens, router, 2, true, [&, f = f](std::int64_t expert, const Vector& x) {
          Vector inner = times(first, expert, x);
          for (std::size_t i = 0; i < inner.size(); ++i)
            inner[i] = f(inner[i] + first_bias(expert, i));
          Vector y = times(second, expert, inner);
          for (std::size_t i = 0; i < y.size(); ++i) y[i] += second_bias(expert, i);
          return y;
        });
    check(Call(ms, "MoE")
              .in(tokens)
              .in(router)
              .in(first)
              .in(first_bias)
              .in(second)
              .in(second_bias)
              .set("activation_type", name)
              .set("k", std::int64_t{2})
              .set("normalize_routing_weights", std::int64_t{1})
              .result(),
          expected);
  }
}

OPERATOR_TEST("com.microsoft", "MoE", "swiglu of pairs side by side, and of two products") {
  Draw draw;
  const Array tokens = draw.numbers({5, 4});
  const Array router = draw.numbers({5, 3});
  const Array gates = draw.numbers({3, 6, 4});
  const Array linears = draw.numbers({3, 6, 4});
  const Array second = draw.numbers({3, 4, 6});
  Array pairs({3, 12, 4});
  for (std::int64_t e = 0; e < 3; ++e)
    for (std::int64_t i = 0; i < 12; ++i)
      for (std::int64_t j = 0; j < 4; ++j)
        pairs(e, i, j) = i % 2 == 0 ? gates(e, i / 2, j) : linears(e, i / 2, j);
  const double alpha = 1.5;
  const double beta = 1;
  const double limit = 2;
  const auto swiglu = [&](std::int64_t expert, const Vector& x) {
    Vector gate = times(gates, expert, x);
    const Vector linear = times(linears, expert, x);
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double g = std::min(gate[i], limit);
      gate[i] = g * sigmoid(alpha * g) * (std::clamp(linear[i], -limit, limit) + beta);
    }
    return times(second, expert, gate);
  };
  const auto call = [&](const Array& first) {
    return Call(ms, "MoE")
        .in(tokens)
        .in(router)
        .in(first)
        .left_out()
        .in(second)
        .left_out()
        .set("activation_type", std::string("swiglu"))
        .set("activation_alpha", static_cast<float>(alpha))
        .set("activation_beta", static_cast<float>(beta))
        .set("swiglu_limit", static_cast<float>(limit))
        .set("k", std::int64_t{1});
  };
  const Array expected = mixture(tokens, router, 1, false, swiglu);
  check(call(pairs).set("swiglu_fusion", std::int64_t{1}).result(), expected);
  check(call(gates).in(linears).result(), expected);
}

OPERATOR_TEST("com.microsoft", "QMoE", "experts of 4 bits, their shares' sum 1") {
  Draw draw;
  const Array tokens = draw.numbers({5, 8});
  const Array router = draw.numbers({5, 3});
  const Packed first(draw, 3, 6, 8);
  const Packed second(draw, 3, 8, 6);
  const Array bias = draw.numbers({3, 6});
  const Array expected =
      mixture(tokens, router, 2, true, [&](std::int64_t expert, const Vector& x) {
        Vector inner = times(first.numbers, expert, x);
        for (std::size_t i = 0; i < inner.size(); ++i) inner[i] = silu(inner[i] + bias(expert, i));
        return times(second.numbers, expert, inner);
      });
  check(Call(ms, "QMoE")
            .in(tokens)
            .in(router)
            .in(first.packed, DataType::uint8)
            .in(first.scales)
            .in(bias)
            .in(second.packed, DataType::uint8)
            .in(second.scales)
            .set("activation_type", std::string("silu"))
            .set("expert_weight_bits", std::int64_t{4})
            .set("k", std::int64_t{2})
            .result(),
        expected, 1e-4);
}

OPERATOR_TEST("autopar.ops", "ExpertMatMulNBits", "each row times its expert's matrix") {
  Draw draw;
  const Array rows = draw.numbers({4, 8});
  const Array experts({4}, std::vector<double>{2, 0, 5, 1});  // the third names no expert
  const Packed matrices(draw, 3, 6, 8);
  const Array bias = draw.numbers({3, 6});
  Array expected({4, 6});
  for (std::int64_t r = 0; r < 4; ++r) {
    const auto expert = static_cast<std::int64_t>(experts(r));
    for (std::int64_t i = 0; expert < 3 && i < 6; ++i) {
      expected(r, i) = bias(expert, i);
      for (std::int64_t j = 0; j < 8; ++j)
        expected(r, i) += matrices.numbers(expert, i, j) * rows(r, j);
    }
  }
  Array scales = matrices.scales;
  scales.shape.push_back(1);
  check(Call("autopar.ops", "ExpertMatMulNBits")
            .in(rows)
            .in(experts, DataType::int64)
            .in(matrices.packed, DataType::uint8)
            .in(scales)
            .left_out()
            .in(bias)
            .set("bits", std::int64_t{4})
            .set("block_size", std::int64_t{0})
            .result(),
        expected, 1e-4);
}
