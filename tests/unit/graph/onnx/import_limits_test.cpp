#include "graph/onnx/import_limits.h"

#include <fmt/format.h>

#include "unit/graph/models.h"

using namespace autopar;
using namespace autopar::graph;
using Catch::Contains;

namespace {

/// Functions each of which calls the one before twice; the first has two nodes.
onnx::ModelProto doubled(int depth) {
  std::string text =
      R"(<ir_version: 8, opset_import: ["" : 18, "d" : 1]> tested (float[2] x) => (float[2] y) {)";
  text += fmt::format("y = d.F{} (x) }}", depth);
  for (int i = 0; i <= depth; ++i) {
    const std::string inner = i == 0 ? "Relu" : fmt::format("d.F{}", i - 1);
    text += fmt::format(
        R"(<domain: "d", opset_import: ["" : 18, "d" : 1]> F{} (a) => (b) {{ t = {} (a) b = {} (t) }})",
        i, inner, inner);
  }
  return parse_model(text);
}

/// Loops within loops that fold away, `trips` rounds each.
onnx::ModelProto nested_loops(int trips) {
  return parse_graph(18, fmt::format(R"((float[2] x) => (float[2] y)
    <int64 n = {{{}}}, bool go = {{1}}, float zero = {{0}}> {{
      sum = Loop (n, go, zero) <body = outer (int64 i, bool c, float a) => (bool d, float b) {{
        d = Identity (c)
        b = Loop (n, go, a) <body = inner (int64 j, bool e, float p) => (bool f, float q) {{
          f = Identity (e)
          q = Identity (p)
        }}>
      }}>
      y = Add (x, sum)
    }})",
                                     trips));
}

ImportOptions limited(const std::string& limits) {
  ImportOptions options;
  options.limits = parse_import_limits(limits);
  return options;
}

/// Ones of as many elements as the length says.
std::optional<std::vector<Tensor>> ones(const Graph& graph) {
  return std::vector{
      Tensor::zeros(graph.value(graph.outputs[0]).type, graph.value(graph.outputs[0]).shape)};
}

}  // namespace

TEST_CASE("limits are read from text, and what is left out stays", "[limits]") {
  const ImportLimits limits = parse_import_limits("constants=4GiB,nodes=7");
  CHECK(limits.constants == std::int64_t{4} << 30);
  CHECK(limits.nodes == 7);
  CHECK(limits.rounds == ImportLimits().rounds);
  CHECK(parse_import_limits("").nodes == ImportLimits().nodes);
  for (const char* wrong :
       {"nodes", "nodes=", "nodes=-1", "nodes=1e3", "knots=3", "nodes=3;rounds=4"})
    CHECK_THROWS_WITH(parse_import_limits(wrong), Contains("--limits") && Contains("nodes=N"));
}

TEST_CASE("functions that double are counted before they are inlined", "[limits]") {
  CHECK(import(doubled(3)).nodes.size() == 16);
  CHECK_THROWS_WITH(import(doubled(40)),
                    Contains("more than 200000 nodes") && Contains("--limits nodes="));
  CHECK_THROWS_WITH(import(doubled(3), limited("nodes=10")), Contains("more than 10 nodes"));
  CHECK(import(doubled(3), limited("nodes=100")).nodes.size() == 16);
}

TEST_CASE("a function that calls itself is refused", "[limits]") {
  const auto model = parse_model(
      R"(<ir_version: 8, opset_import: ["" : 18, "d" : 1]> tested (float[2] x) => (float[2] y)
      { y = d.F (x) }
      <domain: "d", opset_import: ["d" : 1]> F (a) => (b) { b = d.F (a) })");
  CHECK_THROWS_WITH(import(model), Contains("'F' calls itself"));
}

TEST_CASE("rounds of loops within loops are counted altogether", "[limits]") {
  CHECK(import(nested_loops(30)).nodes.size() == 1);
  // No loop by itself is beyond most_rounds.
  CHECK_THROWS_WITH(
      import(nested_loops(5000), limited("rounds=1000")),
      Contains("more than 1000 rounds") && Contains("(Loop)") && Contains("--limits rounds="));
  CHECK_THROWS_AS(import(nested_loops(5000)), LimitReached);
}

TEST_CASE("bytes of folded constants are counted altogether, before they are made", "[limits]") {
  std::string nodes;
  for (int i = 0; i < 8; ++i)
    nodes += fmt::format("k{} = ConstantOfShape (s) y{} = Add (x, k{}) ", i, i, i);
  std::string outputs = "float[1000] y0";
  for (int i = 1; i < 8; ++i) outputs += fmt::format(", float[1000] y{}", i);
  const auto model = parse_graph(
      18, fmt::format("(float[1000] x) => ({}) <int64[1] s = {{1000}}> {{ {} }}", outputs, nodes));
  ImportOptions options = limited("constants=20KB");
  options.evaluate = ones;
  CHECK_THROWS_WITH(import(model, options), Contains("4000 bytes") && Contains("20000 are the") &&
                                                Contains("--limits constants="));
  options.limits = parse_import_limits("constants=40KB");
  CHECK_NOTHROW(import(model, options));
}

TEST_CASE("a node has no more outputs than a search can compare", "[limits]") {
  std::string outputs = "y0";
  std::string types = "float[1] y0";
  for (int i = 1; i < 2000; ++i) {
    outputs += fmt::format(", y{}", i);
    types += fmt::format(", float[1] y{}", i);
  }
  const auto model = parse_graph(
      18, fmt::format("(float[2000] x) => ({}) {{ {} = Split <axis = 0, num_outputs = 2000> (x) }}",
                      types, outputs));
  CHECK_THROWS_WITH(import(model), Contains("(Split)") && Contains("--limits outputs=2000"));
  CHECK(import(model, limited("outputs=2000")).nodes.size() == 1);
}

TEST_CASE("operators' bodies do not make constants as long as an input says", "[limits]") {
  const auto model = parse_graph(18, R"((int64[2147483647] x) => (float[7] y) {
    y = TfIdfVectorizer <mode = "TF", min_gram_length = 2, max_gram_length = 2, max_skip_count = 5,
        ngram_counts = [0, 4], ngram_indexes = [0, 1, 2, 3, 4, 5, 6],
        pool_int64s = [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]> (x) })");
  CHECK_THROWS_WITH(import(model), Contains("TfIdfVectorizer") && Contains("--limits constants="));
}
