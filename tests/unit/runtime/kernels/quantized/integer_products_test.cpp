// Products of 8-bit integers against loops.

#include "runtime/passes/matcher.h"
#include "runtime/passes/passes.h"
#include "unit/runtime/loops.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;

namespace {

struct Operands {
  Shape a;
  Shape b;
  Shape out;
};
const std::vector<Operands> operand_shapes = {{{3, 5}, {5, 4}, {3, 4}},
                                              {{1, 1}, {1, 1}, {1, 1}},
                                              {{33, 70}, {70, 40}, {33, 40}},
                                              {{2, 20, 150}, {150, 65}, {2, 20, 65}},
                                              {{2, 3, 5}, {5, 4}, {2, 3, 4}},
                                              {{2, 3, 5}, {2, 5, 4}, {2, 3, 4}},
                                              {{2, 20, 5}, {2, 5, 4}, {2, 20, 4}},
                                              {{2, 1, 3, 5}, {4, 5, 6}, {2, 4, 3, 6}},
                                              {{5}, {5, 4}, {4}},
                                              {{3, 5}, {5}, {3}},
                                              {{0, 5}, {5, 4}, {0, 4}},
                                              {{3, 0}, {0, 4}, {3, 4}}};

Tensor random_bytes(Random& random, DataType type, const Shape& shape) {
  return type == DataType::int8 ? random_in(type, shape, random, -128, 128)
                                : random_in(type, shape, random, 0, 256);
}

/// Weights of which few are so large that the sum of two products by 255 does not fit 16 bits: of
/// each `distance`, two that follow one another.
Tensor rarely_large(Random& random, DataType type, const Shape& shape, std::size_t distance) {
  const double middle = type == DataType::uint8 ? 128 : 0;
  std::vector<double> weights;
  for (std::int64_t i = 0; i < graph::num_elements(shape); ++i)
    weights.push_back(middle + static_cast<double>(random() % 129) - 64);
  for (std::size_t i = 0; i + 1 < weights.size(); i += distance)
    weights[i] = weights[i + 1] = middle + (random() % 2 == 0 ? 127 : -128);
  return tensor_of(type, shape, weights);
}

/// The value of a tensor's element at an index of the result, aligned at the right.
double zero_at(const std::optional<Tensor>& zero, std::int64_t place) {
  if (!zero) return 0;
  return number_at(*zero, static_cast<std::size_t>(zero->elements() == 1 ? 0 : place));
}

/// (A - a_zero) (B - b_zero) for matrices of at least two dimensions; vectors are made such.
std::vector<double> product(const Tensor& a, const Tensor& b, const std::optional<Tensor>& a_zero,
                            const std::optional<Tensor>& b_zero, const Shape& out) {
  Shape a_shape = a.shape();
  Shape b_shape = b.shape();
  Shape shape = out;
  if (a_shape.size() == 1) {
    a_shape.insert(a_shape.begin(), 1);
    shape.insert(shape.end() - 1, 1);
  }
  if (b_shape.size() == 1) {
    b_shape.push_back(1);
    shape.push_back(1);
  }
  const Tensor left = a.reshaped(a_shape);
  const Tensor right = b.reshaped(b_shape);
  std::vector<double> result;
  for_each_index(shape, [&](const Shape& index) {
    double sum = 0;
    for (std::int64_t k = 0; k < a_shape.back(); ++k) {
      Shape i = index;
      i.back() = k;
      Shape j = index;
      j[j.size() - 2] = k;
      sum += (at(left, i) - zero_at(a_zero, index[index.size() - 2])) *
             (at(right, j) - zero_at(b_zero, index.back()));
    }
    result.push_back(sum);
  });
  return result;
}

/// The numbers of matrices of this shape with rows and columns swapped.
std::vector<double> transposed(const std::vector<double>& numbers, const Shape& shape) {
  const auto rows = static_cast<std::size_t>(shape[shape.size() - 2]);
  const auto columns = static_cast<std::size_t>(shape.back());
  std::vector<double> result(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::size_t in_matrix = i % (rows * columns);
    result[i - in_matrix + in_matrix % columns * rows + in_matrix / columns] = numbers[i];
  }
  return result;
}

}  // namespace

