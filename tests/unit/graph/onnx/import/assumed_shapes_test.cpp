#include "graph/onnx/import/assumed_shapes.h"

#include "graph/onnx/tail_file.h"
#include "unit/graph/models.h"

using namespace autopar;
using namespace autopar::graph;

namespace {

/// What is assumed, "batch 1, sequence 128, total = past + new = 256".
std::string assumed_of(const onnx::ModelProto& model, const ShapeBindings& shapes = {}) {
  const TemporaryFolder folder;
  write_model(model, folder / "model.onnx");
  ImportOptions options;
  options.shapes = shapes;
  std::string text;
  for (const auto& each : load_onnx_with_tail(folder / "model.onnx", options).assumed)
    text +=
        fmt::format("{}{} {}{}", text.empty() ? "" : ", ", each.name,
                    each.formula.empty() ? "" : fmt::format("= {} = ", each.formula), each.extent);
  return text;
}

std::string assumed_of(const std::string& graph, const ShapeBindings& shapes = {}) {
  return assumed_of(parse_graph(18, graph), shapes);
}

std::string shapes_of(const std::string& graph, const ShapeBindings& shapes) {
  ImportOptions options;
  options.shapes = shapes;
  const Graph read = import(parse_graph(18, graph), options);
  std::string text;
  for (const ValueId input : read.inputs)
    text += (text.empty() ? "" : " ") + to_string(read.value(input).shape);
  return text;
}

/// A step of a decoder: new tokens beside a cache, and a mask over both.
const std::string decoder = R"(
  (float[batch, 2, new, 16] q, float[batch, total] mask, float[batch, 2, past, width] cache)
    => (float[batch, 2, new, 16] y) {
    keys = Concat<axis = 2>(cache, q)
    turned = Transpose<perm = [0, 1, 3, 2]>(keys)
    scores = MatMul(q, turned)
    axes = Constant<value_ints = [1, 2]>()
    wide = Unsqueeze(mask, axes)
    masked = Add(scores, wide)
    y = MatMul(masked, keys)
  })";

}  // namespace

TEST_CASE("a shape is an input's, by its name or a glob, or a symbol's extent") {
  const std::string three = R"(
    (float[n, m] past_0, float[n, m] past_1, float[n, k] m) => (float[n, m] y) { y = Relu(past_0) })";
  CHECK(shapes_of(three, {{"past_*", {2, 5}}, {"k", {7}}}) == "2x5 2x5 2x7");
  CHECK(shapes_of(three, {{"n", {3}}, {"past_?", {3, 5}}, {"k", {0}}}) == "3x5 3x5 3x0");
  // An input wins over a symbol of its name, and its own shape over a glob.
  CHECK(shapes_of(three, {{"m", {2, 6}}, {"past_*", {2, 5}}, {"past_1", {2, 4}}}) == "2x5 2x4 2x6");
  CHECK(shapes_of("(float x, float[x] z) => (float y) { y = Relu(x) }", {{"x", {}}}) ==
        "scalar 128");
}

TEST_CASE("what nothing binds is a batch of 1 or 128") {
  const auto of_inputs = [](const std::string& inputs) {
    CAPTURE(inputs);
    const onnx::ModelProto model = parse_graph(
        18, fmt::format("({}) => (float[1] y) {{ y = Constant<value_floats = [1.0]>() }}", inputs));
    return assumed_of(model);
  };
  CHECK(of_inputs("int64[batch, sequence] x, int64[batch, sequence] mask") ==
        "batch 1, sequence 128");
  CHECK(of_inputs("float[Batch_Size, 4, N] x") == "Batch_Size 1, N 128");
  CHECK(of_inputs("float[3, height, width] image") == "height 128, width 128");
  CHECK(of_inputs("float[N, 4, m] x") == "N 1, m 128");
  CHECK(of_inputs("float[rows, 4] x") == "rows 128");
  CHECK(of_inputs("float[2, 3] x").empty());
  // As torch.export and tf2onnx name them
  CHECK(of_inputs("int64[s77, s27] x, float[2, s77, 4, s9] past, float[s77] t") ==
        "s77 1, s27 128, s9 128");
  CHECK(of_inputs("float[unk__1, 4] x, float[unk__2, 4] z") == "unk__1 1, unk__2 1");
  CHECK(of_inputs("float[s0] samples") == "s0 128");
  CHECK(of_inputs("float[s0, batch, 4] x") == "s0 128, batch 1");
  CHECK(of_inputs("float[?, ?, 4] x, float[?] z") ==
        "dimension 0 of 'x' 1, dimension 1 of 'x' 128, dimension 0 of 'z' 128");
}

