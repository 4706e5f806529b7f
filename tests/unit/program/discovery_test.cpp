// What running an operator finds of how it can be split, and that running disproves rules that are
// wrong.

#include "sharding/discovery/discovery.h"

#include <onnx/defs/schema.h>
#include <onnx/defs/shape_inference.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "graph/onnx/infer_node.h"
#include "graph/onnx/schema_registry.h"
#include "runtime/executable.h"
#include "sharding/decomposition.h"
#include "sharding/discovery/discovered_rules.h"
#include "sharding/discovery/rule_proof.h"
#include "sharding/discovery/smaller_instance.h"
#include "unit/sharding/node_sketch.h"

using namespace autopar;
using namespace autopar::sharding;
using graph::DataType;
using graph::Graph;
using graph::Tensor;
using Texts = std::set<std::string>;

namespace {

const ShardRunner& runner() {
  static const ShardRunner result(runtime::evaluate_constants);
  return result;
}

/// Integers that are inputs are numbers from 0 to `most_index`.
std::vector<OperatorRun> runs_of(const Graph& graph, int most_index = 2) {
  std::mt19937 random(3);
  std::vector<OperatorRun> runs;
  for (int draw = 0; draw < 2; ++draw) {
    std::vector<Tensor> inputs;
    for (const graph::ValueId id : graph.inputs) {
      const graph::Value& value = graph.value(id);
      const bool is_index = !graph::is_floating_point(value.type);
      inputs.push_back(runner().random(value.type, value.shape, is_index ? 0 : -2,
                                       is_index ? most_index + 1 : 2, random));
    }
    auto run = run_whole(graph, std::move(inputs), runner());
    REQUIRE(run);
    runs.push_back(std::move(*run));
  }
  return runs;
}

/// Every split that is found, and every group of inputs that the operator is linear in.
Texts found_of(const Graph& graph, int most_index = 2) {
  const Discovery found = discover(runs_of(graph, most_index), runner());
  Texts texts;
  for (const DiscoveredSplit& split : found.splits) {
    texts.insert(to_string(split, graph, graph.nodes[0]));
  }
  for (const auto& group : found.linear) {
    std::string text = "linear";
    for (const int input : group) text += " " + std::to_string(input);
    texts.insert(text);
  }
  return texts;
}

/// Choices of the rule that running disproves on the mesh.
std::vector<std::string> disproved(const Graph& graph, const ShardingRule& rule,
                                   const DeviceMesh& mesh = DeviceMesh({2})) {
  const std::vector<OperatorRun> runs = runs_of(graph);
  std::vector<std::string> texts;
  for (const OpShardSpec& choice : all_choices(rule, runs[0], mesh)) {
    if (!disproof(rule, choice, mesh, runs[0], runner()).empty())
      texts.push_back(to_string(choice));
  }
  return texts;
}

Operand indices(const Shape& shape) { return of(shape, DataType::int64); }

}  // namespace

TEST_CASE("a product's loops are found, and which of them is a sum") {
  CHECK(found_of(sketch("MatMul", {of({4, 6}), of({6, 5})}, {of({4, 5})})) ==
        Texts{"S0R,RR->S0R", "RS0,S0R->RR sum", "RR,RS0->RS0", "linear 0", "linear 1"});
  // Equal extents say nothing of what belongs together.
  CHECK(found_of(sketch("MatMul", {of({4, 4}), of({4, 4})}, {of({4, 4})})) ==
        Texts{"S0R,RR->S0R", "RS0,S0R->RR sum", "RR,RS0->RS0", "linear 0", "linear 1"});
}

TEST_CASE("what is jointly linear is found by its smallest groups") {
  CHECK(found_of(sketch("Sub", {of({4, 3}), of({3})}, {of({4, 3})})) ==
        Texts{"S0R,R->S0R", "RS0,S0->RS0", "linear 0 1"});
  CHECK(found_of(sketch("Gemm", {of({4, 6}), of({6, 5}), of({5})}, {of({4, 5})})) ==
        Texts{"S0R,RR,R->S0R", "RR,RS0,S0->RS0", "linear 0 2", "linear 1 2"});
}

TEST_CASE("an operator that works along a dimension leaves it whole") {
  CHECK(found_of(sketch("Softmax", {of({4, 6})}, {of({4, 6})})) == Texts{"S0R->S0R"});
  CHECK(found_of(sketch("Concat", {of({4, 6}), of({4, 6})}, {of({4, 12})},
                        {{"axis", std::int64_t{1}}})) == Texts{"S0R,S0R->S0R", "linear 0 1"});
}

