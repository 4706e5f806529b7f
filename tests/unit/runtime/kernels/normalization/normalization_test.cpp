// Softmax, LayerNormalization and RMSNormalization against loops in double.

#include <limits>

#include "unit/runtime/loops.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Softmax along `axis`, by its definition.
std::vector<double> softmax(const Tensor& x, std::size_t axis, bool logarithm) {
  std::vector<double> result;
  for_each_index(x.shape(), [&](const Shape& index) {
    double sum = 0;
    for (std::int64_t i = 0; i < x.shape()[axis]; ++i) {
      Shape other = index;
      other[axis] = i;
      sum += std::exp(at(x, other));
    }
    const double value = at(x, index) - std::log(sum);
    result.push_back(logarithm ? value : std::exp(value));
  });
  return result;
}

Tensor run_softmax(const Tensor& x, std::int64_t axis, bool logarithm = false, int threads = 1) {
  return run_node({.op_type = logarithm ? "LogSoftmax" : "Softmax",
                   .attributes = {{"axis", axis}},
                   .inputs = {x},
                   .outputs = {{x.type(), x.shape()}},
                   .threads = threads})
      .front();
}

struct Normalized {
  std::vector<double> out;
  std::vector<double> mean;
  std::vector<double> inverse_deviation;
};

/// Rows over the dimensions from `axis` on.
Normalized normalize(const Tensor& x, std::size_t axis, const Tensor& scale,
                     const std::optional<Tensor>& bias, bool centred) {
  std::size_t n = 1;
  for (std::size_t d = axis; d < x.shape().size(); ++d) n *= static_cast<std::size_t>(x.shape()[d]);
  const std::vector<double> values = doubles(x);
  Normalized result;
  for (std::size_t row = 0; row < values.size(); row += n) {
    double mean = 0;
    double variance = 0;
    for (std::size_t i = 0; centred && i < n; ++i) mean += values[row + i] / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i)
      variance += std::pow(values[row + i] - mean, 2) / static_cast<double>(n);
    const double inverse = 1 / std::sqrt(variance + 1e-5F);
    for (std::size_t i = 0; i < n; ++i)
      result.out.push_back((values[row + i] - mean) * inverse * number_at(scale, i) +
                           (bias ? number_at(*bias, i) : 0));
    result.mean.push_back(mean);
    result.inverse_deviation.push_back(inverse);
  }
  return result;
}

}  // namespace

TEST_CASE("LogSoftmax of large numbers keeps what lies behind the point") {
  const double log_sum = std::log1p(std::exp(-9.0));
  for (const DataType type : {DataType::float32, DataType::float64})
    for (const std::int64_t axis : {0, 1}) {
      const Tensor x = tensor_of(
          type, {2, 2}, {20000, axis == 1 ? 19991.0 : 20000, axis == 1 ? 20000.0 : 19991, 19991});
      const auto y = doubles(run_node({.op_type = "LogSoftmax",
                                       .attributes = {{"axis", axis}},
                                       .inputs = {x},
                                       .outputs = {{type, {2, 2}}}})
                                 .front());
      CHECK(y[0] == Approx(-log_sum).epsilon(0).margin(5e-6));
      CHECK(y[3] == Approx(-9 - log_sum).epsilon(1e-6));
    }
}

TEST_CASE("LogSoftmax of one element is 0, and so is that of one that outweighs all others") {
  Random random(6);
  for (const DataType type : float_types)
    for (const Shape& shape : {Shape{1}, Shape{4, 1}, Shape{3, 1, 5}, Shape{2, 1, 130}}) {
      const Tensor x = random_in(type, shape, random, -30, 30);
      const auto axis = static_cast<std::int64_t>(shape.size() > 1 ? 1 : 0);
      const Tensor y = run_softmax(x, axis, true);
      for (const double value : doubles(y)) CHECK(value == 0);
    }
  for (const std::int64_t inner : {1, 3}) {
    std::vector<double> x(static_cast<std::size_t>(40 * inner), -200);
    for (std::int64_t i = 0; i < inner; ++i) x[static_cast<std::size_t>(7 * inner + i)] = 100;
    const Tensor y = run_softmax(tensor_of(DataType::float32, {40, inner}, x), 0, true);
    for (std::int64_t i = 0; i < inner; ++i) {
      CHECK(at(y, {7, i}) == 0);
      CHECK(at(y, {8, i}) == -300);
    }
  }
}

