// Products and convolutions against loops in double.

#include <catch2/catch.hpp>

#include "runtime/passes/passes.h"
#include "unit/runtime/loops.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;
using graph::Range;
using Random = std::mt19937;

namespace {

/// A at rows and columns of the last two dimensions, with batches before them.
std::vector<double> matmul(const Tensor& a, const Tensor& b, const Shape& out, std::int64_t depth,
                           bool transpose_a, bool transpose_b) {
  std::vector<double> result;
  for_each_index(out, [&](const Shape& index) {
    const std::size_t n = index.size();
    double sum = 0;
    for (std::int64_t k = 0; k < depth; ++k) {
      Shape ia = index;
      Shape ib = index;
      ia[n - 1] = k;
      ib[n - 2] = k;
      if (transpose_a) std::swap(ia[n - 1], ia[n - 2]);
      if (transpose_b) std::swap(ib[n - 1], ib[n - 2]);
      sum += at(a, ia) * at(b, ib);
    }
    result.push_back(sum);
  });
  return result;
}

std::vector<DataType> product_types() {
  std::vector<DataType> types = float_types;
  types.insert(types.end(), {DataType::int32, DataType::int64, DataType::uint32, DataType::uint64});
  return types;
}

}  // namespace

TEST_CASE("MatMul equals a loop for all batches, sizes of zero included") {
  Random random(1);
  const auto size_up_to = [&](int most) {
    return std::uniform_int_distribution<int>(0, most)(random);
  };
  const std::vector<std::array<Shape, 3>> batches = {
      {Shape{}, Shape{}, Shape{}},          {Shape{3}, Shape{}, Shape{3}},
      {Shape{2, 3}, Shape{}, Shape{2, 3}},  {Shape{2, 3}, Shape{2, 3}, Shape{2, 3}},
      {Shape{2, 1}, Shape{3}, Shape{2, 3}}, {Shape{}, Shape{4}, Shape{4}}};
  for (int round = 0; round < 48; ++round) {
    const int most = round < 40 ? 9 : 160;  // kernels for small matrices, and for all
    for (const auto& [batch_a, batch_b, batch_out] : batches) {
      const std::int64_t m = size_up_to(most);
      const std::int64_t k = size_up_to(most);
      const std::int64_t n = size_up_to(most);
      const auto joined = [](Shape batch, std::int64_t rows, std::int64_t columns) {
        batch.push_back(rows);
        batch.push_back(columns);
        return batch;
      };
      const Tensor a = random_floats(random, joined(batch_a, m, k));
      const Tensor b = random_floats(random, joined(batch_b, k, n));
      const Shape out = joined(batch_out, m, n);
      for (const int threads : {1, 2}) {
        check_close(run_floats({.op_type = "MatMul",
                                .attributes = {},
                                .inputs = {a, b},
                                .outputs = {{DataType::float32, out}},
                                .threads = threads}),
                    matmul(a, b, out, k, false, false));
      }
    }
  }
}

TEST_CASE("weights that are brought into another layout once serve all runs, in any form") {
  Random random(2);
  for (const auto& [batch, m, k, n] : std::vector<std::array<std::int64_t, 4>>{{2, 1, 64, 64},
                                                                               {1, 1, 64, 64},
                                                                               {1, 1, 100, 36},
                                                                               {1, 1, 1100, 2100},
                                                                               {1, 1, 600, 480},
                                                                               {1, 1, 64, 172},
                                                                               {1, 6, 64, 172},
                                                                               {1, 13, 7, 509},
                                                                               {1, 97, 130, 60},
                                                                               {1, 2, 64, 72},
                                                                               {2, 7, 64, 128},
                                                                               {2, 40, 100, 37},
                                                                               {2, 128, 512, 256},
                                                                               {2, 3, 128, 1},
                                                                               {2, 65, 1, 64},
                                                                               {2, 2, 1100, 2100},
                                                                               {2, 2, 70, 40000}}) {
    for (const bool transposed : {false, true}) {
      const Tensor a = random_floats(random, {batch, m, k});
      const Tensor b = random_floats(random, transposed ? Shape{n, k} : Shape{k, n});
      const Tensor row = random_floats(random, {n});
      const std::vector<double> bias = doubles(row);
      const auto expected = matmul(a, b, {batch, m, n}, k, false, transposed);
      const double largest =
          std::fabs(std::ranges::max(expected, {}, [](double x) { return std::fabs(x); }));
      for (const bool has_bias : {false, true}) {
        NodeRun node{"FusedMatMul", {}, {a, b}, {{DataType::float32, {batch, m, n}}}, {1}};
        node.domain = passes::internal_domain;
        if (transposed) node.attributes["transB"] = std::int64_t{1};
        if (has_bias) node.inputs.push_back(row);
        if (has_bias) node.constants.push_back(2);
        graph::Graph graph = make_graph(node);
        for (const bool is_read_twice : {false, true}) {
          if (is_read_twice) {  // it stays as it is for the other
            graph.nodes.push_back({"again", "Neg", "", {graph.nodes[0].inputs[1]}, {}, {}});
            graph.nodes[1].outputs = {
                graph.add_value({"neg", DataType::float32, b.shape(), std::nullopt})};
            graph.outputs.push_back(graph.nodes[1].outputs[0]);
          }
          Executable executable(graph, {.threads = 2, .device = device_under_test()});
          for (int run = 0; run < 2; ++run) {
            const std::vector<double> found = doubles(testing::run(executable, graph, {a})[0]);
            double error = 0;
            for (std::size_t i = 0; i < found.size(); ++i) {
              const double added = has_bias ? bias[i % static_cast<std::size_t>(n)] : 0;
              error = std::max(error, std::fabs(found[i] - added - expected[i]));
            }
            CHECK(error < 1e-5 * largest);
          }
          if (is_read_twice) CHECK(doubles(executable.read_output(1))[0] == -doubles(b)[0]);
        }
      }
    }
  }
}

