#include "graph/onnx/onnx_import.h"

#include <algorithm>
#include <set>

#include "unit/graph/models.h"

using namespace autopar;
using namespace autopar::graph;

namespace {

/// Evaluates what the tests fold: Add of floats of one shape, Equal of int64 scalars, Neg of one.
std::optional<std::vector<Tensor>> evaluate_little(const Graph& graph) {
  const Node& node = graph.nodes.at(0);
  const auto input = [&](std::size_t i) { return *graph.value(node.inputs[i]).constant; };
  if (node.op_type == "Add" && input(0).type() == DataType::float32) {
    Tensor sum = input(0).contiguous_copy();
    auto* out = reinterpret_cast<float*>(sum.mutable_bytes().data());
    for (const float addend : input(1).values<float>()) *out++ += addend;
    return std::vector{sum};
  }
  if (node.op_type == "Equal") {
    Tensor equal = Tensor::zeros(DataType::boolean, {});
    equal.mutable_bytes()[0] = std::byte{input(0).to_int64s() == input(1).to_int64s()};
    return std::vector{equal};
  }
  if (node.op_type == "Neg") {
    const std::int64_t negated = -input(0).to_int64s().at(0);
    return std::vector{Tensor::of_int64(input(0).shape(), std::span(&negated, 1))};
  }
  return std::nullopt;
}

const ImportOptions folding{{}, evaluate_little, {}, false};

ImportOptions with_native(std::set<std::string> native) {
  ImportOptions options = folding;
  options.is_native = [native = std::move(native)](std::string_view, std::string_view op_type) {
    return native.contains(std::string(op_type));
  };
  return options;
}

std::vector<std::string> node_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.push_back(node.name);
  return names;
}

}  // namespace

TEST_CASE("an input that is given as a constant is one, and tells shapes") {
  const std::vector<std::int64_t> target = {3, 2};
  ImportOptions options;
  options.constants = {{"target", Tensor::of_int64({2}, target)}};
  const Graph graph =
      import(parse_graph(18, R"((float[2, 3] x, int64[2] target) => (float[A, B] y) {
      y = Reshape(x, target) })"),
             options);
  REQUIRE(graph.inputs.size() == 1);
  CHECK(graph.value(graph.inputs[0]).name == "x");
  CHECK(graph.value(graph.outputs[0]).shape == Shape{3, 2});
}