TEST_CASE("Softmax and LogSoftmax of every type along every axis equal a loop") {
  Random random(4);
  for (const DataType type : float_types) {
    for (const Shape& shape :
         {Shape{2, 3, 37}, Shape{5}, Shape{1, 16}, Shape{4, 1}, Shape{3, 0, 2}}) {
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        const Tensor x = random_floats(random, shape, type);
        for (const bool logarithm : {false, true}) {
          for (const int threads : {1, 2}) {
            check_close(run_softmax(x, static_cast<std::int64_t>(axis), logarithm, threads),
                        softmax(x, axis, logarithm));
          }
        }
      }
    }
  }
}

TEST_CASE("Softmax of large numbers does not overflow") {
  for (const DataType type : float_types) {
    const Tensor y = run_softmax(tensor_of(type, {4}, {-60000, 60000, 60000, 0}), 0);
    CHECK(doubles(y) == std::vector<double>{0, 0.5, 0.5, 0});
  }
}

TEST_CASE("a masked Softmax gives nothing to what is masked") {
  for (const DataType type : float_types) {
    std::vector<double> x(20, 0);
    for (std::size_t i = 10; i < 20; ++i) x[i] = -infinity;
    std::vector<double> expected(20, 0);
    for (std::size_t i = 0; i < 10; ++i) expected[i] = 0.1;
    check_close(run_softmax(tensor_of(type, {20}, x), 0), expected);
    const auto logarithm = doubles(run_softmax(tensor_of(type, {20}, x), 0, true));
    for (std::size_t i = 0; i < 20; ++i)
      CHECK((i < 10 ? std::isfinite(logarithm[i]) : logarithm[i] == -infinity));
  }
}

TEST_CASE("NaN, or a row with nothing to choose from, makes its row of a Softmax NaN, no other") {
  for (const DataType type : float_types) {
    for (const std::int64_t columns : {1, 7, 40}) {
      for (const std::int64_t inner : {1, 3}) {
        for (const bool logarithm : {false, true}) {
          const Shape shape{3, columns, inner};
          std::vector<double> x(static_cast<std::size_t>(graph::num_elements(shape)), 0);
          const auto row = static_cast<std::size_t>(columns * inner);
          x[row / 2 / static_cast<std::size_t>(inner) * static_cast<std::size_t>(inner)] =
              not_a_number;
          for (std::size_t i = 0; i < row; ++i) x[2 * row + i] = -infinity;
          const auto y = doubles(run_softmax(tensor_of(type, shape, x), 1, logarithm));
          for_each_index(shape, [&, i = std::size_t{0}](const Shape& index) mutable {
            CAPTURE(name_of(type), shape, index, logarithm);
            const bool is_nan = index[0] == 2 || (index[0] == 0 && index[2] == 0);
            CHECK(std::isnan(y[i++]) == is_nan);
          });
        }
      }
    }
  }
}

TEST_CASE("LayerNormalization of every type equals a loop, with and without bias and moments") {
  Random random(5);
  for (const DataType type : float_types) {
    for (const auto& [shape, axis] : std::vector<std::pair<Shape, std::size_t>>{{{3, 1}, 1},
                                                                                {{3, 7}, 1},
                                                                                {{2, 3, 16}, 2},
                                                                                {{2, 5, 10}, 1},
                                                                                {{4, 200}, 1},
                                                                                {{0, 8}, 1}}) {
      Shape rows = shape;
      std::fill(rows.begin() + static_cast<std::ptrdiff_t>(axis), rows.end(), 1);
      const Shape row(shape.begin() + static_cast<std::ptrdiff_t>(axis), shape.end());
      const Tensor x = random_floats(random, shape, type);
      const Tensor scale = random_floats(random, row, type);
      const Tensor bias = random_floats(random, row, type);
      for (const bool has_bias : {false, true}) {
        const Normalized expected =
            normalize(x, axis, scale, has_bias ? std::optional(bias) : std::nullopt, true);
        NodeRun node{"LayerNormalization",
                     {{"axis", static_cast<std::int64_t>(axis)}},
                     {x, scale},
                     {{type, shape}}};
        if (has_bias) node.inputs.emplace_back(bias);
        check_close(run_node(node).front(), expected.out, 4);
        node.outputs = {{type, shape}, {DataType::float32, rows}, {DataType::bfloat16, rows}};
        for (const int threads : {1, 2}) {
          node.threads = threads;
          const auto outputs = run_node(node);
          check_close(outputs[0], expected.out, 4);
          check_close(outputs[1], expected.mean);
          check_close(outputs[2], expected.inverse_deviation, 400);
        }
      }
    }
  }
}

