// Kernels that work row by row, on rows longer than a block keeps, of odd and even sizes.

#include <array>

#include "runtime/kernels/cuda_operators.h"
#include "unit/runtime/loops.h"

namespace autopar::runtime::testing {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST_CASE("MaskedSoftmax with every kind of mask equals a loop") {
  Random random(8);
  for (const DataType type : float_types) {
    for (const std::int64_t columns : {1, 5, 129, 1030}) {
      const Shape shape{2, 3, 2, columns};
      const Tensor x = random_floats(random, shape, type);
      for (const Shape& mask_shape : {Shape{2, 3, 2, columns}, Shape{2, 1, 2, columns},
                                      Shape{1, 1, 2, columns}, Shape{2, 1, 1, 1}, Shape{columns}}) {
        for (const bool is_boolean : {false, true}) {
          Tensor mask = random_in(is_boolean ? DataType::boolean : type, mask_shape, random, -2, 2);
          std::vector<double> expected;
          const double scale = 0.125;
          for (std::int64_t row = 0; row < 12; ++row) {
            std::vector<double> values;
            double sum = 0;
            for (std::int64_t c = 0; c < columns; ++c) {
              Shape index{row / 6, row / 2 % 3, row % 2, c};
              double value = at(x, index) * scale;
              index.erase(index.begin(),
                          index.end() - static_cast<std::ptrdiff_t>(mask_shape.size()));
              for (std::size_t d = 0; d < index.size(); ++d)
                if (mask_shape[d] == 1) index[d] = 0;
              const double m = at(mask, index);
              value = is_boolean ? (m != 0 ? value : -7.0) : value + m;
              values.push_back(std::exp(value));
              sum += values.back();
            }
            for (const double value : values) expected.push_back(value / sum);
          }
          NodeRun node{"MaskedSoftmax", {{"scale", 0.125F}}, {x, mask}, {{type, shape}}};
          node.domain = "autopar.internal";
          if (is_boolean) node.attributes["fill"] = -7.0F;
          CAPTURE(name_of(type), mask_shape, is_boolean);
          check_close(run_node(node).front(), expected);
        }
      }
    }
  }
}

TEST_CASE("A row of which the mask leaves nothing is NaN, as Softmax's") {
  const Tensor x = Tensor::zeros(DataType::float32, {2, 40});
  std::vector<double> none(80, 0);
  for (std::size_t i = 0; i < 40; ++i) none[i] = -infinity;
  NodeRun node{"MaskedSoftmax",
               {},
               {x, tensor_of(DataType::float32, {2, 40}, none)},
               {{DataType::float32, {2, 40}}}};
  node.domain = "autopar.internal";
  const auto y = doubles(run_node(node).front());
  for (std::size_t i = 0; i < 80; ++i)
    CHECK((i < 40 ? std::isnan(y[i]) : y[i] == Approx(1.0 / 40)));
}

TEST_CASE("MaskedSoftmax leaves zeros of a row without any key, or NaN") {
  for (const DataType type : float_types)
    for (const std::int64_t guard : {0, 1}) {
      const Tensor x = tensor_of(type, {2, 3}, {1, 2, 3, 1, 2, 3});
      const Tensor mask = tensor_of(DataType::boolean, {2, 3}, {1, 0, 1, 0, 0, 0});
      const auto y = doubles(run_node({.op_type = "MaskedSoftmax",
                                       .attributes = {{"nan_to_zero", guard}},
                                       .inputs = {x, mask},
                                       .outputs = {{type, {2, 3}}},
                                       .domain = "autopar.internal"})
                                 .front());
      CHECK(y[0] + y[2] == Approx(1).epsilon(0.01));
      CHECK(y[1] == 0);
      for (const std::size_t i : {3U, 4U, 5U}) CHECK((guard == 1 ? y[i] == 0 : std::isnan(y[i])));
    }
}

TEST_CASE("Softmax of rows longer than registers keep equals a loop") {
  Random random(9);
  for (const DataType type : float_types) {
    const std::int64_t columns = 20011;
    const Tensor x = random_floats(random, {2, columns}, type);
    std::vector<double> expected;
    for (std::size_t row = 0; row < 2; ++row) {
      double sum = 0;
      const auto n = static_cast<std::size_t>(columns);
      for (std::size_t i = 0; i < n; ++i) sum += std::exp(number_at(x, row * n + i));
      for (std::size_t i = 0; i < n; ++i)
        expected.push_back(std::exp(number_at(x, row * n + i)) / sum);
    }
    const Tensor y = run_node({"Softmax", {}, {x}, {{type, {2, columns}}}}).front();
    const auto values = doubles(y);
    for (std::size_t i = 0; i < values.size(); ++i)
      REQUIRE(values[i] == Approx(expected[i]).epsilon(4 * tolerance_of(type)).margin(1e-6));
  }
}

TEST_CASE("Rows longer than registers keep, of odd and even sizes, are normalised as loops do") {
  Random random(10);
  for (const DataType type : float_types) {
    for (const std::int64_t n : {768, 1001, 20000, 20011}) {
      const Tensor x = random_floats(random, {3, n}, type);
      const Tensor scale = random_floats(random, {n}, type);
      const Tensor bias = random_floats(random, {n}, type);
      std::vector<double> expected;
      for (std::int64_t row = 0; row < 3; ++row) {
        double mean = 0;
        double variance = 0;
        for (std::int64_t i = 0; i < n; ++i) mean += at(x, {row, i}) / static_cast<double>(n);
        for (std::int64_t i = 0; i < n; ++i)
          variance += std::pow(at(x, {row, i}) - mean, 2) / static_cast<double>(n);
        for (std::int64_t i = 0; i < n; ++i)
          expected.push_back((at(x, {row, i}) - mean) / std::sqrt(variance + 1e-5) *
                                 at(scale, {i}) +
                             at(bias, {i}));
      }
      check_close(run_node({"LayerNormalization", {}, {x, scale, bias}, {{type, {3, n}}}}).front(),
                  expected, 4);
    }
  }
}

TEST_CASE("RotaryEmbedding is made of factors alone that its kernel finds") {
  const auto serves = [](const Shape& x, const Shape& factor, DataType type, DataType of_factor) {
    const std::array<TensorView, 3> inputs{TensorView{type, x, nullptr},
                                           TensorView{of_factor, factor, nullptr},
                                           TensorView{of_factor, factor, nullptr}};
    const graph::Node node{"n", "RotaryEmbedding", "autopar.internal", {}, {}, {}};
    return cuda_operators().find(node.domain, node.op_type)->serves(node, inputs, {});
  };
  const DataType type = DataType::float32;
  CHECK(serves({1, 2, 4, 8}, {4, 8}, type, type));
  CHECK(serves({2, 2, 2, 2, 8}, {2, 1, 2, 1, 8}, type, type));
  CHECK_FALSE(serves({2, 2, 2, 2, 2, 8}, {2, 1, 2, 1, 2, 8}, type, type));
  CHECK_FALSE(serves({1, 2, 4, 8}, {4, 1}, type, type));
  CHECK_FALSE(serves({1, 2, 4, 8}, {}, type, type));
  CHECK_FALSE(serves({1, 2, 4, 8}, {4, 8}, type, DataType::float16));
  CHECK_FALSE(serves({1, 2, 4, 8}, {4, 8}, DataType::int32, DataType::int32));
}

TEST_CASE("RotaryEmbedding equals a loop however cosines are broadcast") {
  Random random(11);
  for (const DataType type : float_types) {
    for (const std::int64_t depth : {2, 6, 64}) {
      const Shape shape{2, 3, 5, depth};
      const Tensor x = random_floats(random, shape, type);
      for (const Shape& angle_shape :
           {Shape{1, 1, 5, depth}, Shape{2, 1, 5, depth}, Shape{5, depth}, Shape{2, 3, 1, depth}}) {
        const Tensor cos = random_floats(random, angle_shape, type);
        const Tensor sin = random_floats(random, angle_shape, type);
        std::vector<double> expected;
        for_each_index(shape, [&](const Shape& index) {
          Shape of_angle(index.end() - static_cast<std::ptrdiff_t>(angle_shape.size()),
                         index.end());
          for (std::size_t d = 0; d < of_angle.size(); ++d)
            if (angle_shape[d] == 1) of_angle[d] = 0;
          Shape other = index;
          const bool is_first = index.back() < depth / 2;
          other.back() += is_first ? depth / 2 : -depth / 2;
          expected.push_back(at(x, index) * at(cos, of_angle) +
                             (is_first ? -1 : 1) * at(x, other) * at(sin, of_angle));
        });
        NodeRun node{"RotaryEmbedding", {}, {x, cos, sin}, {{type, shape}}};
        node.domain = "autopar.internal";
        CAPTURE(name_of(type), angle_shape);
        check_close(run_node(node).front(), expected, 4);
      }
    }
  }
}

}  // namespace
}  // namespace autopar::runtime::testing