TEST_CASE("MatMulInteger of signed and unsigned bytes, with zero points of each kind") {
  Random random(1);
  for (const Operands& shapes : operand_shapes)
    for (const DataType a_type : {DataType::int8, DataType::uint8})
      for (const DataType b_type : {DataType::int8, DataType::uint8})
        for (const int zeros : {0, 1, 2, 3}) {
          const bool has_matrices = shapes.a.size() >= 2 && shapes.b.size() >= 2;
          if (zeros == 3 && !has_matrices) continue;
          const Tensor a = random_bytes(random, a_type, shapes.a);
          const Tensor b = random_bytes(random, b_type, shapes.b);
          std::optional<Tensor> a_zero;
          std::optional<Tensor> b_zero;
          if (zeros & 1) a_zero = random_bytes(random, a_type, {});
          if (zeros & 2) b_zero = random_bytes(random, b_type, {});
          if (zeros == 3) {
            a_zero = random_bytes(random, a_type, {shapes.a[shapes.a.size() - 2]});
            b_zero = random_bytes(random, b_type, {shapes.b.back()});
          }
          for (const bool is_constant : {false, true}) {
            if (is_constant && b.elements() == 0) continue;
            NodeRun run{
                "MatMulInteger", {}, {a, b, a_zero, b_zero}, {{DataType::int32, shapes.out}}};
            if (is_constant) run.constants = {1};
            CAPTURE(graph::to_string(shapes.a), graph::to_string(shapes.b), name_of(a_type),
                    name_of(b_type), zeros, is_constant);
            REQUIRE(doubles(run_node(run).front()) == product(a, b, a_zero, b_zero, shapes.out));
          }
        }
}

TEST_CASE("MatMulInteger of stacks with zero points for each row and column of each matrix") {
  Random random(6);
  const Tensor a = random_bytes(random, DataType::uint8, {2, 3, 5});
  const Tensor b = random_bytes(random, DataType::int8, {2, 5, 20});
  const Tensor a_zero = random_bytes(random, DataType::uint8, {2, 3, 1});
  const Tensor b_zero = random_bytes(random, DataType::int8, {2, 1, 20});
  std::vector<double> expected;
  for_each_index({2, 3, 20}, [&](const Shape& index) {
    double sum = 0;
    for (std::int64_t k = 0; k < 5; ++k)
      sum += (at(a, {index[0], index[1], k}) - at(a_zero, {index[0], index[1], 0})) *
             (at(b, {index[0], k, index[2]}) - at(b_zero, {index[0], 0, index[2]}));
    expected.push_back(sum);
  });
  for (const bool is_constant : {false, true}) {
    NodeRun run{"MatMulInteger", {}, {a, b, a_zero, b_zero}, {{DataType::int32, {2, 3, 20}}}};
    if (is_constant) run.constants = {1};
    CHECK(doubles(run_node(run).front()) == expected);
  }
}

TEST_CASE("MatMulInteger of the largest bytes by weights of which few are large") {
  Random random(5);
  const std::vector<Operands> shapes = {{{13, 64}, {64, 16}, {13, 16}},
                                        {{1, 130}, {130, 50}, {1, 50}},
                                        {{40, 515}, {515, 33}, {40, 33}},
                                        {{2, 7, 66}, {2, 66, 20}, {2, 7, 20}}};
  for (const Operands& of : shapes)
    for (const DataType a_type : {DataType::int8, DataType::uint8})
      for (const DataType b_type : {DataType::int8, DataType::uint8})
        for (const bool is_largest : {false, true})
          for (const bool is_along_columns : {false, true}) {
            const double largest = a_type == DataType::int8 ? 127 : 255;
            const std::vector<double> all(static_cast<std::size_t>(graph::num_elements(of.a)),
                                          largest);
            const Tensor a =
                is_largest ? tensor_of(a_type, of.a, all) : random_bytes(random, a_type, of.a);
            // Two that follow one another along the depth, which is the last dimension but one.
            Shape swapped = of.b;
            std::swap(swapped[swapped.size() - 2], swapped.back());
            const Tensor rows = rarely_large(random, b_type, swapped, 400);
            const Tensor b = is_along_columns
                                 ? rarely_large(random, b_type, of.b, 400)
                                 : tensor_of(b_type, of.b, transposed(doubles(rows), swapped));
            const Tensor a_zero = random_bytes(random, a_type, {});
            const Tensor b_zero = random_bytes(random, b_type, {});
            const NodeRun run{
                "MatMulInteger", {}, {a, b, a_zero, b_zero}, {{DataType::int32, of.out}}, {1}};
            CAPTURE(graph::to_string(of.a), name_of(a_type), name_of(b_type), is_largest,
                    is_along_columns);
            REQUIRE(doubles(run_node(run).front()) == product(a, b, a_zero, b_zero, of.out));
          }
}

