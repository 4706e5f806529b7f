// Products, convolutions and reductions against loops in double.

#include <catch2/catch.hpp>

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

}  // namespace

TEST_CASE("MatMul equals a loop for all batches, sizes of zero included") {
  Random random(1);
  const auto size = [&] { return std::uniform_int_distribution<int>(0, 9)(random); };
  const std::vector<std::array<Shape, 3>> batches = {
      {Shape{}, Shape{}, Shape{}},          {Shape{3}, Shape{}, Shape{3}},
      {Shape{2, 3}, Shape{}, Shape{2, 3}},  {Shape{2, 3}, Shape{2, 3}, Shape{2, 3}},
      {Shape{2, 1}, Shape{3}, Shape{2, 3}}, {Shape{}, Shape{4}, Shape{4}}};
  for (int round = 0; round < 40; ++round) {
    for (const auto& [batch_a, batch_b, batch_out] : batches) {
      const std::int64_t m = size();
      const std::int64_t k = size();
      const std::int64_t n = size();
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

TEST_CASE("Gemm transposes, scales and adds C as it broadcasts") {
  Random random(3);
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      for (const Shape& c_shape : {Shape{6}, Shape{4, 6}, Shape{4, 1}, Shape{1}, Shape{}}) {
        for (const float alpha : {1.0F, 0.5F}) {
          const Tensor a = random_floats(random, transpose_a ? Shape{5, 4} : Shape{4, 5});
          const Tensor b = random_floats(random, transpose_b ? Shape{6, 5} : Shape{5, 6});
          const Tensor c = random_floats(random, c_shape);
          auto expected = matmul(a, b, {4, 6}, 5, transpose_a, transpose_b);
          std::size_t i = 0;
          for_each_index({4, 6}, [&](const Shape& index) {
            expected[i] = alpha * expected[i] + at(c, index);
            ++i;
          });
          check_close(run_floats({"Gemm",
                                  {{"transA", std::int64_t{transpose_a}},
                                   {"transB", std::int64_t{transpose_b}},
                                   {"alpha", alpha}},
                                  {a, b, c},
                                  {{DataType::float32, {4, 6}}}}),
                      expected);
        }
      }
    }
  }
}

TEST_CASE("integer MatMul is exact") {
  const std::vector<std::int64_t> a = {1, -2, 3, 1LL << 40, 5, 6};
  const std::vector<std::int64_t> b = {7, 8, 9, 10, 11, 12};
  const NodeRun node{"MatMul",
                     {},
                     {Tensor::of_int64({2, 3}, a), Tensor::of_int64({3, 2}, b)},
                     {{DataType::int64, {2, 2}}}};
  const graph::Graph graph = make_graph(node);
  Executable executable(graph, {});
  const Tensor out = run(executable, graph, {*node.inputs[0], *node.inputs[1]}).front();
  CHECK(out.to_int64s() == std::vector<std::int64_t>{7 - 18 + 33, 8 - 20 + 36,
                                                     (7LL << 40) + 45 + 66, (8LL << 40) + 50 + 72});
}

TEST_CASE("reductions over every set of dimensions equal a loop") {
  Random random(6);
  const Shape shape{2, 3, 4};
  const Tensor x = random_floats(random, shape);
  for (int set = 1; set < 8; ++set) {
    std::vector<std::int64_t> axes;
    Shape out = shape;
    for (std::size_t d = 0; d < 3; ++d) {
      if ((set >> d & 1) == 0) continue;
      axes.push_back(static_cast<std::int64_t>(d) - 3);
      out[d] = 1;
    }
    std::vector<double> sum(static_cast<std::size_t>(graph::num_elements(out)), 0);
    std::vector<double> largest(sum.size(), -1e30);
    for_each_index(shape, [&](const Shape& index) {
      std::size_t place = 0;
      for (std::size_t d = 0; d < 3; ++d) {
        place = place * static_cast<std::size_t>(out[d]) +
                static_cast<std::size_t>(out[d] == 1 ? 0 : index[d]);
      }
      sum[place] += at(x, index);
      largest[place] = std::max(largest[place], at(x, index));
    });
    std::vector<double> mean = sum;
    for (double& each : mean) each *= static_cast<double>(sum.size()) / 24.0;
    const Tensor axes_tensor = Tensor::of_int64({static_cast<std::int64_t>(axes.size())}, axes);
    const auto reduced = [&](const char* op_type) {
      return run_floats({op_type, {}, {x, axes_tensor}, {{DataType::float32, out}}, {1}});
    };
    check_close(reduced("ReduceSum"), sum);
    check_close(reduced("ReduceMean"), mean);
    check_close(reduced("ReduceMax"), largest);
  }
}

TEST_CASE("Conv with groups, strides, dilations and padding equals a loop") {
  Random random(7);
  for (const std::int64_t groups : {1, 2}) {
    const Tensor x = random_floats(random, {2, 4, 9, 8});
    const Tensor w = random_floats(random, {6, 4 / groups, 3, 2});
    const Tensor bias = random_floats(random, {6});
    const Shape out{2, 6, 4, 9};  // (9+1+2-5)/2+1, (8+1+1-2)/1+1
    std::vector<double> expected;
    for_each_index(out, [&](const Shape& o) {
      double sum = at(bias, {o[1]});
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
    check_close(run_floats({"Conv",
                            {{"group", groups},
                             {"strides", std::vector<std::int64_t>{2, 1}},
                             {"dilations", std::vector<std::int64_t>{2, 1}},
                             {"pads", std::vector<std::int64_t>{1, 1, 2, 1}}},
                            {x, w, bias},
                            {{DataType::float32, out}},
                            {1, 2}}),
                expected);
  }
}
