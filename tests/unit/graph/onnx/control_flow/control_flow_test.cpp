#include "graph/onnx/control_flow/control_flow.h"

#include "base/error.h"
#include "unit/graph/models.h"

using namespace autopar::graph;

TEST_CASE("a Loop of a known trip count is unrolled, its weights held once") {
  const Graph graph = import(parse_graph(18, R"(
    (float[2] x) => (float[2] y, float[3, 2] all) <int64 n = {3}> {
      y, all = Loop(n, , x) <body = b (int64 i, bool on, float[2] v)
          => (bool on_out, float[2] w, float[2] kept) <float[2] weight = {5, 6}> {
        on_out = Identity(on) w = Mul(v, weight) kept = Neg(w) }>
    })"));
  CHECK(text_of(graph) ==
        Lines{"Loop/0/w = Mul(x, [5,6])", "Loop/0/kept = Neg(Loop/0/w)",
              "Loop/1/w = Mul(Loop/0/w, [5,6])", "Loop/1/kept = Neg(Loop/1/w)",
              "y = Mul(Loop/1/w, [5,6])", "Loop/2/kept = Neg(y)",
              "Loop/Unsqueeze = Unsqueeze(Loop/0/kept, [0])",
              "Loop/Unsqueeze_1 = Unsqueeze(Loop/1/kept, [0])",
              "Loop/Unsqueeze_2 = Unsqueeze(Loop/2/kept, [0])",
              "all = Concat<axis=0>(Loop/Unsqueeze, Loop/Unsqueeze_1, Loop/Unsqueeze_2)"});
  CHECK(std::ranges::count_if(graph.values, [](const Value& value) {
          return value.constant && value.type == DataType::float32;
        }) == 1);
}

TEST_CASE("a Loop whose condition the run tells keeps its values once that fails") {
  CHECK(text_of(import(parse_graph(18, R"(
    (float[2] x, bool go) => (float[2] y) <int64 n = {2}> {
      y = Loop(n, go, x) <body = b (int64 i, bool on, float[2] v) => (bool more, float[2] w) {
        w = Relu(v) s = ReduceSum<keepdims = 0>(w) c = Cast<to = 9>(s) more = Identity(c) }>
    })"))) == Lines{"Loop/0/w = Relu(x)", "Loop/0/s = ReduceSum<keepdims=0>(Loop/0/w)",
                    "Loop/0/c = Cast<to=9>(Loop/0/s)", "Loop/Where = Where(go, Loop/0/w, x)",
                    "Loop/And = And(go, Loop/0/c)", "Loop/1/w = Relu(Loop/Where)",
                    "y = Where(Loop/And, Loop/1/w, Loop/Where)"});
}

TEST_CASE("a Loop that makes no round passes its values") {
  CHECK(text_of(import(parse_graph(18, R"(
    (float[2] x) => (float[2] y) <int64 n = {0}> {
      r = Loop(n, , x) <body = b (int64 i, bool on, float[2] v) => (bool more, float[2] w) {
        more = Identity(on) w = Relu(v) }>
      y = Neg(r)
    })"))) == Lines{"y = Neg(x)"});
}

TEST_CASE("what no round collects has the shape of what a round would make, or is declared") {
  const auto shape_of = [](const std::string& body) {
    const Graph graph = import(parse_graph(18, R"(
      (float[2, 3] x) => (float[A, B, C] y) <int64 n = {0}> {
        r, all = Loop(n, , x) <body = b (int64 i, bool on, float[2, 3] v)
            => (bool more, float[2, 3] w, )" + body +
                                                   R"( }>
        y = Neg(all)
      })"));
    return to_string(graph.value(graph.outputs.at(0)).shape);
  };
  const std::string rest = "{ more = Identity(on) w = Relu(v) ";
  CHECK(shape_of("float[3, 2] c) " + rest + "c = Transpose(w)") == "0x3x2");
  CHECK(shape_of("float c) " + rest + "c = Transpose(w)") == "0x3x2");
  CHECK(shape_of("int64[2, N] c) " + rest + "c = NonZero(w)") == "0x2x0");
}

TEST_CASE("a Scan is unrolled over its inputs in either direction") {
  const Lines lines = text_of(import(parse_graph(18, R"(
    (float[2] s, float[2, 3] x) => (float[2] t, float[2, 3] y) {
      t, y = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
                  scan_output_axes = [-1], body = b (float[2] a, float[2] e)
          => (float[2] sum, float[2] out) { sum = Add(a, e) out = Neg(sum) }>(s, x)
    })")));
  CHECK(lines[0] == "Scan/Gather = Gather<axis=1>(x, 2)");
  // Stacked along a new dimension, which is the last one.
  CHECK(lines.back().starts_with("y = Concat<axis=1>("));
}

TEST_CASE("nested graphs that cannot be read are errors that name the node") {
  const auto error_of = [](const std::string& graph) {
    try {
      import(parse_graph(18, graph));
    } catch (const autopar::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  using Catch::Contains;
  const std::string body =
      "<body = b (int64 i, bool on, float[2] v) => (bool more, float[2] w, float[2] k) "
      "{ more = Cast<to = 9>(i) w = Relu(v) k = Neg(v) }> }";
  CHECK_THAT(error_of("(float[2] x, int64 n) => (float[2] y, float[A, 2] all) "
                      "{ [l] y, all = Loop(n, , x) " +
                      body),
             Contains("node 'l' (Loop): its trip count"));
  CHECK_THAT(error_of("(float[2] x, bool c) => (float[2] y, float[A, 2] all) <int64 n = {4}> "
                      "{ [l] y, all = Loop(n, c, x) " +
                      body),
             Contains("node 'l' (Loop)") && Contains("how much it collects"));
  CHECK_THROWS_AS(import(parse_graph(18,
                                     "(float[2] x, int64 n) => (float[2] y, float[A, 2] all) "
                                     "{ [l] y, all = Loop(n, , x) " +
                                         body)),
                  UnknownShape);
}
