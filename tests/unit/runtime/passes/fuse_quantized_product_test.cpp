// Products of what is dequantised, in every form that becomes a QuantizedMatMul, and near misses,
// on the device under test beside the graph as it is written on the CPU.

#include "runtime/passes/matcher.h"
#include "runtime/passes/passes.h"
#include "unit/runtime/kernels_under_test.h"
#include "unit/runtime/loops.h"
#include "unit/runtime/passes/spelling.h"

namespace autopar::runtime {
namespace {

using namespace testing;

/// A graph of quantised tensors.
struct Sketch : Spelling {
  Tensor bytes(DataType as, const Shape& of) {
    return as == DataType::int8 ? random_in(as, of, random, -128, 128)
                                : random_in(as, of, random, 0, 256);
  }
  ValueId constant_bytes(DataType as, const Shape& of) {
    return graph.add_constant("bytes", bytes(as, of));
  }
  ValueId floats(const Shape& of) {
    return graph.add_constant("scale", random_in(DataType::float32, of, random, 0.01, 0.5));
  }
  ValueId dequantised(ValueId values, ValueId scale, ValueId zero,
                      std::map<std::string, Attribute> attributes = {}) {
    std::vector<ValueId> inputs{values, scale};
    if (zero != graph::no_value) inputs.push_back(zero);
    return typed(node("DequantizeLinear", inputs, shape(values), std::move(attributes)),
                 DataType::float32);
  }
  ValueId product(ValueId a, ValueId b, const Shape& to) {
    return typed(node("MatMul", {a, b}, to), DataType::float32);
  }
};

/// Whether the device multiplies bytes: not every CPU does.
bool is_served() {
  Sketch s;
  const graph::Node node{
      "",
      "QuantizedMatMul",
      passes::internal_domain,
      {s.in("a", {2, 3}, DataType::int8), s.in("b", {3, 4}, DataType::int8), s.floats({})},
      {s.value("out", {2, 4})},
      {}};
  return passes::can_run(kernels_under_test(), s.graph, node);
}

/// As the device runs it, rewritten and not. Answers with the graph after the pass.
Graph check_same(const Graph& graph) {
  Random random(3);
  std::vector<Tensor> inputs;
  for (const ValueId id : graph.inputs) {
    const graph::Value& value = graph.value(id);
    const bool is_signed = value.type == DataType::int8;
    inputs.push_back(graph::is_floating_point(value.type)
                         ? random_in(value.type, value.shape, random, 0.01, 0.5)
                         : random_in(value.type, value.shape, random, is_signed ? -128 : 0,
                                     is_signed             ? 128
                                     : value.shape.empty() ? 5
                                                           : 256));
  }
  Executable plain(graph, {.optimize = false});
  Executable fused(graph, {.device = device_under_test()});
  const auto expected = run(plain, graph, inputs);
  const auto actual = run(fused, graph, inputs);
  for (std::size_t o = 0; o < expected.size(); ++o) {
    const auto values = doubles(expected[o]);
    double largest = 0;
    for (const double x : values) largest = std::max(largest, std::abs(x));
    check_close(actual[o], values, largest);
  }
  Graph after = graph;
  passes::fuse_quantized_products(after, kernels_under_test());
  remove_dead_nodes(after);
  check_invariants(after);
  return after;
}

TEST_CASE("A product of two that are dequantised, by one scale or one a column, is one of bytes") {
  struct Shapes {
    Shape a, b, out;
  };
  for (const Shapes& shapes : std::vector<Shapes>{{{5, 70}, {70, 9}, {5, 9}},
                                                  {{2, 3, 8}, {8, 4}, {2, 3, 4}},
                                                  {{2, 3, 5, 8}, {2, 3, 8, 6}, {2, 3, 5, 6}}})
    for (const DataType a_type : {DataType::int8, DataType::uint8})
      for (const DataType b_type : {DataType::int8, DataType::uint8})
        for (const bool is_by_column : {false, true})
          for (const bool has_zeros : {false, true})
            for (const bool is_constant : {false, true}) {
              Sketch s;
              const std::int64_t columns = shapes.b.back();
              const auto last = static_cast<std::int64_t>(shapes.b.size()) - 1;
              const ValueId a =
                  s.dequantised(s.in("a", shapes.a, a_type), s.floats({}),
                                has_zeros ? s.constant_bytes(a_type, {}) : graph::no_value);
              const Tensor same = tensor_of(b_type, {columns}, std::vector<double>(columns, 7));
              const ValueId zero =
                  is_by_column ? s.graph.add_constant("zeros", same) : s.constant_bytes(b_type, {});
              const ValueId b = s.dequantised(
                  is_constant ? s.constant_bytes(b_type, shapes.b) : s.in("b", shapes.b, b_type),
                  s.floats(is_by_column ? Shape{columns} : Shape{}),
                  has_zeros ? zero : graph::no_value, {{"axis", is_by_column ? last : 0}});
              s.ends(s.product(a, b, shapes.out));
              const Graph fused = check_same(s.graph);
              CHECK(count(fused, "QuantizedMatMul") == (is_served() ? 1 : 0));
              CHECK(count(fused, "DequantizeLinear") == (is_served() ? 0 : 2));
            }
}

TEST_CASE("A Gemm of what is dequantised is a product of bytes and a sum") {
  for (const DataType type : {DataType::int8, DataType::uint8})
    for (const bool is_transposed : {false, true})
      for (const bool is_by_column : {false, true})
        for (const int addend : {0, 1, 2, 3})
          for (const float alpha : {1.0F, 2.0F}) {
            CAPTURE(name_of(type), is_transposed, is_by_column, addend, alpha);
            Sketch s;
            const ValueId a =
                s.dequantised(s.in("a", {5, 8}, type), s.floats({}), s.constant_bytes(type, {}));
            const ValueId b =
                s.dequantised(s.constant_bytes(type, is_transposed ? Shape{6, 8} : Shape{8, 6}),
                              s.floats(is_by_column ? Shape{6} : Shape{}),
                              is_by_column ? graph::no_value : s.constant_bytes(type, {}),
                              {{"axis", std::int64_t{is_transposed ? 0 : 1}}});
            std::vector<ValueId> inputs{a, b};
            if (addend == 1) inputs.push_back(s.floats({6}));
            if (addend == 2) inputs.push_back(s.in("c", {5, 1}));
            if (addend == 3) inputs.push_back(s.in("c", {}));
            s.ends(s.typed(s.node("Gemm", inputs, {5, 6},
                                  {{"transB", std::int64_t{is_transposed}}, {"alpha", alpha}}),
                           DataType::float32));
            const Graph fused = check_same(s.graph);
            const bool fuses = is_served() && alpha == 1;
            CHECK(count(fused, "QuantizedMatMul") == (fuses ? 1 : 0));
            CHECK(count(fused, "Add") == (fuses && addend != 0 ? 1 : 0));
          }
}

TEST_CASE("A convolution of what is dequantised is one of bytes, padded by what stands for zero") {
  struct Form {
    Shape in, weights, out;
    std::vector<std::int64_t> pads, strides;
    std::int64_t groups = 1;
  };
  for (const Form& form :
       std::vector<Form>{{{2, 5, 7, 6}, {9, 5, 3, 3}, {2, 9, 7, 6}, {1, 1, 1, 1}, {1, 1}},
                         {{1, 32, 9, 9}, {16, 32, 3, 3}, {1, 16, 5, 5}, {1, 1, 1, 1}, {2, 2}},
                         {{1, 8, 5, 5}, {4, 8, 1, 1}, {1, 4, 5, 5}, {0, 0, 0, 0}, {1, 1}},
                         {{2, 16, 6, 6}, {16, 1, 3, 3}, {2, 16, 6, 6}, {1, 1, 1, 1}, {1, 1}, 16},
                         {{2, 6, 11}, {4, 3, 4}, {2, 4, 10}, {2, 0}, {1}, 2}})
    for (const DataType image_type : {DataType::int8, DataType::uint8})
      for (const DataType type : {DataType::int8, DataType::uint8})
        for (const bool is_by_channel : {false, true})
          for (const int bias : {0, 1, 2}) {
            CAPTURE(graph::to_string(form.weights), name_of(image_type), name_of(type),
                    is_by_channel, bias);
            Sketch s;
            const std::int64_t channels = form.weights[0];
            const ValueId image = s.dequantised(s.in("x", form.in, image_type), s.floats({}),
                                                s.constant_bytes(image_type, {}));
            const Shape of = is_by_channel ? Shape{channels} : Shape{};
            const Tensor zeros =
                tensor_of(type, of,
                          std::vector<double>(static_cast<std::size_t>(graph::num_elements(of)),
                                              type == DataType::uint8 ? 128 : 0));
            const ValueId weights =
                s.dequantised(s.constant_bytes(type, form.weights), s.floats(of),
                              s.graph.add_constant("zeros", zeros), {{"axis", std::int64_t{0}}});
            std::vector<ValueId> inputs{image, weights};
            if (bias == 1) inputs.push_back(s.floats({channels}));
            if (bias == 2) inputs.push_back(s.in("bias", {channels}));
            s.ends(s.typed(
                s.node("Conv", inputs, form.out,
                       {{"pads", form.pads}, {"strides", form.strides}, {"group", form.groups}}),
                DataType::float32));
            const Graph fused = check_same(s.graph);
            const bool fuses = is_served() && count(fused, "QuantizedConv") == 1;
            CHECK(count(fused, "DequantizeLinear") == (fuses ? 0 : 2));
            // Groups of few channels may be faster as numbers.
            if (form.groups == 1) CHECK(fuses == is_served());
          }
}

TEST_CASE("A convolution whose weights stand around no zero, or are given, stays") {
  for (const bool is_given : {false, true}) {
    Sketch s;
    const ValueId image =
        s.dequantised(s.in("x", {1, 3, 5, 5}, DataType::int8), s.floats({}), graph::no_value);
    const Shape shape{4, 3, 3, 3};
    const ValueId stored =
        is_given ? s.in("w", shape, DataType::int8) : s.constant_bytes(DataType::int8, shape);
    const Tensor zero = tensor_of(DataType::int8, {}, {is_given ? 0.0 : 3.0});
    const ValueId weights = s.dequantised(stored, s.floats({}), s.graph.add_constant("zero", zero));
    s.ends(s.typed(s.node("Conv", {image, weights}, {1, 4, 3, 3}), DataType::float32));
    CHECK(count(check_same(s.graph), "QuantizedConv") == 0);
  }
}

TEST_CASE("A share that has none of the result dequantises no weights, on any device") {
  for (const bool is_conv : {false, true}) {
    Sketch s;
    const Shape shape = is_conv ? Shape{0, 6, 3, 3} : Shape{0, 6};
    const ValueId a =
        s.dequantised(s.in("a", shape, DataType::int8), s.floats({}), graph::no_value);
    const ValueId w = s.constant_bytes(DataType::int8, is_conv ? Shape{6, 6, 1, 1} : Shape{6, 6});
    const ValueId b =
        s.dequantised(w, s.floats({6}), graph::no_value, {{"axis", std::int64_t{is_conv ? 0 : 1}}});
    s.ends(s.typed(s.node(is_conv ? "Conv" : "MatMul", {a, b}, shape), DataType::float32));
    CHECK(count(check_same(s.graph), "DequantizeLinear") == 0);
  }
}

TEST_CASE("A scale or zero point that is no number a column stays with what it scales") {
  const Shape a_shape{6, 8};
  const Shape b_shape{8, 6};
  const auto fuses = [&](const auto& a_of, const auto& b_of) {
    Sketch s;
    const ValueId a = a_of(s, s.in("a", a_shape, DataType::int8));
    const ValueId b = b_of(s, s.constant_bytes(DataType::int8, b_shape));
    s.ends(s.product(a, b, {6, 6}));
    return count(check_same(s.graph), "QuantizedMatMul") != 0;
  };
  const auto plain = [](Sketch& s, ValueId values) {
    return s.dequantised(values, s.floats({}), graph::no_value);
  };
  CHECK(fuses(plain, plain) == is_served());
  const auto by_row = [](Sketch& s, ValueId values) {
    return s.dequantised(values, s.floats({s.shape(values)[0]}), graph::no_value,
                         {{"axis", std::int64_t{0}}});
  };
  CHECK_FALSE(fuses(plain, by_row));
  CHECK_FALSE(fuses(by_row, plain));
  const auto by_column = [](Sketch& s, ValueId values) {
    return s.dequantised(values, s.floats({s.shape(values)[1]}), graph::no_value);
  };
  CHECK_FALSE(fuses(by_column, plain));
  const auto zeros = [](Sketch& s, ValueId values) {
    const Tensor some = tensor_of(DataType::int8, {6}, {1, 2, 3, 4, 5, 6});
    return s.dequantised(values, s.floats({6}), s.graph.add_constant("zeros", some));
  };
  CHECK_FALSE(fuses(plain, zeros));
  const auto in_blocks = [](Sketch& s, ValueId values) {
    const Shape& shape = s.shape(values);
    return s.dequantised(values, s.floats({shape[0] / 2, shape[1]}), graph::no_value,
                         {{"axis", std::int64_t{0}}, {"block_size", std::int64_t{2}}});
  };
  CHECK_FALSE(fuses(plain, in_blocks));
  const auto given_scale = [](Sketch& s, ValueId values) {
    return s.dequantised(values, s.in("scale", {}), graph::no_value);
  };
  CHECK_FALSE(fuses(given_scale, plain));
}

TEST_CASE("Zero points a column that are all the same are one, however many constants there are") {
  for (const int constants : {0, 1, 2, 3, 5, 8, 13})
    for (const bool differ : {false, true}) {
      Sketch s;
      for (int i = 0; i < constants; ++i) s.floats({3});  // so that values move at some point
      const Tensor zeros = tensor_of(DataType::int8, {6}, {3, 3, 3, 3, 3, differ ? 4.0 : 3.0});
      const Tensor a_zeros = tensor_of(DataType::uint8, {5}, {9, 9, 9, 9, 9});
      const ValueId sums = s.typed(
          s.node("MatMulInteger",
                 {s.in("a", {5, 8}, DataType::uint8), s.constant_bytes(DataType::int8, {8, 6}),
                  s.graph.add_constant("a_zeros", a_zeros), s.graph.add_constant("zeros", zeros)},
                 {5, 6}),
          DataType::int32);
      s.ends(s.binary("Mul", s.cast(sums, DataType::float32), s.in("scale", {6})));
      const Graph fused = check_same(s.graph);
      CHECK(count(fused, "QuantizedMatMul") == (is_served() && !differ ? 1 : 0));
    }
}

TEST_CASE(
    "Where scales and zero points are absent, as when a model is only planned, nothing fuses") {
  for (const bool is_conv : {false, true}) {
    Sketch s;
    const Tensor scales = Tensor::absent(DataType::float32, {6});
    const ValueId a =
        s.dequantised(s.in("a", is_conv ? Shape{1, 6, 3, 3} : Shape{6, 6}, DataType::int8),
                      s.floats({}), graph::no_value);
    const ValueId stored = s.graph.add_constant(
        "w", Tensor::absent(DataType::int8, is_conv ? Shape{6, 6, 1, 1} : Shape{6, 6}));
    const ValueId b = s.dequantised(stored, s.graph.add_constant("scales", scales), graph::no_value,
                                    {{"axis", std::int64_t{is_conv ? 0 : 1}}});
    s.ends(s.typed(s.node(is_conv ? "Conv" : "MatMul", {a, b}, s.shape(a)), DataType::float32));
    Graph graph = s.graph;
    passes::fuse_quantized_products(graph, kernels_under_test());
    CHECK(count(graph, "DequantizeLinear") == 2);
  }
}

TEST_CASE("Sums of MatMulInteger that are scaled are scaled as they are written") {
  enum class Scale { one, by_column, by_row, longer };
  for (const Scale kind : {Scale::one, Scale::by_column, Scale::by_row, Scale::longer})
    for (const bool is_read_again : {false, true})
      for (const bool comes_first : {false, true}) {
        Sketch s;
        const ValueId sums = s.typed(
            s.node("MatMulInteger",
                   {s.in("a", {2, 5, 8}, DataType::uint8), s.constant_bytes(DataType::int8, {8, 6}),
                    s.in("zero", {}, DataType::uint8)},
                   {2, 5, 6}),
            DataType::int32);
        const ValueId numbers = s.cast(sums, DataType::float32);
        const Shape of = kind == Scale::one         ? Shape{}
                         : kind == Scale::by_column ? Shape{6}
                         : kind == Scale::by_row    ? Shape{5, 1}
                                                    : Shape{1, 1, 1, 1};
        const ValueId scale = s.in("scale", of);
        const Shape to = kind == Scale::longer ? Shape{1, 2, 5, 6} : Shape{2, 5, 6};
        s.ends(s.typed(
            s.node("Mul", comes_first ? std::vector{scale, numbers} : std::vector{numbers, scale},
                   to),
            DataType::float32));
        if (is_read_again) s.ends(s.unary("Neg", numbers));
        const bool fuses =
            is_served() && !is_read_again && (kind == Scale::one || kind == Scale::by_column);
        const Graph fused = check_same(s.graph);
        CHECK(count(fused, "QuantizedMatMul") == (fuses ? 1 : 0));
        CHECK(count(fused, "MatMulInteger") == (fuses ? 0 : 1));
      }
}

TEST_CASE("Sums of ConvInteger that one number scales are scaled as they are written") {
  for (const DataType type : {DataType::int8, DataType::uint8})
    for (const bool is_one : {false, true}) {
      Sketch s;
      const Tensor zero = tensor_of(type, {}, {type == DataType::uint8 ? 128.0 : 0.0});
      const ValueId sums = s.typed(
          s.node("ConvInteger",
                 {s.in("x", {1, 6, 5, 5}, DataType::uint8), s.constant_bytes(type, {4, 6, 3, 3}),
                  s.in("zero", {}, DataType::uint8), s.graph.add_constant("zero", zero)},
                 {1, 4, 5, 5}, {{"pads", std::vector<std::int64_t>{1, 1, 1, 1}}}),
          DataType::int32);
      s.ends(s.binary("Mul", s.cast(sums, DataType::float32),
                      s.in("scale", is_one ? Shape{} : Shape{4, 1, 1})));
      const Graph fused = check_same(s.graph);
      CHECK(count(fused, "QuantizedConv") == (is_one && is_served() ? 1 : 0));
    }
}

TEST_CASE("Rows of a table are gathered before they are dequantised") {
  for (const bool is_by_row : {false, true}) {
    Sketch s;
    const ValueId table = s.dequantised(
        s.constant_bytes(DataType::uint8, {50, 6}), s.floats(is_by_row ? Shape{50} : Shape{}),
        is_by_row ? graph::no_value : s.constant_bytes(DataType::uint8, {}),
        {{"axis", std::int64_t{0}}});
    s.ends(
        s.typed(s.node("Gather", {table, s.integers({4, 0, 49, 4})}, {4, 6}), DataType::float32));
    const Graph fused = check_same(s.graph);
    CHECK(fused.nodes.back().op_type == (is_by_row ? "Gather" : "DequantizeLinear"));
  }
}

}  // namespace
}  // namespace autopar::runtime
