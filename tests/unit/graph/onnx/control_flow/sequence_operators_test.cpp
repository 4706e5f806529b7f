#include "graph/onnx/control_flow/control_flow.h"

#include "base/error.h"
#include "unit/graph/models.h"

using namespace autopar::graph;
using Catch::Contains;

namespace {

std::string error_of(const std::string& graph) {
  try {
    import(parse_graph(18, graph));
  } catch (const autopar::Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("sequences are lists of tensors while a model is read") {
  CHECK(text_of(import(parse_graph(18, R"(
    (float[2] a, float[2] b, float[2] c) => (float[2] y, float[6] all)
        <int64 first = {0}, int64 last = {-1}, int64 back = {-2}> {
      s = SequenceConstruct(a, b) t = SequenceInsert(s, c, first) u = SequenceInsert(t, c, last)
      v = SequenceErase(u, back) at = SequenceAt(v, last) y = Neg(at)
      all = ConcatFromSequence<axis = 0>(v) })"))) ==
        Lines{"y = Neg(b)", "all = Concat<axis=0>(c, a, b)"});
}

TEST_CASE("a sequence that a Loop of known length appends to is stacked") {
  CHECK(text_of(import(parse_graph(18, R"(
    (float[2] x) => (float[2, 2] y) <int64 n = {2}> {
      none = SequenceEmpty()
      r, s = Loop(n, , x, none) <body = b (int64 i, bool on, float[2] v, seq(float[2]) q)
          => (bool more, float[2] w, seq(float[2]) p) {
        more = Identity(on) w = Neg(v) p = SequenceInsert(q, w) }>
      y = ConcatFromSequence<axis = 0, new_axis = 1>(s) })")))
            .back() ==
        "y = Concat<axis=0>(ConcatFromSequence/Unsqueeze, ConcatFromSequence/Unsqueeze_1)");
}

TEST_CASE("SplitToSequence cuts by one length, by several, or into single rows") {
  const Graph graph = import(parse_graph(18, R"(
    (float[5, 3] x) => (float[2, 3] a, float[1, 3] b, float[4, 3] c, float[3] d, int64 n)
        <int64 two = {2}, int64[2] lengths = {1, 4}, int64 first = {0}, int64 last = {-1}> {
      s = SplitToSequence(x, two) sa = SequenceAt(s, first) a = Neg(sa)
      sb = SequenceAt(s, last) b = Neg(sb)
      t = SplitToSequence(x, lengths) tc = SequenceAt(t, last) c = Neg(tc)
      u = SplitToSequence<keepdims = 0>(x) ud = SequenceAt(u, last) d = Neg(ud)
      n = SequenceLength(u) })"));
  std::vector<Shape> shapes;
  for (const ValueId id : graph.outputs) shapes.push_back(graph.value(id).shape);
  CHECK(shapes == std::vector<Shape>{{2, 3}, {1, 3}, {4, 3}, {3}, {}});
}

TEST_CASE("SequenceMap runs its graph for each tensor") {
  const Graph graph = import(parse_graph(18, R"(
    (float[2] a, float[3] b, float[1] z) => (float[2] y, float[3] w)
        <int64 first = {0}, int64 last = {-1}> {
      s = SequenceConstruct(a, b)
      t = SequenceMap<body = m (float[N] e, float[1] add) => (float[N] f) { f = Add(e, add) }>(s, z)
      y0 = SequenceAt(t, first) y = Neg(y0)
      w0 = SequenceAt(t, last) w = Neg(w0) })"));
  CHECK(graph.nodes.size() == 4);
}

TEST_CASE("optional values are there or not when the model is read") {
  CHECK(text_of(import(parse_graph(18, R"(
    (float[2] x) => (float[2] y) {
      o = Optional(x) has = OptionalHasElement(o) v = OptionalGetElement(o)
      y = If(has) <then_branch = t () => (float[2] p) { p = Neg(v) },
                   else_branch = e () => (float[2] q) { q = Exp(x) }> })"))) ==
        Lines{"y = Neg(x)"});
}

TEST_CASE("what of a sequence only the run tells is refused by name") {
  CHECK_THAT(error_of("(float[2] x, int64 p) => (float[2] y) { s = SequenceConstruct(x, x) "
                      "[at] y = SequenceAt(s, p) }"),
             Contains("node 'at' (SequenceAt)") && Contains("position"));
  CHECK_THAT(error_of("(float[2] x) => (seq(float[2]) y) { y = SequenceConstruct(x, x) }"),
             Contains("output 'y' is a sequence"));
  CHECK_THAT(error_of("(seq(float[2]) x) => (int64 y) { y = SequenceLength(x) }"),
             Contains("input 'x'"));
  CHECK_THAT(error_of("(float[2] x) => (float[2] y) <int64 p = {2}> { s = SequenceConstruct(x, x) "
                      "[at] y = SequenceAt(s, p) }"),
             Contains("node 'at' (SequenceAt)") && Contains("outside"));
  CHECK_THAT(error_of("(float[2] x) => (float[2] y) { s = SequenceConstruct(x, x) "
                      "[neg] y = Neg(s) }"),
             Contains("node 'neg' (Neg)") && Contains("sequence"));
}
