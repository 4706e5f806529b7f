#include "graph/onnx/tail_file.h"

#include <algorithm>

#include "graph/onnx/import/work.h"
#include "unit/graph/models.h"

using namespace autopar;
using namespace autopar::graph;
using Catch::Matchers::Contains;

namespace {

Imported import_with_tail(const onnx::ModelProto& model, const ImportOptions& options = {}) {
  const TemporaryFolder folder;
  write_model(model, folder / "model.onnx");
  return load_onnx_with_tail(folder / "model.onnx", options);
}

Imported import_with_tail(const std::string& text) {
  return import_with_tail(parse_graph(18, text));
}

Lines outputs_of(const Graph& graph) {
  Lines names;
  for (const ValueId id : graph.outputs) names.push_back(graph.value(id).name);
  return names;
}

onnx::ModelProto saved(const Tail& tail) {
  const TemporaryFolder folder;
  save_tail(tail, folder / "tail.onnx", folder / "tail.data");
  std::ifstream file(folder / "tail.onnx", std::ios::binary);
  onnx::ModelProto model;
  REQUIRE(model.ParseFromIstream(&file));
  return model;
}

/// The operators of the tail's own nodes.
Lines tail_of(const Imported& imported) {
  REQUIRE(imported.tail);
  const onnx::ModelProto model = saved(*imported.tail);
  Lines types;
  for (const auto& node : model.graph().node()) types.push_back(node.op_type());
  return types;
}

Lines names_of(const std::vector<ModelOutput>& outputs) {
  Lines names;
  for (const ModelOutput& output : outputs) names.push_back(output.name + " " + dims_text(output));
  return names;
}

}  // namespace

TEST_CASE("a model whose shapes are known has no tail") {
  const Imported imported = import_with_tail("(float[2] x) => (float[2] y) { y = Relu(x) }");
  CHECK_FALSE(imported.tail);
  CHECK(text_of(imported.graph) == Lines{"y = Relu(x)"});
}

TEST_CASE("the graph ends where shapes are told by a run") {
  const Imported imported = import_with_tail(R"((float[2, 3] x) => (int64[2, N] y) {
    a = Relu(x)
    b = Exp(a)
    t = NonZero(b)
    y = Neg(t) })");
  CHECK(text_of(imported.graph) == Lines{"a = Relu(x)", "b = Exp(a)"});
  CHECK(outputs_of(imported.graph) == Lines{"b"});
  CHECK(tail_of(imported) == Lines{"NonZero", "Neg"});
  const TailSummary& summary = imported.tail->summary;
  CHECK(summary.inputs == Lines{"b"});
  CHECK(names_of(summary.outputs) == Lines{"y 2x?"});
  CHECK(summary.model_outputs == Lines{"y"});
  CHECK(summary.nodes == 2);
  CHECK_THAT(summary.first_node, Contains("NonZero"));
}

TEST_CASE("branches of known shape stay in the graph, and what reads both kinds is the tail's") {
  const Imported imported =
      import_with_tail(R"((float[4] x, float[4] z) => (float[4] s, float[M] y) {
    a = Relu(x)
    keep = Less(a, z)
    t = Compress(z, keep)
    s = Exp(a)
    u = Neg(s)
    v = ReduceSum(t)
    y = Add(u, v) })");
  CHECK(text_of(imported.graph) ==
        Lines{"a = Relu(x)", "keep = Less(a, z)", "s = Exp(a)", "u = Neg(s)"});
  CHECK(outputs_of(imported.graph) == Lines{"s", "keep", "u"});
  CHECK(tail_of(imported) == Lines{"Compress", "ReduceSum", "Add"});
  CHECK(imported.tail->summary.inputs == Lines{"keep", "z", "u"});
  CHECK(imported.tail->summary.model_outputs == Lines{"s", "y"});
}

TEST_CASE("an output of the model that the tail reads, too, is one output") {
  const Imported imported = import_with_tail(R"((float[4] x) => (float[4] s, int64[1, N] y) {
    s = Relu(x)
    y = NonZero(s) })");
  CHECK(outputs_of(imported.graph) == Lines{"s"});
  CHECK(imported.tail->summary.inputs == Lines{"s"});
}

