#include "graph/onnx/control_flow/native_loop.h"

#include <onnx/checker.h>

#include "base/error.h"
#include "graph/arena.h"
#include "graph/loop_body.h"
#include "graph/onnx/onnx_export.h"
#include "unit/graph/models.h"

using namespace autopar::graph;
using Catch::Contains;

namespace {

const Node& only_loop(const Graph& graph) {
  const Node* found = nullptr;
  for (const Node& node : graph.nodes)
    if (node.body) {
      REQUIRE(found == nullptr);
      found = &node;
    }
  REQUIRE(found != nullptr);
  return *found;
}

std::string error_of(const std::string& graph) {
  try {
    import(parse_graph(18, graph));
  } catch (const autopar::Error& error) {
    return error.what();
  }
  return {};
}

std::vector<std::string> names_of(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> names;
  for (const ValueId id : ids) names.push_back(text_of(graph, id));
  return names;
}

/// Doubles its value while the sum is below a limit.
const std::string doubling = R"(
    (float[2] x, bool go) => (float[2] y) <int64 n = {9223372036854775807}> {
      y = Loop(n, go, x) <body = b (int64 i, bool on, float[2] v) => (bool more, float[2] w)
          <float limit = {100}> {
        w = Add(v, v) s = ReduceSum<keepdims = 0>(w) more = Less(s, limit) }> })";

}  // namespace

TEST_CASE("a Loop that only the run ends is a node with a body") {
  const Graph graph = import(parse_graph(18, doubling));
  const Node& loop = only_loop(graph);
  CHECK(loop.op_type == "Loop");
  CHECK(names_of(graph, loop.inputs) == Lines{"9223372036854775807", "go", "x"});
  CHECK(names_of(graph, loop.outputs) == Lines{"y"});
  const LoopBody& body = *loop.body;
  CHECK(body.carried == 1);
  CHECK(body.captured() == 0);
  CHECK(body.collected() == 0);
  CHECK(text_of(body.graph) == Lines{"Loop/w = Add(x_1, x_1)",
                                     "Loop/s = ReduceSum<keepdims=0>(Loop/w)",
                                     "Loop/more = Less(Loop/s, 100)"});
  CHECK_FALSE(expected_rounds(graph, loop).is_known);
}

