#include "graph/onnx/opset_upgrade.h"

#include "unit/graph/models.h"

using namespace autopar::graph;

namespace {

/// The nodes that a graph of an old opset is imported as.
Lines upgraded(int opset, const std::string& graph) {
  return text_of(import(parse_graph(opset, graph)));
}

}  // namespace

TEST_CASE("attributes that became inputs are upgraded") {
  struct Case {
    int opset;
    std::string before;
    std::string after;
  };
  const std::string x = "(float[2, 1, 6] x) => (float[A, B, C] y) ";
  const std::vector<Case> cases = {
      {7, "{ y = Squeeze<axes = [1]>(x) }", "y = Squeeze(x, [1])"},
      {7, "{ y = Squeeze(x) }", "y = Squeeze(x)"},
      {11, "{ y = Unsqueeze<axes = [0, 2]>(x) }", "y = Unsqueeze(x, [0,2])"},
      {7, "{ y = ReduceSum<axes = [0], keepdims = 0>(x) }", "y = ReduceSum<keepdims=0>(x, [0])"},
      {17, "{ y = ReduceMean<axes = [-1]>(x) }", "y = ReduceMean(x, [-1])"},
      {13, "{ y = ReduceMax(x) }", "y = ReduceMax(x)"},
      {9, "{ y = Slice<starts = [1], ends = [4], axes = [2]>(x) }", "y = Slice(x, [1], [4], [2])"},
      {7, "{ y = Slice<starts = [0], ends = [1]>(x) }", "y = Slice(x, [0], [1])"},
      {7, "{ y = Clip<min = -1.0, max = 6.0>(x) }", "y = Clip(x, -1, 6)"},
      {7, "{ y = Clip<max = 6.0>(x) }", "y = Clip(x, -, 6)"},
      {7, "{ y = Pad<pads = [0, 0, 1, 0, 0, 1], value = 0.5>(x) }",
       "y = Pad(x, [0,0,1,0,0,1], 0.5)"},
      {7, "{ y = Pad<mode = \"edge\", pads = [0, 0, 1, 0, 0, 1]>(x) }",
       "y = Pad<mode=edge>(x, [0,0,1,0,0,1])"},
      {12, "{ y = Softmax<axis = -1>(x) }", "y = Softmax<axis=2>(x)"},
      {13, "{ y = Softmax<axis = -1>(x) }", "y = Softmax<axis=-1>(x)"},
      {8, "{ y = Upsample<mode = \"nearest\", scales = [1.0, 1.0, 2.0]>(x) }",
       "y = Resize<coordinate_transformation_mode=asymmetric, mode=nearest, "
       "nearest_mode=floor>(x, -, [1,1,2])"},
      {9, "<float[3] s = {1, 1, 2}> { y = Upsample<mode = \"linear\">(x, s) }",
       "y = Resize<coordinate_transformation_mode=asymmetric, mode=linear, "
       "nearest_mode=floor>(x, -, [1,1,2])"},
      {10, "<float[3] s = {1, 1, 2}> { y = Resize<mode = \"nearest\">(x, s) }",
       "y = Resize<coordinate_transformation_mode=asymmetric, mode=nearest, "
       "nearest_mode=floor>(x, -, [1,1,2])"},
      {11, "<int64[2,1,6] i = {0,0,0,0,0,0,0,0,0,0,0,0}> { y = GatherElements<axis=0>(x, i) }",
       "y = GatherElements<axis=0>(x, [0,0,0,0,0,0,0,0,0,0,0,0])"},
  };
  for (const Case& c : cases) {
    INFO("opset " << c.opset << ": " << c.before);
    CHECK(upgraded(c.opset, x + c.before) == Lines{c.after});
  }
}