TEST_CASE("what the tail calls otherwise than the graph keeps both names") {
  const Imported imported = import_with_tail(R"((float[4] x) => (float[4] s, int64[1, N] y) {
    a = Relu(x)
    s = Identity(a)
    b = Identity(a)
    c = Identity(x)
    t = NonZero(b)
    n = NonZero(c)
    m = Concat<axis = 1>(t, n)
    y = Identity(m) })");
  CHECK(text_of(imported.graph) == Lines{"s = Relu(x)"});
  CHECK(imported.tail->summary.inputs == Lines{"s", "x"});
  const Lines types = tail_of(imported);
  const auto count = [&](const char* type) { return std::ranges::count(types, type); };
  CHECK(count("NonZero") == 2);
  CHECK(count("Identity") == 3);
}

TEST_CASE("a node whose outputs are not needed leaves no tail") {
  const Imported imported = import_with_tail(R"((float[4] x) => (float[4] y) {
    t = NonZero(x)
    y = Relu(x) })");
  CHECK_FALSE(imported.tail);
}

TEST_CASE("nodes in functions: those before the first of unknown shape stay in the graph") {
  const std::string functions = R"(
    <domain: "com.example", opset_import: ["" : 18]>
    inner (p) => (q) { h = Relu(p) q = NonZero(h) }
    <domain: "com.example", opset_import: ["" : 18, "com.example" : 1]>
    outer (p) => (q) { e = Exp(p) i = com.example.inner(e) q = Neg(i) })";
  const Imported imported =
      import_with_tail(parse_model(R"(<ir_version: 8, opset_import: ["" : 18, "com.example" : 1]>
    tested (float[4] x) => (int64[1, N] y) { s = Sin(x) y = com.example.outer(s) })" +
                                   functions));
  CHECK(imported.graph.nodes.size() == 3);
  CHECK(tail_of(imported) == Lines{"NonZero", "Neg"});
}

TEST_CASE("branches of an If with different shapes are the tail's") {
  const Imported imported = import_with_tail(R"((float[4] x, bool c) => (float[N] y) {
    a = Relu(x)
    b = Exp(a)
    y = If(c) <then_branch = yes () => (float[4] t) { t = Neg(a) },
               else_branch = no () => (float[8] e) { e = Concat<axis = 0>(a, b) }> })");
  CHECK(outputs_of(imported.graph) == Lines{"a", "b"});
  CHECK(imported.tail->summary.inputs == Lines{"a", "b", "c"});
  CHECK(tail_of(imported) == Lines{"If"});
}

TEST_CASE("a tail has the weights that it reads, those in nested graphs, too") {
  std::string numbers = "1";
  for (int i = 1; i < 300; ++i) numbers += ",1";
  const Imported imported = import_with_tail(
      parse_graph(18, "(float[300] x, bool c) => (float[N] y) <float[300] w = {" + numbers + R"(}> {
    a = Mul(x, w)
    b = Exp(a)
    y = If(c) <then_branch = yes () => (float[300] t) <float[300] v = {)" +
                          numbers + R"(}> { u = Mul(b, v) t = Add(u, w) },
               else_branch = no () => (float[1] e) { e = ReduceSum(a) }> })"));
  const onnx::ModelProto model = saved(*imported.tail);
  REQUIRE(model.graph().initializer_size() == 1);
  CHECK(model.graph().initializer(0).external_data(0).value() == "tail.data");
  const auto& branch = model.graph().node(0).attribute(0).g();
  CHECK(branch.initializer(0).external_data(0).value() == "tail.data");
  CHECK(imported.tail->summary.weight_bytes == 2400);
}

TEST_CASE("an output of strings, and too much left to the tail, are refused") {
  CHECK_THROWS_WITH(import_with_tail(R"((float[4] x) => (int64[1, N] y) { y = NonZero(x) })"),
                    Contains("NonZero") && Contains("nothing is before it that could be split"));
  std::string numbers = "1";
  for (int i = 1; i < 64; ++i) numbers += ",1";
  CHECK_THROWS_WITH(
      import_with_tail("(float[4, 8] x) => (int64[N, 8] y) <float[8, 8] w = {" + numbers + R"(}> {
    a = Relu(x)
    b = Exp(a)
    n = NonZero(a)
    m = Transpose(n)
    f = Cast<to = 1>(m)
    g = Slice(b, m, m)
    h = MatMul(g, w)
    y = Cast<to = 7>(h) })"),
      Contains("NonZero") && Contains("100 % of the weights") && Contains("'a', 'b'") &&
          Contains("cut the model there"));
}