TEST_CASE("NaN makes its row of a LayerNormalization NaN, no other") {
  std::vector<double> x(3 * 20, 1);
  x[25] = not_a_number;
  for (const DataType type : float_types) {
    const Tensor scale = tensor_of(type, {20}, std::vector<double>(20, 1));
    const auto y = doubles(
        run_node(
            {"LayerNormalization", {}, {tensor_of(type, {3, 20}, x), scale}, {{type, {3, 20}}}})
            .front());
    for (std::size_t i = 0; i < y.size(); ++i) CHECK(std::isnan(y[i]) == (i / 20 == 1));
  }
}

TEST_CASE("RMSNormalization of every type equals a loop") {
  Random random(6);
  for (const DataType type : float_types) {
    for (const std::int64_t n : {1, 7, 50}) {
      const Tensor x = random_floats(random, {3, n}, type);
      const Tensor scale = random_floats(random, {n}, type);
      check_close(run_node({"RMSNormalization", {}, {x, scale}, {{type, {3, n}}}}).front(),
                  normalize(x, 1, scale, std::nullopt, false).out, 4);
    }
  }
}

TEST_CASE("scale and bias of a normalisation broadcast to its input") {
  Random random(21);
  struct Case {
    Shape x, scale, bias;
    std::int64_t axis;
  };
  const std::vector<Case> cases = {
      {{2, 3, 8}, {2, 1, 8}, {8}, -1},    {{2, 3, 8}, {3, 8}, {2, 1, 1}, 2},
      {{2, 3, 8}, {1}, {1, 3, 1}, 1},     {{2, 3, 3}, {3, 1}, {3}, 2},
      {{4, 2, 3}, {2, 1}, {1, 1, 3}, 1},  {{2, 3, 8}, {2, 3, 8}, {2, 3, 8}, -1},
      {{5, 1}, {5, 1}, {1}, 1},           {{0, 3, 4}, {3, 4}, {1, 3, 1}, -1},
      {{2, 3, 8}, {1, 1, 8}, {1, 8}, -1}, {{2, 2, 2, 2}, {2, 1, 1, 2}, {2, 2}, 2},
  };
  for (const DataType type : float_types)
    for (const Case& c : cases)
      for (const bool centred : {true, false}) {
        const Tensor x = random_floats(random, c.x, type);
        const Tensor scale = random_floats(random, c.scale, type);
        const Tensor bias = random_floats(random, c.bias, type);
        const auto rank = static_cast<std::int64_t>(c.x.size());
        const auto axis = static_cast<std::size_t>(c.axis < 0 ? c.axis + rank : c.axis);
        const Shape row(c.x.begin() + static_cast<std::ptrdiff_t>(axis), c.x.end());
        const auto elements = static_cast<std::size_t>(graph::num_elements(row));
        const Tensor ones = tensor_of(DataType::float64, row, std::vector<double>(elements, 1));
        std::vector<double> expected = normalize(x, axis, ones, std::nullopt, centred).out;
        for_each_index(c.x, [&, i = std::size_t{0}](const Shape& index) mutable {
          expected[i] *= at(scale, index);
          if (centred) expected[i] += at(bias, index);
          ++i;
        });
        NodeRun run{.op_type = centred ? "LayerNormalization" : "RMSNormalization",
                    .attributes = {{"axis", c.axis}},
                    .inputs = {x, scale},
                    .outputs = {{type, c.x}}};
        if (centred) run.inputs.emplace_back(bias);
        CAPTURE(name_of(type), c.x, c.scale, c.bias, c.axis, centred);
        check_close(run_node(run).front(), expected, 3);
      }
}