TEST_CASE("what a body reads of the graph around it is captured, its weights among that") {
  const Graph graph = import(parse_graph(18, R"(
    (float[32] x, float[32] z, bool go) => (float[32] y) <int64[2] shape = {32, 32}> {
      big = ConstantOfShape<value = float[1] {0.5}>(shape)
      y = Loop(, go, x) <body = b (int64 i, bool on, float[32] v) => (bool more, float[32] w)
          <float[2] small = {1, 2}> {
        a = MatMul(v, big) c = Add(a, z) w = Add(c, c) s = ReduceSum<keepdims = 0>(w)
        t = ReduceSum<keepdims = 0>(small)
        more = Less(s, t) }> })"));
  const Node& loop = only_loop(graph);
  const LoopBody& body = *loop.body;
  REQUIRE(body.captured() == 2);
  CHECK(names_of(graph, loop.inputs) == Lines{"-", "go", "x", "big", "z"});
  for (const Value& value : body.graph.values)
    if (value.constant) CHECK(value.constant->size_bytes() < 1024);
}

TEST_CASE("what every round leaves as it is is no carried value, and shapes may depend on it") {
  const Graph graph = import(parse_graph(18, R"(
    (float[4, 2] x, bool go) => (float[4, 2] y, int64[2] kept) <int64[2] shape = {2, 4}> {
      y, kept = Loop(, go, x, shape) <body = b (int64 i, bool on, float[4, 2] v, int64[2] s)
          => (bool more, float[4, 2] w, int64[2] same) <int64[2] back = {4, 2}, float most = {9}> {
        same = Identity(s) r = Reshape(v, s) d = Add(r, r) w = Reshape(d, back)
        sum = ReduceSum<keepdims = 0>(w) more = Less(sum, most) }> })"));
  const LoopBody& body = *only_loop(graph).body;
  CHECK(body.carried == 1);
  CHECK(body.graph.inputs.size() == 2);
}

TEST_CASE("a Loop of too many rounds to unroll stays, and collects as many") {
  const Graph graph = import(parse_graph(18, R"(
    (float[2] x) => (float[2] y, float[30000, 2] all) <int64 n = {30000}> {
      y, all = Loop(n, , x) <body = b (int64 i, bool on, float[2] v)
          => (bool more, float[2] w, float[2] k) { more = Identity(on) w = Relu(v) k = Neg(v) }> })"));
  const Node& loop = only_loop(graph);
  CHECK(graph.value(loop.outputs[1]).shape == Shape{30000, 2});
  CHECK(expected_rounds(graph, loop).rounds == 30000);
  CHECK(expected_rounds(graph, loop).is_known);
}

TEST_CASE("a Scan of too many steps to unroll is a Loop that counts them") {
  const Graph graph = import(parse_graph(18, R"(
    (float[2] s, float[2, 20000] x) => (float[2] t, float[2, 20000] y) {
      t, y = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
                  scan_output_axes = [-1], body = b (float[2] a, float[2] e)
          => (float[2] sum, float[2] out) { sum = Add(a, e) out = Neg(sum) }>(s, x) })"));
  CHECK(only_loop(graph).body->collected() == 1);
  CHECK(graph.value(graph.outputs[1]).shape == Shape{2, 20000});
}

TEST_CASE("a carried value that changes its shape is refused by name") {
  const std::string error = error_of(R"(
    (float[1] x, bool go) => (float[A] y) {
      [grows] y = Loop(, go, x) <body = b (int64 i, bool on, float[N] v) => (bool more, float[M] w)
          <float most = {9}> {
        w = Concat<axis = 0>(v, v) s = ReduceSum<keepdims = 0>(w) more = Less(s, most) }> })");
  CHECK_THAT(error, Contains("node 'grows' (Loop)") && Contains("'x'") &&
                        Contains("float32 1 before a round and float32 2 after it"));
}

TEST_CASE("a Loop that only the run counts collects nothing") {
  CHECK_THAT(error_of(R"((float[2] x, int64 n) => (float[2] y, float[A, 2] all) {
      [l] y, all = Loop(n, , x) <body = b (int64 i, bool on, float[2] v)
          => (bool more, float[2] w, float[2] k) { more = Identity(on) w = Relu(v) k = Neg(v) }> })"),
             Contains("node 'l' (Loop): its trip count") && Contains("--constant"));
}

TEST_CASE("a Loop that leaves all as it was is no node") {
  const Graph graph = import(parse_graph(18, R"(
    (float[2] x, bool go) => (float[2] y) {
      y = Loop(, go, x) <body = b (int64 i, bool on, float[2] v) => (bool more, float[2] w)
          <float most = {9}> {
        w = Identity(v) s = ReduceSum<keepdims = 0>(v) more = Less(s, most) }> })"));
  CHECK(text_of(graph) == Lines{"y = Identity(x)"});
}

TEST_CASE("a Loop that nothing ends is refused") {
  const std::string body = R"(<body = b (int64 i, bool on, float[2] v) => (bool more, float[2] w) {
      more = Identity(on) w = Relu(v) }> })";
  CHECK_THAT(error_of("(float[2] x) => (float[2] y) { [l] y = Loop(, , x) " + body),
             Contains("node 'l' (Loop): nothing ends it"));
  CHECK_THAT(error_of("(float[2] x) => (float[2] y) <int64 n = {9223372036854775807}> "
                      "{ [l] y = Loop(n, , x) " +
                      body),
             Contains("node 'l' (Loop)") && Contains("9223372036854775807 rounds"));
}

TEST_CASE("a body may hold a Loop, which captures from both graphs around it") {
  const Graph graph = import(parse_graph(18, R"(
    (float[2] x, float[2] z, bool go) => (float[2] y) {
      y = Loop(, go, x) <body = b (int64 i, bool on, float[2] v) => (bool more, float[2] w)
          <float most = {9}> {
        u = Neg(v)
        w = Loop(, on, v) <body = c (int64 j, bool o, float[2] p) => (bool again, float[2] q) {
            m = Add(p, z) q = Add(m, u) t = ReduceSum<keepdims = 0>(q) again = Less(t, most) }>
        s = ReduceSum<keepdims = 0>(w) more = Less(s, most) }> })"));
  const Node& outer = only_loop(graph);
  CHECK(names_of(graph, outer.inputs) == Lines{"-", "go", "x", "z"});
  const Node& inner = only_loop(outer.body->graph);
  CHECK(inner.body->captured() == 2);
}

TEST_CASE("a Loop in a file of ours is read as it was written") {
  const autopar::TemporaryFolder folder;
  const Graph graph = import(parse_graph(18, doubling));
  save_onnx(graph, folder / "m.onnx", folder / "m.data");
  ImportOptions as_it_is;
  as_it_is.unrolls = false;
  const Graph read = load_onnx(folder / "m.onnx", as_it_is);
  const LoopBody& body = *only_loop(read).body;
  CHECK(body.graph.nodes.size() == only_loop(graph).body->graph.nodes.size());
  CHECK(names_of(read, only_loop(read).inputs) == names_of(graph, only_loop(graph).inputs));
  CHECK(arena_bound(read) == arena_bound(graph));
  CHECK(constant_bytes(read) == constant_bytes(graph));

  onnx::ModelProto proto;
  std::ifstream file(folder / "m.onnx", std::ios::binary);
  REQUIRE(proto.ParseFromIstream(&file));
  CHECK_NOTHROW(onnx::checker::check_model(proto));
}

TEST_CASE("a body's arena counts in the bound of the graph's") {
  const Graph graph = import(parse_graph(18, doubling));
  const std::int64_t body = arena_bound(body_to_run(graph, only_loop(graph)));
  CHECK(body > 0);
  CHECK(bodies_bound(graph) == body);
  Graph without = graph;
  for (Node& node : without.nodes) node.body = nullptr;
  CHECK(arena_bound(graph) == arena_bound(without) + body);
}