TEST_CASE("only what is left open is assumed") {
  const std::string text = "(float[batch, n, m] x) => (float[batch, n, m] y) { y = Relu(x) }";
  CHECK(assumed_of(text, {{"x", {1, 2, 3}}}).empty());
  CHECK(assumed_of(text, {{"batch", {4}}, {"m", {3}}}) == "n 128");
  CHECK(shapes_of(text, {{"batch", {4}}, {"m", {3}}}) == "4x128x3");
}

TEST_CASE("sums that the file declares follow, and tell their parts") {
  onnx::ModelProto model = parse_graph(18, R"(
    (float[batch, new] x, float[batch, total] mask) => (float[batch, new] y) { y = Relu(x) })");
  auto& mask = *model.mutable_graph()->mutable_input(1)->mutable_type()->mutable_tensor_type();
  mask.mutable_shape()->mutable_dim(1)->set_dim_param("past + new");
  CHECK(assumed_of(model) == "batch 1, new 128, past 128");
  CHECK(assumed_of(model, {{"new", {1}}, {"mask", {1, 10}}}).empty());
  CHECK(assumed_of(model, {{"mask", {1, 10}}, {"past", {4}}}) == "new 6");
}

TEST_CASE("what a model's nodes tie together is found") {
  CHECK(assumed_of(decoder) == "batch 1, new 128, total = new + past = 256, past 128, width 16");
  CHECK(assumed_of(decoder, {{"new", {1}}}) ==
        "batch 1, total = past + 1 = 129, past 128, width 16");
  CHECK(assumed_of(decoder, {{"new", {1}}, {"mask", {1, 17}}}) == "past 16, width 16");
  CHECK(assumed_of(decoder, {{"cache", {1, 2, 0, 16}}}) == "new 128, total 128");
}

TEST_CASE("what outputs are declared as ties, too") {
  CHECK(assumed_of(R"((float[batch, past] p, float[batch, new] n, float[batch, total] mask)
    => (float[batch, total] y, float[batch, total] z) {
      y = Concat<axis = 1>(p, n) z = Neg(mask) })") ==
        "batch 1, past 128, new 128, total = past + new = 256");
  // What cannot be so is as it was assumed.
  CHECK(assumed_of("(float[batch, n] x) => (float[batch, n] y) { y = Concat<axis = 1>(x, x) }") ==
        "batch 1, n 128");
}

TEST_CASE("unnamed dimensions are tied, and a limit of the model is kept") {
  CHECK(assumed_of("(float[?, ?] x, float[?, ?] z) => (float[A, B] y) { y = Add(x, z) }") ==
        "dimension 0 of 'x' 1, dimension 1 of 'x' 128, dimension 0 of 'z' 1, "
        "dimension 1 of 'z' 128");
  CHECK(assumed_of(R"((float[?, 4] x, float[?, ?] z) => (float[A, B] y) { y = Add(x, z) })") ==
        "dimension 0 of 'x' 1, dimension 0 of 'z' 1, dimension 1 of 'z' 4");
  CHECK(assumed_of(R"((float[batch, n] x, float[100] table) => (float[batch, n] y) {
    y = Add(x, table) })") == "batch 1, n 100");
}

TEST_CASE("branches of an unknown condition are made alike") {
  CHECK(assumed_of(R"((float[past, 4] cache, float[new, 4] x, bool uses_cache)
    => (float[rows, 4] y) {
    y = If (uses_cache) <
      then_branch = with () => (float[rows, 4] a) { a = Concat<axis = 0>(cache, x) },
      else_branch = without () => (float[new, 4] b) { b = Relu(x) }> })") == "past 0, new 128");
}