TEST_CASE("a table that is looked up is not computed with") {
  std::string numbers = "1";
  for (int i = 1; i < 64; ++i) numbers += ",1";
  const Imported imported =
      import_with_tail("(float[4, 8] x) => (float[N, 8] y) <float[8, 8] w = {" + numbers +
                       R"(}, float[8, 8] table = {)" + numbers + R"(}> {
    a = MatMul(x, w)
    n = NonZero(a)
    y = Gather(table, n) })");
  CHECK(imported.tail->summary.weight_bytes == 256);
  CHECK(imported.tail->summary.weight_share == 0);
}

TEST_CASE("a tail tells why it begins where it does, though nodes before it are not needed") {
  const Imported imported = import_with_tail(R"((float[4] x) => (int64[1, N] y) {
    a = Relu(x)
    needless = Unique(a)
    y = NonZero(a)
    more = Neg(y) })");
  CHECK(imported.tail->summary.first_node == "the unnamed node (NonZero) of 'y'");
  CHECK_THAT(imported.tail->summary.reason,
             Catch::StartsWith("the shape of its output 'y' is not known before the run"));
}

TEST_CASE("a tail with nearly all of the arithmetic is refused, though weights lie before it") {
  const auto text = [](int channels) {
    return fmt::format(R"((float[8, 64, 64] x) => (float[N, {0}, 62, 62] y) <
        int64[2] places = {{1, 2}}, float least = {{0}}, float one = {{1}},
        int64[4] shape = {{8, 1, 64, 64}}, int64[2] table_shape = {{64, 64}},
        int64[4] kernel_shape = {{{0}, 1, 3, 3}}> {{
      table = Expand(one, table_shape)
      mixed = MatMul(x, table)
      most = ReduceMax<keepdims = 0>(mixed, places)
      keep = Greater(most, least)
      images = Reshape(x, shape)
      kept = Compress<axis = 0>(images, keep)
      kernel = Expand(one, kernel_shape)
      y = Conv(kept, kernel) }})",
                       channels);
  };
  CHECK_THROWS_WITH(import_with_tail(text(2000)), Contains("Compress") &&
                                                      Contains("% of the arithmetic") &&
                                                      Contains("cut the model there"));
  // 62 x 62 x 9 multiply-adds a channel for one image, against 8 x 64 x 64 x 64.
  const double share = import_with_tail(text(64)).tail->summary.work_share;
  CHECK(share > 0.4);
  CHECK(share < 0.6);
}

TEST_CASE("what is counted of a model's arithmetic") {
  const auto work_of = [](const std::string& text) { return work(import(parse_graph(18, text))); };
  CHECK(work_of("(float[4, 8] a, float[8, 3] b) => (float[4, 3] c) { c = MatMul(a, b) }") ==
        4 * 8 * 3);
  CHECK(work_of("(float[8, 4] a, float[3, 8] b) => (float[4, 3] c) "
                "{ c = Gemm<transA = 1, transB = 1>(a, b) }") == 4 * 8 * 3);
  CHECK(work_of("(float[2, 6, 9] a, float[4, 3, 5] b) => (float[2, 4, 5] c) "
                "{ c = Conv<group = 2>(a, b) }") == 2 * 4 * 5 * 3 * 5);
  CHECK(work_of("(float[2, 6, 9] a, float[6, 3, 5] b) => (float[2, 3, 13] c) "
                "{ c = ConvTranspose(a, b) }") == 2 * 6 * 9 * 3 * 5);
  CHECK(work_of("(float[7, 2, 5] x, float[1, 12, 5] w, float[1, 12, 3] r) => (float[7, 1, 2, 3] y) "
                "{ y = LSTM<hidden_size = 3>(x, w, r) }") == 7 * 2 * (12 * 5 + 12 * 3));
  CHECK(work_of("(float[4, 8] a) => (float[4, 8] c) { b = Relu(a) c = Exp(b) }") == 2 * 4 * 8);
}

TEST_CASE("a sequence that is made before the tail is put together again in it") {
  const Imported imported = import_with_tail(R"((float[6, 2] x) => (float[N, 2] y, int64[2, M] z)
 {
    a = Relu(x)
    parts = SplitToSequence<axis = 0>(a)
    z = NonZero(a)
    count = Size(z)
    two = Constant<value_int = 2> ()
    at = Mod(count, two)
    y = SequenceAt(parts, at)
  })");
  CHECK(tail_of(imported).front() == "SequenceConstruct");
  CHECK(imported.tail->summary.inputs.size() == 7);
}