TEST_CASE("a model becomes a graph with static shapes") {
  const Graph graph = import(parse_graph(18, R"(
    (float[2, 3] x) => (float[2, 4] y) <float[3, 4] w = {1,2,3,4,5,6,7,8,9,10,11,12}> {
      h = MatMul(x, w)
      y = Relu(h)
    })"));
  CHECK(graph.name == "tested");
  CHECK(graph.opsets == std::map<std::string, std::int64_t>{{"", 18}});
  REQUIRE(graph.nodes.size() == 2);
  CHECK(graph.value(graph.nodes[0].outputs[0]).shape == Shape{2, 4});
  CHECK(graph.value(graph.outputs[0]).name == "y");
  CHECK(graph.value(graph.inputs[0]).name == "x");
  CHECK(weight_bytes(graph) == 48);
}

TEST_CASE("nodes are put in order, keeping the file's where it allows") {
  const Graph graph = import(parse_graph(18, R"(
    (float[2] x) => (float[2] y, float[2] z) {
      y = Relu(h)
      z = Neg(x)
      h = Exp(x)
    })"));
  CHECK(text_of(graph) == Lines{"z = Neg(x)", "h = Exp(x)", "y = Relu(h)"});
}

TEST_CASE("nodes without a name get one and a name used twice gets a suffix") {
  onnx::ModelProto model = parse_graph(18, R"(
    (float[2] x) => (float[2] y) { a = Relu(x) b = Relu(a) y = Exp(b) })");
  model.mutable_graph()->mutable_node(0)->set_name("relu");
  model.mutable_graph()->mutable_node(1)->set_name("relu");
  CHECK(node_names(import(model)) == Lines{"relu", "relu_1", "Exp_2"});
}

TEST_CASE("Identity and Dropout of inference vanish, also before an output") {
  const Graph graph = import(parse_graph(18, R"(
    (float[2] x) => (float[2] y) {
      a = Identity(x)
      b, mask = Dropout(a)
      c = Relu(b)
      y = Identity(c)
    })"));
  CHECK(text_of(graph) == Lines{"y = Relu(x)"});
}

TEST_CASE("a Dropout whose mask is read, or that trains, stays") {
  CHECK(import(parse_graph(18, R"((float[2] x) => (float[2] y, bool[2] mask) {
    y, mask = Dropout(x) })"))
            .nodes.size() == 1);
  CHECK(import(parse_graph(18, R"((float[2] x, bool train) => (float[2] y) <float r = {0.5}> {
    y = Dropout(x, r, train) })"))
            .nodes.size() == 1);
}

TEST_CASE("outputs that are constants, inputs or given twice are made by an Identity") {
  const Graph graph = import(parse_graph(18, R"(
    (float[2] x) => (float[2] same, float[2] fixed, float[2] first, float[2] second) {
      same = Identity(x)
      fixed = Constant<value_floats = [1.0, 2.0]>()
      first = Relu(x)
      second = Identity(first)
    })"));
  CHECK(text_of(graph) == Lines{"first = Relu(x)", "same = Identity(x)", "fixed = Identity([1,2])",
                                "second = Identity(first)"});
}

TEST_CASE("initializers that old files list as inputs too are constants, unused ones vanish") {
  onnx::ModelProto model = parse_graph(18, R"(
    (float[2] x, float[2] w) => (float[2] y) <float[2] unused = {1, 2}> { y = Add(x, w) })");
  auto& w = *model.mutable_graph()->add_initializer();
  w.set_name("w");
  w.set_data_type(onnx::TensorProto::FLOAT);
  w.add_dims(2);
  w.add_float_data(3);
  w.add_float_data(4);
  const Graph graph = import(model);
  CHECK(text_of(graph) == Lines{"y = Add(x, [3,4])"});
  CHECK(graph.inputs.size() == 1);
  CHECK(graph.values.size() == 3);
}

TEST_CASE("Shape and Size of static shapes are constants, and arithmetic on them folds") {
  const Graph graph = import(parse_graph(18, R"(
    (float[2, 3, 4] x) => (float[A, B] y, int64[2] tail, int64 n) {
      s = Shape(x)
      zero = Constant<value_int = 0>()
      batch = Gather(s, zero)
      axes = Constant<value_ints = [0]>()
      rows = Unsqueeze(batch, axes)
      rest = Constant<value_ints = [-1]>()
      target = Concat<axis = 0>(rows, rest)
      y = Reshape(x, target)
      tail = Shape<start = -2>(x)
      n = Size(x)
    })"));
  CHECK(text_of(graph) ==
        Lines{"y = Reshape(x, [2,-1])", "tail = Identity([3,4])", "n = Identity(24)"});
  CHECK(graph.value(graph.outputs[0]).shape == Shape{2, 12});
}

TEST_CASE("nodes of constants are folded by the evaluator, those without a kernel stay") {
  const onnx::ModelProto model = parse_graph(18, R"(
    (float[2] x) => (float[2] y) <float[2] a = {1, 2}, float[2] b = {3, 4}> {
      sum = Add(a, b)
      power = Pow(sum, sum)
      y = Mul(x, power)
    })");
  CHECK(text_of(import(model, folding)) == Lines{"power = Pow([4,6], [4,6])", "y = Mul(x, power)"});
  CHECK(import(model).nodes.size() == 3);
}

TEST_CASE("weight matrices and large results are never folded") {
  CHECK(import(parse_graph(18, R"(
    (float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> {
      sum = Add(w, w)
      y = MatMul(x, sum)
    })"),
               folding)
            .nodes.size() == 2);
  CHECK(import(parse_graph(18, R"(
    (float[2000000] x) => (float[2000000] y) {
      n = Shape(x)
      zeros = ConstantOfShape(n)
      y = Add(x, zeros)
    })"),
               ImportOptions{{},
                             [](const Graph&) -> std::optional<std::vector<Tensor>> {
                               throw InternalError("must not be asked");
                             },
                             {},
                             false})
            .nodes.size() == 2);
}

TEST_CASE("weights in 8 bits are not unpacked, but small tables may be what shapes depend on") {
  for (const int extent : {4, 32}) {
    onnx::ModelProto model = parse_graph(18, R"(
      (float[n, n] x) => (float[n, n] y) <float scale = {0.5}> {
        numbers = DequantizeLinear(w, scale)
        y = MatMul(x, numbers)
      })");
    onnx::TensorProto& weights = *model.mutable_graph()->add_initializer();
    weights.set_name("w");
    weights.set_data_type(onnx::TensorProto::INT8);
    for (int d = 0; d < 2; ++d) weights.add_dims(extent);
    weights.set_raw_data(std::string(static_cast<std::size_t>(extent * extent), 1));
    ImportOptions options;
    options.shapes["x"] = {extent, extent};
    int asked = 0;
    options.evaluate = [&](const Graph&) -> std::optional<std::vector<Tensor>> {
      ++asked;
      return std::nullopt;
    };
    import(model, options);
    CHECK(asked == (extent == 4 ? 1 : 0));
  }
}

TEST_CASE("random numbers are never folded") {
  const auto never = [](const Graph&) -> std::optional<std::vector<Tensor>> {
    throw InternalError("must not be asked");
  };
  const ImportOptions options{{}, never, {}, false};
  CHECK(import(parse_graph(18, R"((float[2] x) => (float[2] y) {
    r = RandomNormal<shape = [2]>() y = Add(x, r) })"),
               options)
            .nodes.size() == 2);
  CHECK(import(parse_graph(18, R"((float[2] x) => (float[2] y) <float[2] c = {1, 2}> {
    r = RandomNormalLike(c) y = Add(x, r) })"),
               options)
            .nodes.size() == 2);
}

TEST_CASE("the taken branch of an If is inlined, with what it reads from outside") {
  const auto model = [](int right) {
    return parse_graph(18, R"(
      (float[2] x) => (float[2] y) <int64 left = {3}, int64 right = {)" +
                               std::to_string(right) + R"(}> {
        h = Exp(x)
        same = Equal(left, right)
        y = If(same) <
          then_branch = yes () => (float[2] out) { t = Relu(h) out = Neg(t) },
          else_branch = no () => (float[2] out) <float[2] w = {5, 6}> { out = Add(h, w) }
        >
      })");
  };
  CHECK(text_of(import(model(3), folding)) ==
        Lines{"h = Exp(x)", "If/t = Relu(h)", "y = Neg(If/t)"});
  CHECK(text_of(import(model(4), folding)) == Lines{"h = Exp(x)", "y = Add(h, [5,6])"});
  // Without knowing the condition, both are computed.
  CHECK(text_of(import(model(4))) == Lines{"h = Exp(x)", "same = Equal(3, 4)", "If/1/t = Relu(h)",
                                           "If/1/out = Neg(If/1/t)", "If/0/out = Add(h, [5,6])",
                                           "y = Where(same, If/1/out, If/0/out)"});
}

TEST_CASE("local functions are inlined with their attributes, defaults and left-out inputs") {
  const Graph graph = import(parse_model(R"(
    <ir_version: 9, opset_import: ["" : 18, "local" : 1]>
    agraph (float[2, 3] x) => (float[3] y, float[2, 3] z) {
      y = local.total <axis = 0>(x)
      z = local.twice(x)
    }
    <domain: "local", opset_import: ["" : 11]>
    total <axis: int = 1> (a) => (b) {
      s = ReduceSum <axes = [0], keepdims = 0>(a)
      b = LeakyRelu <alpha = 0.5>(s)
    }
    <domain: "local", opset_import: ["" : 18, "local" : 1]>
    twice <shift: float = 2.0> (a, bound) => (b) {
      c = Constant <value_float: float = @shift>()
      shifted = Add(a, c)
      clipped = Clip(shifted, bound)
      b = local.once(clipped)
    }
    <domain: "local", opset_import: ["" : 18]>
    once (a) => (b) { b = Neg(a) }
  )"));
  CHECK(text_of(graph) == Lines{"total/s = ReduceSum<keepdims=0>(x, [0])",
                                "y = LeakyRelu<alpha=0.5>(total/s)", "twice/shifted = Add(x, 2)",
                                "twice/clipped = Clip(twice/shifted)", "z = Neg(twice/clipped)"});
  CHECK(graph.opsets.size() == 1);
}

TEST_CASE("a function that calls itself is an error") {
  CHECK_THROWS_WITH(import(parse_model(R"(
    <ir_version: 9, opset_import: ["" : 18, "local" : 1]>
    agraph (float[2] x) => (float[2] y) { y = local.f(x) }
    <domain: "local", opset_import: ["local" : 1]>
    f (a) => (b) { b = local.f(a) }
  )")),
                    Catch::Contains("'f' calls itself"));
}

TEST_CASE("operators without a kernel are inlined by ONNX's own definition") {
  const onnx::ModelProto model = parse_graph(20, R"(
    (float[2, 4] x) => (float[2, 4] y) <float[4] scale = {1, 1, 1, 1}> {
      n = LayerNormalization <epsilon = 0.25>(x, scale)
      y = Gelu(n)
    })");
  CHECK(import(model).nodes.size() == 2);  // nothing is known of kernels: nothing is inlined
  CHECK(import(model, with_native({"LayerNormalization", "Gelu"})).nodes.size() == 2);
  const Graph inlined = import(model, with_native({"Gelu"}));
  CHECK(inlined.nodes.back().op_type == "Gelu");
  CHECK(std::ranges::count(inlined.nodes, "LayerNormalization", &Node::op_type) == 0);
  CHECK(std::ranges::count(inlined.nodes, "ReduceMean", &Node::op_type) == 2);
  CHECK(inlined.value(inlined.outputs[0]).shape == Shape{2, 4});
  // the attribute reaches the body
  const bool epsilon = std::ranges::any_of(inlined.values, [](const Value& value) {
    return value.constant && value.type == DataType::float32 && value.constant->elements() == 1 &&
           value.constant->values<float>()[0] == 0.25F;
  });
  CHECK(epsilon);
  for (const Node& node : import(model, with_native({})).nodes)
    CHECK((node.op_type != "Gelu" && node.op_type != "LayerNormalization"));
}

TEST_CASE("an operator that ONNX defines by a loop is not inlined") {
  const Graph graph = import(parse_graph(18, R"(
    (float[4] x) => (float[4] y) <float first = {0}, float limit = {4}, float step = {1}> {
      r = Range(first, limit, step)
      y = Add(x, r)
    })"),
                             with_native({"Add"}));
  CHECK(text_of(graph) == Lines{"r = Range(0, 4, 1)", "y = Add(x, r)"});
}

TEST_CASE("an operator without inference of its own gets its shape from the body that defines it") {
  const Graph graph = import(parse_graph(18, R"(
    (float[1, 4, 3, 3] x) => (float[A, B, C, D] y) { y = MeanVarianceNormalization(x) })"));
  CHECK(graph.nodes.size() == 1);
  CHECK(graph.value(graph.outputs[0]).shape == Shape{1, 4, 3, 3});
}

TEST_CASE("a dimension of extent 0 is fixed, one of -1 is unknown") {
  onnx::ModelProto model = parse_graph(18, "(float[0, 2] x) => (float[0, 2] y) { y = Relu(x) }");
  const Graph empty = import(model);
  CHECK(empty.value(empty.outputs[0]).shape == Shape{0, 2});
  auto& shape = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
  shape.mutable_shape()->mutable_dim(0)->set_dim_value(-1);
  const Graph open = import(model);
  CHECK(open.value(open.inputs[0]).shape == Shape{1, 2});
}

TEST_CASE("sizes of 0, which a share of few channels has, leave the shape of a Resize known") {
  const auto shape_of = [](const std::string& resize) {
    const Graph graph = import(parse_graph(
        18,
        "(float[1, 0, 5, 7] x) => (float[1, 0, 10, 7] y) <int64[4] sizes = {1, 0, 10, 7}, "
        "int64[2] two = {10, 0}> { y = " +
            resize + " }"));
    return to_string(graph.value(graph.outputs[0]).shape);
  };
  CHECK(shape_of("Resize(x, , , sizes)") == "1x0x10x7");
  CHECK(shape_of("Resize<axes = [-2, 1]>(x, , , two)") == "1x0x10x7");
}

TEST_CASE("symbolic dimensions are bound once for all inputs") {
  const onnx::ModelProto model = parse_graph(18, R"(
    (float[batch, 4] x, float[batch, 4] y) => (float[batch, 4] z) { z = Add(x, y) })");
  const Graph graph = import(model, {{{"x", {3, 4}}}, {}, {}, false});
  CHECK(graph.value(graph.inputs[1]).shape == Shape{3, 4});
  CHECK(graph.value(graph.outputs[0]).shape == Shape{3, 4});
}

TEST_CASE("a shape binding is read from NAME=EXTENTS") {
  CHECK(parse_shape_binding("a=b=1x128") == std::pair<std::string, Shape>("a=b", {1, 128}));
  CHECK(parse_shape_binding("batch=7") == std::pair<std::string, Shape>("batch", {7}));
  CHECK(parse_shape_binding("past.*=1x2").first == "past.*");
  CHECK(parse_shape_binding("alpha=scalar").second.empty());
  CHECK(parse_shape_binding("past=1x4x0x8").second == Shape{1, 4, 0, 8});
  for (const char* wrong : {"x", "=1", "x=", "x=1x", "x=-1", "x=1,2", "x=a", "x=1xx2"})
    CHECK_THROWS_WITH(parse_shape_binding(wrong), Catch::Contains("input_ids=1x128"));
}