/// Whether the device has kernels that the compiler would take for the only node.
bool is_served(const NodeRun& run) {
  const auto& kernels = device_under_test() ? device_under_test()->kernels() : cpu_kernels();
  const KernelEntry* entry = kernels.find(run.domain, run.op_type);
  if (entry == nullptr || entry->serves == nullptr) return entry != nullptr;
  const graph::Graph graph = make_graph(run);
  const graph::Node& node = graph.nodes.front();
  std::vector<TensorView> inputs;
  std::vector<TensorView> outputs;
  for (const graph::ValueId id : node.inputs) inputs.push_back(passes::view_of(graph, id));
  for (const graph::ValueId id : node.outputs) outputs.push_back(passes::view_of(graph, id));
  return entry->serves(node, inputs, outputs);
}

TEST_CASE("QuantizedMatMul scales exact sums, by one number or one a column") {
  Random random(4);
  for (const Operands& shapes : operand_shapes)
    for (const DataType a_type : {DataType::int8, DataType::uint8})
      for (const DataType b_type : {DataType::int8, DataType::uint8})
        for (const int zeros : {0, 1, 2, 3})
          for (const bool is_by_column : {false, true})
            for (const bool is_constant : {false, true}) {
              const Tensor a = random_bytes(random, a_type, shapes.a);
              const Tensor b = random_bytes(random, b_type, shapes.b);
              if (shapes.a.size() < 2 || shapes.b.size() < 2 || a.elements() == 0) continue;
              std::optional<Tensor> a_zero;
              std::optional<Tensor> b_zero;
              if (zeros & 1) a_zero = random_bytes(random, a_type, {});
              if (zeros & 2) b_zero = random_bytes(random, b_type, {1});
              const std::int64_t columns = shapes.b.back();
              const Tensor scale = random_in(
                  DataType::float32, is_by_column ? Shape{columns} : Shape{}, random, 0.01, 2);
              NodeRun run{"QuantizedMatMul",
                          {},
                          {a, b, scale, a_zero, b_zero},
                          {{DataType::float32, shapes.out}},
                          is_constant ? std::vector<std::size_t>{1, 4} : std::vector<std::size_t>{},
                          is_by_column ? 2 : 1,
                          passes::internal_domain};
              if (!b_zero) run.constants.resize(is_constant ? 1 : 0);
              if (!is_served(run)) continue;
              CAPTURE(graph::to_string(shapes.a), graph::to_string(shapes.b), name_of(a_type),
                      name_of(b_type), zeros, is_by_column, is_constant);
              std::vector<double> expected = product(a, b, a_zero, b_zero, shapes.out);
              for (std::size_t i = 0; i < expected.size(); ++i)
                expected[i] *=
                    number_at(scale, is_by_column ? i % static_cast<std::size_t>(columns) : 0);
              const std::vector<double> actual = doubles(run_node(run).front());
              for (std::size_t i = 0; i < expected.size(); ++i)
                REQUIRE(actual[i] == Approx(expected[i]).epsilon(1e-6).margin(1e-6));
            }
}