TEST_CASE("products whose first matrix lies column by column equal loops") {
  Random random(7);
  for (const auto& [batch, m, k, n] : std::vector<std::array<std::int64_t, 4>>{{1, 1, 1, 1},
                                                                               {1, 8, 96, 8},
                                                                               {1, 300, 96, 80},
                                                                               {3, 33, 5, 19},
                                                                               {2, 70, 256, 30},
                                                                               {2, 70, 256, 37},
                                                                               {1, 31, 257, 16}}) {
    const Tensor a = random_floats(random, {batch, k, m});
    const Tensor b = random_floats(random, {batch, k, n});
    const Tensor bias = random_floats(random, {n});
    for (const bool has_bias : {false, true}) {
      NodeRun node{.op_type = "FusedMatMul",
                   .attributes = {{"a_perm", std::vector<std::int64_t>{0, 2, 1}}},
                   .inputs = {a, b},
                   .outputs = {{DataType::float32, {batch, m, n}}},
                   .threads = 2,
                   .domain = passes::internal_domain};
      if (has_bias) node.inputs.push_back(bias);
      std::vector<double> expected = matmul(a, b, {batch, m, n}, k, true, false);
      for (std::size_t i = 0; has_bias && i < expected.size(); ++i)
        expected[i] += number_at(bias, i % static_cast<std::size_t>(n));
      CAPTURE(batch, m, k, n, has_bias);
      check_close(run_floats(node), expected);
    }
  }
}

TEST_CASE("a product of depth 1 whose first matrix is read as transposed equals a loop") {
  Random random(1);
  const Tensor a = random_floats(random, {3, 1, 8});
  const Tensor b = random_floats(random, {1, 3});
  const Tensor out = run_node({.op_type = "FusedMatMul",
                               .attributes = {{"a_perm", std::vector<std::int64_t>{0, 2, 1}}},
                               .inputs = {a, b},
                               .outputs = {{DataType::float32, {3, 8, 3}}},
                               .domain = passes::internal_domain})
                         .front();
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t m = 0; m < 8; ++m) {
      for (std::int64_t n = 0; n < 3; ++n)
        CHECK(at(out, {i, m, n}) == Approx(at(a, {i, 0, m}) * at(b, {0, n})));
    }
  }
}

TEST_CASE("MatMul of vectors drops their dimension") {
  Random random(2);
  const Tensor vector = random_floats(random, {5});
  const Tensor matrix = random_floats(random, {5, 3});
  const auto row = run_floats({"MatMul", {}, {vector, matrix}, {{DataType::float32, {3}}}});
  check_close(row, matmul(vector.reshaped({1, 5}), matrix, {1, 3}, 5, false, false));
  const auto dot = run_floats({"MatMul", {}, {vector, vector}, {{DataType::float32, {}}}});
  check_close(dot,
              matmul(vector.reshaped({1, 5}), vector.reshaped({5, 1}), {1, 1}, 5, false, false));
}

TEST_CASE("MatMul of every type that ONNX allows equals a loop, integers exactly") {
  Random random(8);
  for (const DataType type : product_types()) {
    for (const Shape& batch : {Shape{}, Shape{2}, Shape{2, 3}}) {
      Shape a_shape = batch;
      a_shape.insert(a_shape.end(), {4, 5});
      Shape out = batch;
      out.insert(out.end(), {4, 6});
      const Tensor a = random_in(type, a_shape, random, 0, 9);
      const Tensor b = random_in(type, {5, 6}, random, 0, 9);
      check_close(run_node({"MatMul", {}, {a, b}, {{type, out}}}).front(),
                  matmul(a, b, out, 5, false, false), 5 * 81);
    }
  }
}

