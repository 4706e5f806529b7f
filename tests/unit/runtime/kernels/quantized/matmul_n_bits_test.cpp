// MatMulNBits against a loop in double.

#include "unit/runtime/loops.h"

namespace autopar::runtime::testing {
namespace {

struct Form {
  Shape leading = {3};
  std::int64_t depth = 32;
  std::int64_t columns = 5;
  std::int64_t block = 16;
  std::int64_t bits = 4;
  int zeros = 0;  ///< none, packed, numbers
  bool bias = false;
  DataType type = DataType::float32;
  int threads = 1;
};

std::int64_t number_of(const Tensor& bytes, std::int64_t row_bytes, std::int64_t row,
                       std::int64_t i, std::int64_t bits) {
  const auto byte = static_cast<std::int64_t>(
      number_at(bytes, static_cast<std::size_t>(row * row_bytes + i * bits / 8)));
  return byte / (std::int64_t{1} << (i * bits % 8)) % (std::int64_t{1} << bits);
}

void check_form(const Form& of, Random& random) {
  const std::int64_t blocks = (of.depth + of.block - 1) / of.block;
  const std::int64_t block_bytes = of.block * of.bits / 8;
  const std::int64_t zero_bytes = (blocks * of.bits + 7) / 8;
  Shape in = of.leading;
  in.push_back(of.depth);
  Shape out = of.leading;
  out.push_back(of.columns);
  const Tensor a = random_floats(random, in, of.type);
  const Tensor b =
      random_in(DataType::uint8, {of.columns, blocks, block_bytes}, random, 0, 255.999);
  const Tensor scales = random_floats(random, {of.columns, blocks}, of.type);
  const Tensor zeros = of.zeros == 1
                           ? random_in(DataType::uint8, {of.columns, zero_bytes}, random, 0, 255.9)
                           : random_floats(random, {of.columns, blocks}, of.type);
  const Tensor bias = random_floats(random, {of.columns}, of.type);
  std::vector<double> expected;
  double magnitude = 1;
  double largest = 0;  // sum of products without their signs
  for (std::int64_t m = 0; m < graph::num_elements(of.leading); ++m)
    for (std::int64_t n = 0; n < of.columns; ++n) {
      double sum = of.bias ? number_at(bias, static_cast<std::size_t>(n)) : 0;
      double absolute = 0;
      double unsigned_sum = 0;
      for (std::int64_t k = 0; k < of.depth; ++k) {
        const std::int64_t block = k / of.block;
        const double zero =
            of.zeros == 0   ? std::pow(2, of.bits - 1)
            : of.zeros == 1 ? static_cast<double>(number_of(zeros, zero_bytes, n, block, of.bits))
                            : at(zeros, {n, block});
        const auto q = static_cast<double>(number_of(b, blocks * block_bytes, n, k, of.bits));
        const double x = number_at(a, static_cast<std::size_t>(m * of.depth + k));
        sum += x * at(scales, {n, block}) * (q - zero);
        absolute += std::abs(x * at(scales, {n, block}) * std::max(q, zero));
        unsigned_sum += std::abs(x * at(scales, {n, block}) * (q - zero));
      }
      expected.push_back(sum);
      magnitude = std::max(magnitude, absolute);
      largest = std::max(largest, unsigned_sum);
    }
  // For many rows weights may first become numbers of the type, each by half a unit of its last
  // place wrong: a twelfth of what check_close allows.
  const bool may_round_weights = graph::num_elements(of.leading) > 32;
  if (of.type != DataType::float32) magnitude = may_round_weights ? 1 + largest / 12 : 1;
  NodeRun node{"MatMulNBits",
               {{"K", of.depth}, {"N", of.columns}, {"bits", of.bits}, {"block_size", of.block}},
               {a, b, scales},
               {{of.type, out}}};
  node.domain = "com.microsoft";
  node.threads = of.threads;
  node.inputs.resize(of.bias ? 6 : of.zeros > 0 ? 4 : 3);
  if (of.zeros > 0) node.inputs[3] = zeros;
  if (of.bias) node.inputs[5] = bias;
  CAPTURE(name_of(of.type), of.leading, of.depth, of.columns, of.block, of.bits, of.zeros, of.bias);
  check_close(run_node(node).front(), expected, magnitude);
}

TEST_CASE("MatMulNBits of every width, block and kind of zero point equals a loop") {
  Random random(71);
  for (const std::int64_t bits : {2, 4, 8})
    for (const std::int64_t block : {16, 32, 128})
      for (const int zeros : {0, 1, 2})
        for (const std::int64_t rows : {1, 3, 9})
          check_form({.leading = {rows},
                      .depth = 96,
                      .columns = 7,
                      .block = block,
                      .bits = bits,
                      .zeros = zeros,
                      .bias = rows == 3},
                     random);
}

TEST_CASE("MatMulNBits of many blocks, whose zero points are read in lanes, equals a loop") {
  Random random(70);
  for (const std::int64_t bits : {2, 4, 8})
    for (const int zeros : {0, 1, 2})
      for (const std::int64_t blocks : {8, 21, 32, 47})
        check_form({.leading = {blocks == 21 ? 2 : 1},
                    .depth = blocks * 16 - 3,
                    .columns = 5,
                    .block = 16,
                    .bits = bits,
                    .zeros = zeros},
                   random);
}

TEST_CASE("MatMulNBits of many columns, a depth of many tiles or not of whole blocks") {
  Random random(72);
  for (const std::int64_t rows : {1, 6}) {
    check_form({.leading = {rows}, .depth = 2100, .columns = 130, .block = 32, .threads = 3},
               random);
    check_form({.leading = {2, rows}, .depth = 50, .columns = 66, .zeros = 1, .bias = true},
               random);
    check_form({.leading = {rows}, .depth = 41, .bits = 8, .threads = 2}, random);
  }
  check_form({.leading = {0}}, random);
}

TEST_CASE("MatMulNBits of half types, and of blocks of two bytes, equals a loop") {
  Random random(73);
  check_form({.block = 8, .bits = 2, .zeros = 1}, random);
  for (const DataType type : {DataType::float16, DataType::bfloat16})
    for (const std::int64_t rows : {2, 7})
      for (const std::int64_t bits : {2, 4, 8})
        check_form({.leading = {rows},
                    .block = bits == 2 ? 8 : 16,
                    .bits = bits,
                    .zeros = 2,
                    .bias = true,
                    .type = type},
                   random);
}

TEST_CASE("MatMulNBits of few rows of half types and 4 bits equals a loop") {
  Random random(74);
  for (const DataType type : {DataType::float16, DataType::bfloat16})
    for (const std::int64_t rows : {1, 8, 11, 32}) {
      // Less than a stretch of weights, and columns that fill no tile.
      check_form({.leading = {rows}, .depth = 24, .columns = 3, .block = 32, .type = type}, random);
      check_form({.leading = {rows},
                  .depth = 200,
                  .columns = 21,
                  .block = 64,
                  .zeros = 1,
                  .bias = true,
                  .type = type},
                 random);
    }
  // Each warp has more chunks than it copies at once; a block of weights has several.
  for (const std::int64_t block : {32, 96, 256})
    check_form({.leading = {1},
                .depth = 5152,
                .columns = 16,
                .block = block,
                .zeros = 1,
                .type = DataType::float16},
               random);
}

TEST_CASE("MatMulNBits of many rows equals a loop") {
  Random random(75);
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16})
    for (const std::int64_t bits : {2, 4, 8})
      check_form({.leading = {5, 7},
                  .depth = 41,
                  .columns = 19,
                  .bits = bits,
                  .zeros = static_cast<int>(bits / 4),
                  .bias = bits == 4,
                  .type = type},
                 random);
}

TEST_CASE("MatMulNBits whose weights do not fit is an error that names the node") {
  NodeRun node{
      "MatMulNBits",
      {{"K", std::int64_t{32}},
       {"N", std::int64_t{4}},
       {"bits", std::int64_t{4}},
       {"block_size", std::int64_t{16}}},
      {Tensor::zeros(DataType::float32, {2, 32}), Tensor::zeros(DataType::uint8, {4, 1, 8}),
       Tensor::zeros(DataType::float32, {4, 2})},
      {{DataType::float32, {2, 4}}}};
  node.domain = "com.microsoft";
  CHECK_THROWS_WITH(run_node(node), Catch::Contains("the_node"));
}

}  // namespace
}  // namespace autopar::runtime::testing