TEST_CASE("reductions are told apart") {
  const auto reduced = [](const std::string& op_type) {
    return found_of(sketch(op_type, {of({4, 6}), ints({1})}, {of({4, 1})}));
  };
  CHECK(reduced("ReduceSum") == Texts{"S0R,R->S0R", "RS0,R->RR sum", "linear 0"});
  CHECK(reduced("ReduceMean") == Texts{"S0R,R->S0R", "RS0,R->RR mean", "linear 0"});
  CHECK(reduced("ReduceMax") == Texts{"S0R,R->S0R", "RS0,R->RR max"});
  CHECK(reduced("ReduceMin") == Texts{"S0R,R->S0R", "RS0,R->RR min"});
  CHECK(reduced("ReduceL2") == Texts{"S0R,R->S0R"});
}

TEST_CASE("what counts a loop is found among attributes and constants") {
  const Graph grouped = sketch("Conv", {of({3, 8, 6}), of({12, 2, 3})}, {of({3, 12, 4})},
                               {{"group", std::int64_t{4}}});
  CHECK(found_of(grouped) == Texts{"S0RR,RRR->S0RR", "RS0R,S0RR->RS0R", "linear 0", "linear 1"});
  const Graph reshape = sketch("Reshape", {of({6, 5}), ints({6, 1, 5})}, {of({6, 1, 5})});
  CHECK(found_of(reshape) == Texts{"S0R,R->S0RR", "RS0,R->RRS0", "linear 0"});
}

TEST_CASE("a lookup's indices split, and its table only where nothing is looked up") {
  const Graph graph = sketch("Gather", {of({3, 6}), indices({4})}, {of({4, 6})});
  CHECK(found_of(graph) == Texts{"RR,S0->S0R", "RS0,R->RS0", "linear 0"});
}

TEST_CASE("a rule of what is found is proven by running it") {
  const Graph graphs[] = {
      sketch("MatMul", {of({2, 4, 6}), of({6, 5})}, {of({2, 4, 5})}),
      sketch("Conv", {of({3, 8, 6}), of({12, 2, 3})}, {of({3, 12, 4})},
             {{"group", std::int64_t{4}}}),
      sketch("Reshape", {of({6, 4}), ints({6, 2, 2})}, {of({6, 2, 2})}),
      sketch("ReduceMean", {of({4, 6}), ints({1})}, {of({4, 1})}),
      sketch("LayerNormalization", {of({2, 4, 6}), of({6}), of({6})}, {of({2, 4, 6})})};
  for (const Graph& graph : graphs) {
    const ShardingRule rule = rule_of(discover(runs_of(graph), runner()), graph, graph.nodes[0]);
    for (const DeviceMesh& mesh :
         {DeviceMesh({2}), DeviceMesh({3}), DeviceMesh({4}), DeviceMesh({2, 2})}) {
      CAPTURE(graph.nodes[0].op_type, to_string(mesh));
      CHECK(disproved(graph, rule, mesh).empty());
    }
    // It allows what the table does, as far as that needs nothing of its own making.
    const auto choices = [&](const ShardingRule& of_rule) {
      Texts texts;
      ShardingRule without_sums = of_rule;
      without_sums.linear.clear();
      for (const auto& choice : all_choices(without_sums, runs_of(graph)[0], DeviceMesh({2}))) {
        if (!splits_normalized(of_rule, choice.factor_axes)) texts.insert(to_string(choice));
      }
      return texts;
    };
    CHECK(choices(rule) == choices(*sharding_rule(graph, graph.nodes[0])));
  }
}

TEST_CASE("running disproves what a rule should not allow") {
  const Graph softmax = sketch("Softmax", {of({4, 6})}, {of({4, 6})});
  CHECK(disproved(softmax,
                  make_rule("ab->ab", std::vector<Shape>{{4, 6}}, std::vector<Shape>{{4, 6}})) ==
        std::vector<std::string>{"RS0->RS0"});
  const Graph l2 = sketch("ReduceL2", {of({4, 6}), ints({1})}, {of({4, 1})});
  const std::vector<FactorOptions> sum{{'b', FactorKind::sum}};
  CHECK(disproved(l2, make_rule("ab,1->a1", std::vector<Shape>{{4, 6}, {1}},
                                std::vector<Shape>{{4, 1}}, sum)) ==
        std::vector<std::string>{"RS0,R->RR+P0"});
  ShardingRule relu = *sharding_rule(sketch("Relu", {of({4})}, {of({4})}),
                                     sketch("Relu", {of({4})}, {of({4})}).nodes[0]);
  relu.linear = {{0}};
  CHECK(disproved(sketch("Relu", {of({4})}, {of({4})}), relu) ==
        std::vector<std::string>{"R+P0->R+P0"});
}

