// Quantised products on the emulated GPU: what cuBLASLt is asked for, and results that are computed
// in turns. Those of one turn are compared with loops where all devices' are.

#include <catch2/catch.hpp>

#include "emulation_cublaslt.h"
#include "unit/runtime/loops.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;

namespace {

/// What a run of the node asks cuBLASLt for.
std::vector<emulation::MatmulCall> calls_of(const NodeRun& node) {
  emulation::clear_matmul_calls();
  run_node(node);
  auto calls = emulation::matmul_calls();
  REQUIRE(calls.size() % 2 == 0);  // a run's, and its capture's
  calls.resize(calls.size() / 2);
  return calls;
}

}  // namespace

TEST_CASE("Many rows of bytes are one product of the library, few are not") {
  for (const std::int64_t rows : {31, 40}) {
    const auto calls = calls_of(
        {"MatMulInteger",
         {},
         {Tensor::zeros(DataType::uint8, {rows, 70}), Tensor::zeros(DataType::int8, {70, 33})},
         {{DataType::int32, {rows, 33}}}});
    REQUIRE(calls.size() == (rows == 40 ? 1 : 0));
    if (calls.empty()) continue;
    CHECK(calls[0].a_type == CUDA_R_8I);
    CHECK(calls[0].d_type == CUDA_R_32I);
    // The transposed product, padded to packs of 16.
    CHECK(std::tuple(calls[0].m, calls[0].n, calls[0].k) == std::tuple(48, 48, 80));
  }
}

TEST_CASE("A convolution of bytes is a product of the library for each group") {
  const auto calls = calls_of({"ConvInteger",
                               {{"group", std::int64_t{2}}},
                               {Tensor::zeros(DataType::int8, {3, 16, 9, 9}),
                                Tensor::zeros(DataType::uint8, {40, 8, 3, 3})},
                               {{DataType::int32, {3, 40, 7, 7}}}});
  REQUIRE(calls.size() == 2);
  for (const emulation::MatmulCall& call : calls)
    CHECK(std::tuple(call.m, call.n, call.k) == std::tuple(160, 32, 80));
}

TEST_CASE("Packed weights are unpacked for the library where rows are many") {
  for (const std::int64_t rows : {32, 33}) {
    NodeRun node{
        "MatMulNBits",
        {{"K", std::int64_t{64}},
         {"N", std::int64_t{48}},
         {"bits", std::int64_t{4}},
         {"block_size", std::int64_t{32}}},
        {Tensor::zeros(DataType::float16, {rows, 64}), Tensor::zeros(DataType::uint8, {48, 2, 16}),
         Tensor::zeros(DataType::float16, {48, 2})},
        {{DataType::float16, {rows, 48}}}};
    node.domain = "com.microsoft";
    CHECK(calls_of(node).size() == (rows == 33 ? 1 : 0));
  }
}

TEST_CASE("Products of bytes whose sums take several turns equal loops") {
  Random random(1);
  constexpr std::int64_t rows = 4096;
  constexpr std::int64_t depth = 64;
  constexpr std::int64_t columns = 4165;
  const Tensor a = random_in(DataType::uint8, {rows, depth}, random, 0, 256);
  const Tensor b = random_in(DataType::int8, {depth, columns}, random, -128, 128);
  const Tensor a_zero = random_in(DataType::uint8, {rows}, random, 0, 256);
  const Tensor b_zero = random_in(DataType::int8, {columns}, random, -128, 128);
  const NodeRun matmul{
      "MatMulInteger", {}, {a, b, a_zero, b_zero}, {{DataType::int32, {rows, columns}}}};
  REQUIRE(calls_of(matmul).size() == 2);
  const Tensor products = run_node(matmul).front();
  // As images of 64 channels and weights of 1 x 1, the same numbers.
  const auto x = Tensor::of(DataType::int8, {1, depth, 5, columns / 5}, b.values<std::int8_t>());
  const auto w = Tensor::of(DataType::uint8, {rows, depth, 1, 1}, a.values<std::uint8_t>());
  const Tensor x_zero = random_in(DataType::int8, {}, random, -128, 128);
  const NodeRun conv{
      "ConvInteger", {}, {x, w, x_zero, a_zero}, {{DataType::int32, {1, rows, 5, columns / 5}}}};
  REQUIRE(calls_of(conv).size() == 2);
  const Tensor convolved = run_node(conv).front();
  for (const std::int64_t row : {std::int64_t{0}, std::int64_t{1234}, rows - 1})
    for (std::int64_t column = 0; column < columns; ++column) {
      std::int32_t product = 0;
      std::int32_t sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        const int of_a = a.values<std::uint8_t>()[static_cast<std::size_t>(row * depth + k)] -
                         a_zero.values<std::uint8_t>()[static_cast<std::size_t>(row)];
        const int of_b = b.values<std::int8_t>()[static_cast<std::size_t>(k * columns + column)];
        product += of_a * (of_b - b_zero.values<std::int8_t>()[static_cast<std::size_t>(column)]);
        sum += of_a * (of_b - x_zero.values<std::int8_t>()[0]);
      }
      const auto i = static_cast<std::size_t>(row * columns + column);
      CAPTURE(row, column);
      REQUIRE(products.values<std::int32_t>()[i] == product);
      REQUIRE(convolved.values<std::int32_t>()[i] == sum);
    }
}

TEST_CASE("Products by weights that are unpacked in several turns equal loops") {
  Random random(2);
  constexpr std::int64_t depth = 65536;
  constexpr std::int64_t columns = 150;
  const auto node_of = [&](const Tensor& a, const Tensor& b, const Tensor& scales,
                           const Tensor& bias) {
    const std::int64_t rows = a.shape()[0];
    NodeRun node{"MatMulNBits",
                 {{"K", depth},
                  {"N", columns},
                  {"bits", std::int64_t{4}},
                  {"block_size", std::int64_t{1024}}},
                 {a, b, scales, std::nullopt, std::nullopt, bias},
                 {{DataType::float32, {rows, columns}}}};
    node.domain = "com.microsoft";
    return node;
  };
  const Tensor a = random_floats(random, {33, depth}, DataType::float32);
  const Tensor b = random_in(DataType::uint8, {columns, 64, 512}, random, 0, 256);
  const Tensor scales = random_floats(random, {columns, 64}, DataType::float32);
  const Tensor bias = random_floats(random, {columns}, DataType::float32);
  const NodeRun many = node_of(a, b, scales, bias);
  REQUIRE(calls_of(many).size() == 2);
  const Tensor results = run_node(many).front();
  for (const std::int64_t row : {0, 32})
    for (std::int64_t column = 0; column < columns; ++column) {
      double sum = number_at(bias, static_cast<std::size_t>(column));
      double magnitude = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        const int byte =
            b.values<std::uint8_t>()[static_cast<std::size_t>((column * depth + k) / 2)];
        const double product =
            a.values<float>()[static_cast<std::size_t>(row * depth + k)] *
            static_cast<double>(
                scales.values<float>()[static_cast<std::size_t>(column * 64 + k / 1024)]) *
            ((k % 2 == 0 ? byte % 16 : byte / 16) - 8);
        sum += product;
        magnitude += std::abs(product);
      }
      const double actual =
          results.values<float>()[static_cast<std::size_t>(row * columns + column)];
      CAPTURE(row, column);
      REQUIRE(std::abs(actual - sum) <= 2e-6 * magnitude);
    }
}