TEST_CASE("QLinearMatMul rounds the scaled sums") {
  Random random(2);
  for (const Operands& shapes : operand_shapes)
    for (const DataType type : {DataType::int8, DataType::uint8})
      for (const DataType scale : {DataType::float32, DataType::float16, DataType::bfloat16}) {
        const Tensor a = random_bytes(random, type, shapes.a);
        const Tensor b = random_bytes(random, type, shapes.b);
        const Tensor a_zero = random_bytes(random, type, {1});
        const Tensor b_zero = random_bytes(random, type, {});
        const Tensor y_zero = tensor_of(type, {1}, {3});
        // Powers of two, so that the scales' quotient is the same in every type; the sums are
        // divided by 4096.
        const auto scale_of = [&](double value) { return tensor_of(scale, {1}, {value}); };
        const Tensor y = run_node({"QLinearMatMul",
                                   {},
                                   {a, scale_of(0.25), a_zero, b, scale_of(0.0625), b_zero,
                                    scale_of(64), y_zero},
                                   {{type, shapes.out}}})
                             .front();
        const bool is_signed = type == DataType::int8;
        std::vector<double> expected = product(a, b, a_zero, b_zero, shapes.out);
        for (double& x : expected)
          x = std::clamp(std::nearbyint(x / 4096) + 3, is_signed ? -128.0 : 0.0,
                         is_signed ? 127.0 : 255.0);
        CAPTURE(graph::to_string(shapes.a), name_of(type), name_of(scale));
        REQUIRE(doubles(y) == expected);
      }
}

TEST_CASE("QLinearMatMul with a scale and a zero point for each row and column") {
  Random random(3);
  const Tensor a = random_bytes(random, DataType::uint8, {3, 5});
  const Tensor b = random_bytes(random, DataType::int8, {5, 2});
  const Tensor a_zero = random_bytes(random, DataType::uint8, {3});
  const Tensor b_zero = random_bytes(random, DataType::int8, {2});
  const Tensor y =
      run_node({"QLinearMatMul",
                {},
                {a, tensor_of(DataType::float32, {3}, {1, 0.5, 0.25}), a_zero, b,
                 tensor_of(DataType::float32, {2}, {0.125, 0.0625}), b_zero,
                 tensor_of(DataType::float32, {}, {16}), tensor_of(DataType::uint8, {}, {100})},
                {{DataType::uint8, {3, 2}}}})
          .front();
  std::vector<double> expected = product(a, b, a_zero, b_zero, {3, 2});
  const std::vector<double> rows{1, 0.5, 0.25};
  const std::vector<double> columns{0.125, 0.0625};
  for (std::size_t i = 0; i < 6; ++i)
    expected[i] = std::clamp(std::nearbyint(expected[i] * rows[i / 2] * columns[i % 2] / 16) + 100,
                             0.0, 255.0);
  CHECK(doubles(y) == expected);
}

TEST_CASE("QLinearMatMul of stacks with a scale for each row and column of each matrix") {
  Random random(4);
  const Tensor a = random_bytes(random, DataType::uint8, {2, 3, 4});
  const Tensor b = random_bytes(random, DataType::int8, {2, 4, 5});
  const Tensor zero = tensor_of(DataType::uint8, {}, {0});
  const Tensor b_zero = tensor_of(DataType::int8, {}, {0});
  const auto scales = [](const Shape& shape) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < graph::num_elements(shape); ++i)
      values.push_back(std::exp2(-static_cast<double>(i % 7)));
    return tensor_of(DataType::float32, shape, values);
  };
  const Tensor rows = scales({2, 3, 1});
  const Tensor columns = scales({2, 1, 5});
  const Tensor y =
      run_node({"QLinearMatMul",
                {},
                {a, rows, zero, b, columns, b_zero, tensor_of(DataType::float32, {}, {8}),
                 tensor_of(DataType::uint8, {}, {100})},
                {{DataType::uint8, {2, 3, 5}}}})
          .front();
  std::vector<double> expected = product(a, b, zero, b_zero, {2, 3, 5});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double scale = doubles(rows)[i / 5] * doubles(columns)[i / 15 * 5 + i % 5] / 8;
    expected[i] = std::clamp(std::nearbyint(expected[i] * scale) + 100, 0.0, 255.0);
  }
  CHECK(doubles(y) == expected);
}