TEST_CASE("Gemm of every type transposes, scales and adds C as it broadcasts") {
  Random random(3);
  const std::vector<std::optional<Shape>> c_shapes = {
      std::nullopt, Shape{6}, Shape{4, 6}, Shape{4, 1}, Shape{1, 6}, Shape{1}, Shape{}};
  for (const DataType type : product_types()) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const std::optional<Shape>& c_shape : c_shapes) {
          for (const auto& [alpha, beta] :
               {std::pair{1.0F, 1.0F}, std::pair{2.0F, 1.0F}, std::pair{1.0F, 0.5F},
                std::pair{0.5F, 2.0F}, std::pair{1.0F, 0.0F}}) {
            for (const std::int64_t depth : {5, 0}) {
              const Tensor a =
                  random_in(type, transpose_a ? Shape{depth, 4} : Shape{4, depth}, random, 0, 9);
              const Tensor b =
                  random_in(type, transpose_b ? Shape{6, depth} : Shape{depth, 6}, random, 0, 9);
              NodeRun node{"Gemm",
                           {{"transA", std::int64_t{transpose_a}},
                            {"transB", std::int64_t{transpose_b}},
                            {"alpha", alpha},
                            {"beta", beta}},
                           {a, b},
                           {{type, {4, 6}}}};
              auto expected = matmul(a, b, {4, 6}, depth, transpose_a, transpose_b);
              for (double& each : expected) each *= alpha;
              if (c_shape) {
                const Tensor c = random_in(type, *c_shape, random, 0, 9);
                node.inputs.emplace_back(c);
                for_each_index({4, 6},
                               [&, by = beta, i = std::size_t{0}](const Shape& index) mutable {
                                 expected[i++] += by * at(c, index);
                               });
              }
              if (!graph::is_floating_point(type))
                for (double& each : expected) each = std::trunc(each);
              check_close(run_node(node).front(), expected, 2 * 5 * 81);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("Gemm of half types scales before it rounds") {
  const Tensor a = tensor_of(DataType::float16, {1, 1}, {60000});
  const Tensor b = tensor_of(DataType::float16, {1, 1}, {4});
  const Tensor out =
      run_node({"Gemm", {{"alpha", 0.125F}}, {a, b}, {{DataType::float16, {1, 1}}}}).front();
  CHECK(number_at(out, 0) == 30000);
}

TEST_CASE("integer MatMul is exact beyond what a double holds, and wraps around") {
  const auto product = [](DataType type, const Tensor& a, const Tensor& b) {
    return run_node({"MatMul", {}, {a, b}, {{type, {1, 1}}}}).front().to_int64s();
  };
  const Tensor large = Tensor::of_int64({1, 2}, std::vector<std::int64_t>{1LL << 60, 1});
  const Tensor small = Tensor::of_int64({2, 1}, std::vector<std::int64_t>{3, 1});
  CHECK(product(DataType::int64, large, small) == std::vector<std::int64_t>{(3LL << 60) + 1});
  const Tensor most = tensor_of(DataType::int32, {1, 1}, {2147483647});
  const Tensor two = tensor_of(DataType::int32, {1, 1}, {2});
  CHECK(product(DataType::int32, most, two) == std::vector<std::int64_t>{-2});
}

TEST_CASE("Conv of every type with groups, strides, dilations and padding equals a loop") {
  Random random(7);
  for (const DataType type : float_types) {
    for (const std::int64_t groups : {1, 2}) {
      for (const bool has_bias : {false, true}) {
        const Tensor x = random_floats(random, {2, 4, 9, 8}, type);
        const Tensor w = random_floats(random, {6, 4 / groups, 3, 2}, type);
        const Tensor bias = random_floats(random, {6}, type);
        const Shape out{2, 6, 4, 9};  // (9+1+2-5)/2+1, (8+1+1-2)/1+1
        std::vector<double> expected;
        for_each_index(out, [&](const Shape& o) {
          double sum = has_bias ? at(bias, {o[1]}) : 0;
          const std::int64_t group = o[1] / (6 / groups);
          for_each_index({4 / groups, 3, 2}, [&](const Shape& k) {
            const std::int64_t row = o[2] * 2 - 1 + k[1] * 2;
            const std::int64_t column = o[3] - 1 + k[2];
            if (row < 0 || row >= 9 || column < 0 || column >= 8) return;
            sum += at(x, {o[0], group * (4 / groups) + k[0], row, column}) *
                   at(w, {o[1], k[0], k[1], k[2]});
          });
          expected.push_back(sum);
        });
        NodeRun node{"Conv",
                     {{"group", groups},
                      {"strides", std::vector<std::int64_t>{2, 1}},
                      {"dilations", std::vector<std::int64_t>{2, 1}},
                      {"pads", std::vector<std::int64_t>{1, 1, 2, 1}}},
                     {x, w},
                     {{type, out}},
                     {1}};
        if (has_bias) node.inputs.emplace_back(bias);
        check_close(run_node(node).front(), expected, 24);
      }
    }
  }
}

TEST_CASE("Conv by windows much wider than its images equals a loop") {
  Random random(9);
  const auto pick = [&](std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(random);
  };
  int tried = 0;
  while (tried < 150) {
    const std::int64_t groups = pick(1, 2);
    const Shape in{1, 8 * groups, pick(1, 9), pick(1, 9)};
    const Shape taps{pick(1, 4), pick(1, 4)};
    std::vector<std::int64_t> strides{pick(1, 3), pick(1, 3)};
    std::vector<std::int64_t> dilations{pick(1, 12), pick(1, 12)};
    std::vector<std::int64_t> pads{pick(0, 13), pick(0, 13), pick(0, 13), pick(0, 13)};
    Shape out{1, 8 * groups};
    for (std::size_t d = 0; d < 2; ++d) {
      const std::int64_t window = (taps[d] - 1) * dilations[d] + 1;
      out.push_back((in[d + 2] + pads[d] + pads[d + 2] - window + strides[d]) / strides[d]);
    }
    if (std::ranges::any_of(out, [](std::int64_t extent) { return extent < 1; })) continue;
    ++tried;
    CAPTURE(graph::to_string(in), graph::to_string(taps), strides, dilations, pads, groups);
    const Tensor x = random_floats(random, in);
    const Tensor w = random_floats(random, {8 * groups, 8, taps[0], taps[1]});
    std::vector<double> expected;
    for_each_index(out, [&](const Shape& o) {
      double sum = 0;
      for_each_index({8, taps[0], taps[1]}, [&](const Shape& k) {
        const std::int64_t row = o[2] * strides[0] - pads[0] + k[1] * dilations[0];
        const std::int64_t column = o[3] * strides[1] - pads[1] + k[2] * dilations[1];
        if (row < 0 || row >= in[2] || column < 0 || column >= in[3]) return;
        sum += at(x, {0, o[1] / 8 * 8 + k[0], row, column}) * at(w, {o[1], k[0], k[1], k[2]});
      });
      expected.push_back(sum);
    });
    NodeRun node{
        "Conv",
        {{"group", groups}, {"strides", strides}, {"dilations", dilations}, {"pads", pads}},
        {x, w},
        {{DataType::float32, out}}};
    for (const bool is_constant : {false, true}) {
      if (is_constant) node.constants = {1};
      check_close(run_node(node).front(), expected, 40);
    }
  }
}

TEST_CASE("Conv along one and three dimensions, padded to the same size, equals a loop") {
  for (const DataType type : float_types) {
    const Tensor line = tensor_of(type, {1, 1, 4}, {1, 2, 3, 4});
    const Tensor pair = tensor_of(type, {1, 1, 2}, {1, 10});
    const NodeRun upper{
        "Conv", {{"auto_pad", std::string("SAME_UPPER")}}, {line, pair}, {{type, {1, 1, 4}}}};
    CHECK(doubles(run_node(upper).front()) == std::vector<double>{21, 32, 43, 4});
    const Tensor cube = tensor_of(type, {1, 1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
    const NodeRun whole{"Conv", {}, {cube, cube}, {{type, {1, 1, 1, 1, 1}}}};
    CHECK(doubles(run_node(whole).front()) == std::vector<double>{204});
  }
}

TEST_CASE("Conv without input channels is its bias, and without images nothing") {
  for (const DataType type : float_types) {
    const Tensor bias = tensor_of(type, {2}, {3, 4});
    const NodeRun no_channels{
        "Conv",
        {},
        {Tensor::zeros(type, {1, 0, 3}), Tensor::zeros(type, {2, 0, 2}), bias},
        {{type, {1, 2, 2}}}};
    CHECK(doubles(run_node(no_channels).front()) == std::vector<double>{3, 3, 4, 4});
    const NodeRun no_images{"Conv",
                            {},
                            {Tensor::zeros(type, {0, 1, 3}), Tensor::zeros(type, {2, 1, 2}), bias},
                            {{type, {0, 2, 2}}}};
    CHECK(run_node(no_images).front().elements() == 0);
  }
}

TEST_CASE("A product of a type that ONNX does not allow is an error that names the node") {
  const Tensor a = Tensor::zeros(DataType::int8, {1, 1, 1});
  for (const char* op_type : {"MatMul", "Conv"}) {
    CHECK_THROWS_WITH(run_node({op_type, {}, {a, a}, {{DataType::int8, {1, 1, 1}}}}),
                      Catch::Contains("the_node") && Catch::Contains("int8"));
  }
}