TEST_CASE("GridSample's interpolations have new names") {
  const auto sampled = [](const std::string& mode) {
    return upgraded(16,
                    "(float[1, 1, 4, 4] x, float[1, 2, 2, 2] g) => (float[A, B, C, D] y) "
                    "{ y = GridSample<mode = \"" +
                        mode + "\">(x, g) }");
  };
  CHECK(sampled("bilinear") == Lines{"y = GridSample<mode=linear>(x, g)"});
  CHECK(sampled("bicubic") == Lines{"y = GridSample<mode=cubic>(x, g)"});
  CHECK(sampled("nearest") == Lines{"y = GridSample<mode=nearest>(x, g)"});
}

TEST_CASE("operands that were broadcast along an axis, and other forms before opset 7") {
  const std::string x = "(float[2, 3, 4] x, float[3] b) => (float[A, B, C] y) ";
  const auto reshaped = [](const std::string& op, const std::string& attributes = "") {
    return Lines{"y/operand_1 = Reshape(b, [3,1])", "y = " + op + attributes + "(x, y/operand_1)"};
  };
  CHECK(upgraded(6, x + "{ y = Add<broadcast = 1, axis = 1>(x, b) }") == reshaped("Add"));
  CHECK(upgraded(1, x + "{ y = Mul<broadcast = 1, axis = -2, consumed_inputs = [0, 0]>(x, b) }") ==
        reshaped("Mul"));
  CHECK(upgraded(6,
                 "(float[2, 3, 4] x, float[4] b) => (float[A, B, C] y) "
                 "{ y = Sub<broadcast = 1>(x, b) }") == Lines{"y = Sub(x, b)"});
  CHECK(upgraded(6,
                 "(float[2, 3] x, float[3, 4] w, float[4] b) => (float[A, B] y) "
                 "{ y = Gemm<broadcast = 1>(x, w, b) }") == Lines{"y = Gemm(x, w, b)"});
  CHECK(upgraded(6, x + "{ y = PRelu(x, b) }") == reshaped("PRelu"));
  const std::string one = "(float[2, 3, 4] x) => (float[A, B, C] y) ";
  CHECK(upgraded(1, one + "{ y = Relu<consumed_inputs = [0]>(x) }") == Lines{"y = Relu(x)"});
  CHECK(upgraded(1, one + "{ y = Reshape<shape = [4, 3, 2]>(x) }") ==
        Lines{"y = Reshape(x, [4,3,2])"});
  CHECK(upgraded(1, one + "{ y = Cast<to = \"DOUBLE\">(x) }") == Lines{"y = Cast<to=11>(x)"});
  CHECK(upgraded(1, one + "{ y = Pad<paddings = [0, 0, 1, 0, 0, 0]>(x) }") ==
        Lines{"y = Pad(x, [0,0,1,0,0,0])"});
  CHECK(upgraded(1, one + "{ y = Concat(x, x) }") == Lines{"y = Concat<axis=1>(x, x)"});
  CHECK(upgraded(1, one + "<float[1] n = {3}, float[1] d = {2}> { y = Tile(x, n, d) }") ==
        Lines{"y = Tile(x, [1,1,3])"});
  CHECK(upgraded(1, one + "{ y = Selu(x) }") == Lines{"y = Selu<alpha=1.6732, gamma=1.0507>(x)"});
  CHECK(upgraded(1,
                 "(float[1, 1, 2, 3] x) => (float[A, B, C, D] y) "
                 "{ y = Upsample<height_scale = 2.0, width_scale = 3.0>(x) }") ==
        Lines{"y = Resize<coordinate_transformation_mode=asymmetric, nearest_mode=floor>"
              "(x, -, [1,1,2,3])"});
}

TEST_CASE("Split says its sizes, or into how many") {
  const std::string ports = "(float[2, 6] x) => (float[2, A] a, float[2, B] b) ";
  CHECK(upgraded(7, ports + "{ a, b = Split<axis = 1, split = [2, 4]>(x) }") ==
        Lines{"a, b = Split<axis=1>(x, [2,4])"});
  CHECK(upgraded(11, ports + "{ a, b = Split<axis = 1>(x) }") ==
        Lines{"a, b = Split<axis=1, num_outputs=2>(x)"});
  CHECK(upgraded(13, ports + "<int64[2] s = {1, 5}> { a, b = Split<axis = 1>(x, s) }") ==
        Lines{"a, b = Split<axis=1>(x, [1,5])"});
}