TEST_CASE("QLinearMatMul with a vector has a scale for each row") {
  Random random(5);
  const Tensor a = random_bytes(random, DataType::uint8, {3, 4});
  const Tensor b = random_bytes(random, DataType::int8, {4});
  const Tensor zero = tensor_of(DataType::uint8, {}, {0});
  const Tensor b_zero = tensor_of(DataType::int8, {}, {0});
  const std::vector<double> rows{1, 0.5, 0.125};
  const Tensor y =
      run_node({"QLinearMatMul",
                {},
                {a, tensor_of(DataType::float32, {3}, rows), zero, b,
                 tensor_of(DataType::float32, {}, {0.25}), b_zero,
                 tensor_of(DataType::float32, {}, {4}), tensor_of(DataType::uint8, {}, {100})},
                {{DataType::uint8, {3}}}})
          .front();
  std::vector<double> expected = product(a, b, zero, b_zero, {3});
  for (std::size_t i = 0; i < 3; ++i)
    expected[i] = std::clamp(std::nearbyint(expected[i] * rows[i] / 16) + 100, 0.0, 255.0);
  CHECK(doubles(y) == expected);
}

namespace {

struct ConvolutionCase {
  Shape x;
  Shape w;
  Shape out;
  std::int64_t group;
  std::vector<std::int64_t> strides;
  std::vector<std::int64_t> dilations;
  std::vector<std::int64_t> pads;
};
const std::vector<ConvolutionCase> convolutions = {
    {{1, 1, 3, 3}, {1, 1, 2, 2}, {1, 1, 2, 2}, 1, {1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{2, 3, 7, 6}, {4, 3, 3, 2}, {2, 4, 4, 3}, 1, {2, 2}, {1, 1}, {1, 0, 1, 1}},
    {{1, 4, 9}, {6, 2, 3}, {1, 6, 7}, 2, {1}, {2}, {1, 1}},
    {{1, 300, 5}, {2, 300, 3}, {1, 2, 5}, 1, {1}, {1}, {1, 1}},
    {{3, 20, 9, 11}, {37, 20, 3, 3}, {3, 37, 9, 9}, 1, {1, 1}, {1, 2}, {1, 1, 1, 1}},
    {{2, 10, 13, 12}, {18, 5, 3, 3}, {2, 18, 7, 6}, 2, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {{1, 3, 20, 20}, {24, 3, 5, 5}, {1, 24, 10, 10}, 1, {2, 2}, {1, 1}, {2, 2, 2, 2}},
    {{1, 64, 12, 10}, {16, 64, 1, 1}, {1, 16, 12, 10}, 1, {1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{2, 16, 12, 12}, {32, 8, 3, 3}, {2, 32, 12, 12}, 2, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {{1, 6, 4, 4}, {8, 6, 3, 3}, {1, 8, 4, 4}, 1, {1, 1}, {3, 3}, {3, 3, 3, 3}},
    {{1, 2, 4, 4, 4},
     {2, 1, 2, 2, 2},
     {1, 2, 3, 3, 3},
     2,
     {1, 1, 1},
     {1, 1, 1},
     {0, 0, 0, 0, 0, 0}}};

/// The padding has the zero point, and adds nothing.
std::vector<double> convolution(const ConvolutionCase& c, const Tensor& x, const Tensor& w,
                                double x_zero, const std::vector<double>& w_zero) {
  std::vector<double> result;
  const Shape taps(c.w.begin() + 1, c.w.end());
  for_each_index(c.out, [&](const Shape& index) {
    double sum = 0;
    for_each_index(taps, [&](const Shape& tap) {
      Shape from{index[0], index[1] / (c.w[0] / c.group) * c.w[1] + tap[0]};
      Shape weight{index[1], tap[0]};
      for (std::size_t d = 2; d < index.size(); ++d) {
        from.push_back(index[d] * c.strides[d - 2] + tap[d - 1] * c.dilations[d - 2] -
                       c.pads[d - 2]);
        weight.push_back(tap[d - 1]);
        if (from[d] < 0 || from[d] >= c.x[d]) return;
      }
      sum += (at(x, from) - x_zero) *
             (at(w, weight) - w_zero[static_cast<std::size_t>(index[1]) % w_zero.size()]);
    });
    result.push_back(sum);
  });
  return result;
}

/// QuantizedConv, whose weights stand around the middle of their type, where it is served.
void check_scaled(const ConvolutionCase& c, const Tensor& x, const Tensor& w, const Tensor& x_zero,
                  std::vector<double> sums, Random& random) {
  for (const bool is_by_channel : {false, true}) {
    const Shape channels{c.w[0]};
    const Tensor scale =
        random_in(DataType::float32, is_by_channel ? channels : Shape{}, random, 0.01, 2);
    const Tensor bias = random_in(DataType::float32, channels, random, -1000, 1000);
    NodeRun run{
        "QuantizedConv",
        {{"group", c.group}, {"strides", c.strides}, {"dilations", c.dilations}, {"pads", c.pads}},
        {x, w, scale, x_zero, bias},
        {{DataType::float32, c.out}},
        {1},
        1,
        passes::internal_domain};
    if (!is_served(run)) continue;
    const auto places = static_cast<std::size_t>(graph::num_elements(c.out) / c.out[0] / c.out[1]);
    const std::vector<double> actual = doubles(run_node(run).front());
    REQUIRE(actual.size() == sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const std::size_t channel = i / places % static_cast<std::size_t>(c.w[0]);
      const double expected =
          sums[i] * number_at(scale, is_by_channel ? channel : 0) + number_at(bias, channel);
      REQUIRE(actual[i] == Approx(expected).epsilon(1e-5).margin(1e-2));
    }
  }
}

}  // namespace

TEST_CASE("ConvInteger and QLinearConv against the definition of a convolution") {
  Random random(4);
  for (const ConvolutionCase& c : convolutions)
    for (const DataType x_type : {DataType::int8, DataType::uint8})
      for (const DataType w_type : {DataType::int8, DataType::uint8})
        for (const int kind : {0, 1, 2}) {
          const bool is_symmetric = kind > 0;
          const Tensor x = random_bytes(random, x_type, c.x);
          const Tensor w = kind == 2 ? rarely_large(random, w_type, c.w, 300)
                                     : random_bytes(random, w_type, c.w);
          const Tensor x_zero = random_bytes(random, x_type, {});
          // Around zero, and known early, weights are kept in another layout.
          const std::vector<double> middle(static_cast<std::size_t>(c.w[0]),
                                           w_type == DataType::uint8 ? 128 : 0);
          const Tensor w_zero = is_symmetric ? tensor_of(w_type, {c.w[0]}, middle)
                                             : random_bytes(random, w_type, {c.w[0]});
          using Inputs = std::vector<std::size_t>;
          const std::map<std::string, Attribute> attributes{{"group", c.group},
                                                            {"strides", c.strides},
                                                            {"dilations", c.dilations},
                                                            {"pads", c.pads}};
          CAPTURE(graph::to_string(c.x), name_of(x_type), name_of(w_type), kind);
          std::vector<double> sums = convolution(c, x, w, number_at(x_zero, 0), doubles(w_zero));
          REQUIRE(doubles(run_node({"ConvInteger",
                                    attributes,
                                    {x, w, x_zero, w_zero},
                                    {{DataType::int32, c.out}},
                                    is_symmetric ? Inputs{1, 3} : Inputs{}})
                              .front()) == sums);
          if (is_symmetric) check_scaled(c, x, w, x_zero, sums, random);
          const Tensor bias = random_in(DataType::int32, {c.w[0]}, random, -1000, 1000);
          std::vector<double> w_scales(static_cast<std::size_t>(c.w[0]));
          for (double& each : w_scales) each = std::ldexp(1, -static_cast<int>(random() % 4) - 6);
          const std::int64_t places = graph::num_elements(c.out) / c.out[0] / c.out[1];
          for (std::size_t i = 0; i < sums.size(); ++i) {
            const auto channel = i / static_cast<std::size_t>(places) % w_scales.size();
            sums[i] = std::clamp(
                std::nearbyint((sums[i] + number_at(bias, channel)) * w_scales[channel] / 4) + 7,
                -128.0, 127.0);
          }
          REQUIRE(doubles(run_node({"QLinearConv",
                                    attributes,
                                    {x, tensor_of(DataType::float32, {}, {0.5}), x_zero, w,
                                     tensor_of(DataType::float32, {c.w[0]}, w_scales), w_zero,
                                     tensor_of(DataType::float32, {}, {2}),
                                     tensor_of(DataType::int8, {}, {7}), bias},
                                    {{DataType::int8, c.out}},
                                    is_symmetric ? Inputs{3, 5} : Inputs{}})
                              .front()) == sums);
        }
}