TEST_CASE("a node's outputs are inferred from its graph") {
  const Graph graph = sketch("Reshape", {of({4, 6}), ints({3, -1})}, {of({3, 8})});
  const auto inferred = graph::infer_node(graph, graph.nodes[0]);
  REQUIRE(inferred.size() == 1);
  CHECK(inferred[0].type == DataType::float32);
  CHECK(inferred[0].shape == Shape{3, 8});
  const Graph wrong = sketch("MatMul", {of({4, 6}), of({5, 6})}, {of({4, 6})});
  CHECK_THROWS_AS(graph::infer_node(wrong, wrong.nodes[0]), Error);
}

namespace {

/// An operator of a domain that no table knows: a softmax over the last dimension whose result has
/// its heads, which an attribute counts, in front.
Graph heads_graph(std::int64_t heads, std::int64_t rows = 5, std::int64_t columns = 12) {
  static const bool is_registered = [] {
    onnx::OpSchemaRegistry::DomainToVersionRange::Instance().AddDomainToVersion("test.discovery", 1,
                                                                                1);
    graph::SchemaRegistry::instance().add(
        onnx::OpSchema("SoftmaxOfHeads", __FILE__, __LINE__)
            .SetDomain("test.discovery")
            .SinceVersion(1)
            .Attr("heads", "", onnx::AttributeProto::INT)
            .Input(0, "x", "", "T")
            .Output(0, "y", "", "T")
            .TypeConstraint("T", {"tensor(float)"}, "")
            .TypeAndShapeInferenceFunction([](onnx::InferenceContext& context) {
              onnx::propagateElemTypeFromInputToOutput(context, 0, 0);
              const auto& shape = onnx::getInputShape(context, 0);
              const std::int64_t count = context.getAttribute("heads")->i();
              if (count < 1 || shape.dim(1).dim_value() % count != 0)
                fail_shape_inference("heads do not divide");
              onnx::TensorShapeProto result;
              result.add_dim()->set_dim_value(count);
              *result.add_dim() = shape.dim(0);
              result.add_dim()->set_dim_value(shape.dim(1).dim_value() / count);
              onnx::updateOutputShape(context, 0, result);
            }));
    return true;
  }();
  require(is_registered, "a schema is registered once");
  Graph graph = sketch("SoftmaxOfHeads", {of({rows, columns})},
                       {of({heads, rows, columns / heads})}, {{"heads", heads}});
  graph.nodes[0].domain = "test.discovery";
  graph.opsets["test.discovery"] = 1;
  return graph;
}

/// Runs it by ONNX's own operators.
std::optional<std::vector<Tensor>> evaluate_heads(const Graph& graph) {
  if (graph.nodes[0].op_type != "SoftmaxOfHeads") return runtime::evaluate_constants(graph);
  const graph::Node& node = graph.nodes[0];
  const std::int64_t heads = node.int_attribute("heads", 1);
  const Shape in = graph.value(node.inputs[0]).shape;
  const Shape split{in[0], heads, in[1] / heads};
  const Shape out{heads, in[0], in[1] / heads};
  Graph body = sketch("Reshape", {of(in), ints(split)}, {of(split)});
  body.value(body.inputs[0]).constant = graph.value(node.inputs[0]).constant;
  body.inputs.clear();
  const auto turned = body.add_value({"turned", DataType::float32, out, std::nullopt});
  const auto result = body.add_value({"result", DataType::float32, out, std::nullopt});
  body.nodes.push_back({"turn",
                        "Transpose",
                        "",
                        {body.outputs[0]},
                        {turned},
                        {{"perm", std::vector<std::int64_t>{1, 0, 2}}}});
  body.nodes.push_back({"softmax", "Softmax", "", {turned}, {result}, {}});
  body.outputs = {result};
  return runtime::evaluate_constants(body);
}

}  // namespace