TEST_CASE("an old Softmax over several dimensions becomes one over a flat matrix") {
  CHECK(upgraded(11, "(float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax(x) }") ==
        Lines{"y/flat = Flatten<axis=1>(x)", "y/result = Softmax<axis=1>(y/flat)",
              "y = Reshape<allowzero=1>(y/result, [2,3,4])"});
  CHECK(upgraded(11, "(float[2, 3, 1] x) => (float[2, 3, 1] y) { y = LogSoftmax(x) }") ==
        Lines{"y = LogSoftmax<axis=1>(x)"});
}

TEST_CASE("a Range of vectors of one number is one of scalars") {
  onnx::NodeProto range;
  range.set_op_type("Range");
  for (const char* name : {"first", "limit", "step"}) range.add_input(name);
  range.add_output("y");
  const Value vector{"v", DataType::int64, {1}, {}};
  const Value scalar{"s", DataType::int64, {}, {}};
  const UpgradeServices services{
      [&](const std::string& name) -> const Value& { return name == "step" ? scalar : vector; },
      [](const std::string& wanted, const Tensor&) { return wanted; }};
  const auto nodes = upgrade_node(range, 18, 18, services);
  REQUIRE(nodes.size() == 3);
  CHECK(nodes[0].op_type() == "Reshape");
  CHECK(nodes[0].input(0) == "first");
  CHECK(nodes[2].input(0) == nodes[0].output(0));
  CHECK(nodes[2].input(1) == nodes[1].output(0));
  CHECK(nodes[2].input(2) == "step");
}

TEST_CASE("TopK and Scatter take their later forms") {
  CHECK(
      upgraded(7, "(float[2, 6] x) => (float[2, 3] v, int64[2, 3] i) { v, i = TopK<k = 3>(x) }") ==
      Lines{"v, i = TopK(x, [3])"});
  CHECK(upgraded(9, R"((float[4] x, int64[2] i, float[2] u) => (float[4] y) {
    y = Scatter<axis = 0>(x, i, u) })") == Lines{"y = ScatterElements<axis=0>(x, i, u)"});
}

TEST_CASE("BatchNormalization loses the attribute and outputs of training") {
  CHECK(upgraded(7, R"((float[1, 2, 3] x, float[2] s, float[2] b, float[2] m, float[2] v)
    => (float[1, 2, 3] y) {
      y, mean, var, saved_mean, saved_var = BatchNormalization<spatial = 1>(x, s, b, m, v) })") ==
        Lines{"y = BatchNormalization(x, s, b, m, v)"});
}

TEST_CASE("a bound of a type other than float32 is cast") {
  CHECK(upgraded(7, "(float16[2] x) => (float16[2] y) { y = Clip<min = 0.5>(x) }") ==
        Lines{"y/min_cast = Cast<to=10>(0.5)", "y = Clip(x, y/min_cast)"});
}

TEST_CASE("group normalisation by groups raises the opset to the form by channels") {
  const Graph graph = import(parse_graph(18, R"(
    (float[1, 4, 3] x) => (float[1, 4, 3] y) <float[2] s = {1, 2}, float[2] b = {3, 4}> {
      y = GroupNormalization<num_groups = 2>(x, s, b)
    })"));
  CHECK(graph.opsets.at("") == 21);
  CHECK(graph.nodes.back().op_type == "GroupNormalization");
  CHECK(graph.value(graph.nodes.back().inputs[1]).shape == Shape{4});
}

TEST_CASE("the target opset is the model's, but at least 18") {
  CHECK(target_opset(parse_graph(7, "(float[2] x) => (float[2] y) { y = Relu(x) }")) == 18);
  CHECK(target_opset(parse_graph(21, "(float[2] x) => (float[2] y) { y = Relu(x) }")) == 21);
}