TEST_CASE("an operator that the table does not know gets a rule that is remembered") {
  const Graph graph = heads_graph(4);
  CHECK_FALSE(sharding_rule(graph, graph.nodes[0]).has_value());
  CHECK(discover_rules(graph, evaluate_heads).empty());
  CHECK(texts_of(graph) == std::vector<std::string>{"RR->RRR", "S0R->RS0R", "RS0->S0RR"});
  CHECK_FALSE(sharding_rule(heads_graph(3), heads_graph(3).nodes[0]).has_value());

  // The shard that has half of the heads.
  const ShardingRule rule = rule_of(graph);
  Graph shard = graph;
  LocalNode local{shard, rule, graph.nodes[0], {}};
  for (const Factor& factor : rule.factors) local.factor_ranges.push_back({0, factor.size});
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].size == 4) local.factor_ranges[f] = {2, 4};
  }
  REQUIRE(rule.localize);
  append_local(local);
  CHECK(shard.nodes.back().int_attribute("heads", 0) == 2);
}

TEST_CASE("what cannot be run, or not be trusted, gets no rule and a reason") {
  std::string why_not;
  const auto has_rule = [&](const Graph& graph) {
    return discover_rule(graph, graph.nodes[0], runtime::evaluate_constants, why_not).has_value();
  };
  CHECK(has_rule(sketch("CumSum", {of({4, 6}), scalar(1)}, {of({4, 6})})));
  CHECK_FALSE(has_rule(sketch("CumSum", {of({4, 6}), of({}, DataType::int64)}, {of({4, 6})})));
  CHECK(why_not == "it reads integers that are known only at run time and may name dimensions");
  CHECK_FALSE(has_rule(sketch("Relu", {of({4099, 4099})}, {of({4099, 4099})})));
  CHECK(why_not == "its tensors are too large to run it often");
  CHECK_FALSE(has_rule(sketch("MatMul", {of({4, 6}), of({5, 6})}, {of({4, 6})})));
  CHECK(why_not == "it does not run on random numbers");
  CHECK_FALSE(has_rule(sketch("Softmax", {of({6})}, {of({6})})));
  CHECK(why_not == "no dimension splits");
}

TEST_CASE("an operator on large tensors is run on smaller ones, and splits as these do") {
  std::string why_not;
  const auto rule_of_large = [&](const Graph& graph) {
    auto rule = discover_rule(graph, graph.nodes[0], evaluate_heads, why_not);
    INFO(why_not);
    REQUIRE(rule);
    return *rule;
  };
  using Sizes = std::multiset<std::int64_t>;
  const auto split_sizes = [](const ShardingRule& rule) {
    Sizes sizes;
    for (const Factor& factor : rule.factors)
      if (factor.kind != FactorKind::whole) sizes.insert(factor.size);
    return sizes;
  };
  CHECK(split_sizes(rule_of_large(sketch("Relu", {of({3072, 4096})}, {of({3072, 4096})}))) ==
        Sizes{3072, 4096});
  // An inner dimension becomes partial sums.
  const Graph product = sketch("MatMul", {of({4096, 2048}), of({2048, 8192})}, {of({4096, 8192})});
  CHECK(split_sizes(rule_of_large(product)) == Sizes{2048, 4096, 8192});
  // Heads stay as many as the attribute says; what grows is what each has.
  const Graph heads = heads_graph(32, 2048, 4096);
  const ShardingRule rule = rule_of_large(heads);
  CHECK(split_sizes(rule) == Sizes{32, 2048});
  CHECK(rule.inputs[0][1].size() == 2);
  // Outputs that are not of the inputs' proportions leave nothing to divide.
  const Graph grown = sketch("Pad", {of({2048, 1024}), ints({1, 0, 0, 0})}, {of({2049, 1024})});
  CHECK(smaller_instance(grown, 1 << 22).has_value());
  CHECK_FALSE(smaller_instance(grown, 1 << 14).has_value());
}

TEST_CASE("extents that are equal are divided alike, no further than they tell something") {
  const Graph graph = sketch("MatMul", {of({4096, 2048}), of({2048, 8192})}, {of({4096, 8192})});
  const auto smaller = smaller_instance(graph, 1 << 18);
  REQUIRE(smaller);
  CHECK(elements_of_node(*smaller) <= 1 << 18);
  const auto shape = [&](graph::ValueId id) { return smaller->value(id).shape; };
  CHECK(shape(0)[1] == shape(1)[0]);
  CHECK(shape(2) == Shape{shape(0)[0], shape(1)[1]});
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    for (std::size_t d = 0; d < 2; ++d)
      CHECK(graph.values[v].shape[d] % shape(static_cast<graph::ValueId>(v))[d] == 0);
  CHECK_FALSE(smaller_instance(graph, 100).has_value());
}
