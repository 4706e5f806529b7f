#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "sharding/decomposition.h"
#include "sharding/rules/table.h"
#include "unit/sharding/node_sketch.h"

using namespace autopar::sharding;
using autopar::graph::DataType;
using autopar::graph::Graph;
using autopar::graph::Node;
using Texts = std::vector<std::string>;
using Ints = std::vector<std::int64_t>;

namespace {

/// The node as it is written for one rank under the first choice of this text, and what follows it.
struct Localized {
  Graph shard;
  std::vector<std::int64_t> ints(std::size_t input) const {
    const auto id = shard.nodes.back().inputs.at(input);
    return shard.value(id).constant.value().to_int64s();
  }
  const autopar::graph::Node& node() const { return shard.nodes.back(); }
};

Localized localized(const Graph& graph, const std::string& choice, int rank,
                    const DeviceMesh& mesh = DeviceMesh({2})) {
  const ShardingRule rule = rule_of(graph);
  for (const OpShardSpec& spec : choices_of(graph, mesh)) {
    if (to_string(spec) != choice) continue;
    Localized result{graph};
    result.shard.nodes.clear();
    const auto& node = graph.nodes.front();
    const auto shrink = [&](autopar::graph::ValueId id, const TensorShardSpec& tensor) {
      if (id == autopar::graph::no_value) return;
      result.shard.value(id).shape = local_shape(tensor, graph.value(id).shape, mesh, rank);
    };
    for (std::size_t i = 0; i < node.inputs.size(); ++i) shrink(node.inputs[i], spec.inputs[i]);
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      shrink(node.outputs[i], spec.computed[i]);
    }
    REQUIRE(rule.localize);
    append_local({result.shard, rule, node, factor_ranges(rule, spec.factor_axes, mesh, rank)});
    autopar::graph::check_invariants(result.shard);
    return result;
  }
  FAIL("no choice " << choice);
  return {};
}

}  // namespace

TEST_CASE("the table names each operator once and knows those of the sample models") {
  std::set<std::pair<std::string_view, std::string_view>> names;
  for (const RuleEntry& entry : rule_table()) {
    CAPTURE(std::string(entry.op_type));
    CHECK(names.emplace(entry.domain, entry.op_type).second);
    CHECK(find_rule(entry.domain, entry.op_type) == &entry);
  }
  for (const char* op : {"Add",
                         "And",
                         "Cast",
                         "Concat",
                         "ConstantOfShape",
                         "Conv",
                         "Cos",
                         "CumSum",
                         "Div",
                         "Equal",
                         "Erf",
                         "Expand",
                         "Flatten",
                         "Gather",
                         "GatherND",
                         "Gelu",
                         "Gemm",
                         "GreaterOrEqual",
                         "LayerNormalization",
                         "LessOrEqual",
                         "MatMul",
                         "Max",
                         "Mul",
                         "Neg",
                         "Not",
                         "Pow",
                         "Range",
                         "Reciprocal",
                         "ReduceMean",
                         "Relu",
                         "Reshape",
                         "Shape",
                         "Sigmoid",
                         "Sin",
                         "Slice",
                         "Softmax",
                         "Split",
                         "Sqrt",
                         "Squeeze",
                         "Sub",
                         "Tanh",
                         "Transpose",
                         "Unsqueeze",
                         "Where"}) {
    CAPTURE(op);
    CHECK(names.contains({"", op}));
  }
  CHECK(find_rule("", "NoSuchOperator") == nullptr);
  CHECK(find_rule("com.example", "Add") == nullptr);
}

TEST_CASE("an operator without a rule has none, and may run replicated") {
  const Graph graph = sketch("NoSuchOperator", {of({4, 4}), absent()}, {of({4})});
  CHECK_FALSE(sharding_rule(graph, graph.nodes[0]).has_value());
  const auto rule = replicated_rule(graph, graph.nodes[0]);
  const auto choices =
      enumerate_op_shard_specs(rule, DeviceMesh({2, 2}), input_shapes(graph, graph.nodes[0]),
                               output_shapes(graph, graph.nodes[0]));
  REQUIRE(choices.size() == 1);
  CHECK(to_string(choices[0]) == "RR,.->R");
}

TEST_CASE("element-wise operators split every dimension and broadcast") {
  CHECK(texts_of(sketch("Relu", {of({4, 6})}, {of({4, 6})})) ==
        Texts{"RR->RR", "S0R->S0R", "RS0->RS0"});
  CHECK(texts_of(sketch("Add", {of({4, 6}), of({6})}, {of({4, 6})})) ==
        Texts{"RR,R->RR", "S0R,R->S0R", "RS0,S0->RS0"});
  CHECK(texts_of(sketch("Where", {of({1, 6}), of({4, 1}), of({})}, {of({4, 6})})) ==
        Texts{"RR,RR,.->RR", "RR,S0R,.->S0R", "RS0,RR,.->RS0"});
  CHECK(texts_of(sketch("Clip", {of({4}), absent(), of({})}, {of({4})})) ==
        Texts{"R,.,.->R", "S0,.,.->S0"});
  CHECK(texts_of(sketch("CastLike", {of({4}), of({3, 3})}, {of({4})})) ==
        Texts{"R,RR->R", "S0,RR->S0"});
  CHECK(texts_of(sketch("Dropout", {of({4}), of({})}, {of({4}), of({4})})) ==
        Texts{"R,.->R,R", "S0,.->S0,S0"});
  CHECK(texts_of(sketch("Dropout", {of({4}), of({}), scalar(1)}, {of({4})})) == Texts{"R,.,.->R"});
  CHECK(texts_of(sketch("Dropout", {of({4}), absent(), scalar(0)}, {of({4})})).size() == 2);
  CHECK(texts_of(sketch("Cast", {of({4}, DataType::int4)}, {of({4})})) == Texts{"R->R"});
  CHECK(rule_of(sketch("Identity", {of({4})}, {of({4})})).is_view);
  CHECK_FALSE(rule_of(sketch("Dropout", {of({4})}, {of({4}), of({4})})).is_view);
  CHECK_FALSE(rule_of(sketch("Cast", {of({4})}, {of({4})})).is_view);
}

TEST_CASE("a scale by element of a dimension splits with it") {
  CHECK(texts_of(sketch("DequantizeLinear", {of({4, 6}), of({6}), of({6})}, {of({4, 6})})) ==
        Texts{"RR,R,R->RR", "S0R,R,R->S0R", "RS0,S0,S0->RS0"});
  CHECK(texts_of(sketch("QuantizeLinear", {of({4, 6}), of({}), absent()}, {of({4, 6})})) ==
        Texts{"RR,.,.->RR", "S0R,.,.->S0R", "RS0,.,.->RS0"});
  CHECK(texts_of(sketch("DequantizeLinear", {of({4, 6}), of({2, 6})}, {of({4, 6})},
                        {{"axis", std::int64_t{0}}, {"block_size", std::int64_t{2}}})) ==
        Texts{"RR,RR->RR", "S0R,S0R->S0R", "RS0,RS0->RS0"});
}

TEST_CASE("a batched product splits its batch, rows, columns and sum") {
  CHECK(texts_of(sketch("MatMul", {of({2, 4, 6}), of({6, 8})}, {of({2, 4, 8})})) ==
        Texts{"RRR,RR->RRR", "S0RR,RR->S0RR", "RS0R,RR->RS0R", "RRS0,S0R->RRR all-reduce",
              "RRS0,S0R->S0RR reduce-scatter", "RRS0,S0R->RS0R reduce-scatter",
              "RRS0,S0R->RRS0 reduce-scatter", "RRR,RS0->RRS0"});
  CHECK(texts_of(sketch("MatMul", {of({3, 1, 4, 6}), of({5, 6, 8})}, {of({3, 5, 4, 8})}))[2] ==
        "RRRR,S0RR->RS0RR");
}

TEST_CASE("vectors in a product have no matrix dimension") {
  CHECK(texts_of(sketch("MatMul", {of({6}), of({6, 8})}, {of({8})})).back() == "R,RS0->S0");
  CHECK(texts_of(sketch("MatMul", {of({4, 6}), of({6})}, {of({4})}))[1] == "S0R,R->S0");
  CHECK(texts_of(sketch("MatMul", {of({6}), of({6})}, {of({})})) ==
        Texts{"R,R->.", "S0,S0->. all-reduce"});
  CHECK(texts_of(sketch("MatMul", {of({6}), of({3, 6, 8})}, {of({3, 8})}))[3] ==
        "S0,RS0R->RS0 reduce-scatter");
}

TEST_CASE("Gemm's operands lie as its attributes say") {
  CHECK(texts_of(sketch("Gemm", {of({6, 4}), of({8, 6}), of({8})}, {of({4, 8})},
                        {{"transA", std::int64_t{1}}, {"transB", std::int64_t{1}}})) ==
        Texts{"RR,RR,R->RR", "S0R,RS0,R->RR all-reduce", "S0R,RS0,R->S0R reduce-scatter",
              "S0R,RS0,R->RS0 reduce-scatter", "RS0,RR,R->S0R", "RR,S0R,S0->RS0"});
  CHECK(texts_of(sketch("Gemm", {of({4, 6}), of({6, 8}), of({4, 1})}, {of({4, 8})}))[1] ==
        "S0R,RR,S0R->S0R");
}

TEST_CASE("Gemm's bias is added by one device alone") {
  const Graph gemm = sketch("Gemm", {of({4, 6}), of({6, 8}), of({8})}, {of({4, 8})});
  CHECK(localized(gemm, "RS0,S0R,R->RR all-reduce", 0).node().inputs.size() == 3);
  CHECK(localized(gemm, "RS0,S0R,R->RR all-reduce", 1).node().inputs.size() == 2);
  CHECK(localized(gemm, "RR,RS0,S0->RS0", 1).node().inputs.size() == 3);
  // Over four devices that have 2, 2, 2 and none of the sum.
  const DeviceMesh four({4});
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(localized(gemm, "RS0,S0R,R->RR all-reduce", rank, four).node().inputs.size() ==
          (rank == 0 ? 3 : 2));
  }
  // Once in each group where the other axis splits rows.
  const DeviceMesh grid({2, 2});
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(localized(gemm, "S0S1,S1R,R->S0R all-reduce", rank, grid).node().inputs.size() ==
          (rank % 2 == 0 ? 3 : 2));
  }
}

TEST_CASE("Einsum is its equation") {
  const auto einsum = [](const char* equation, std::vector<Operand> in, Operand out) {
    return texts_of(sketch("Einsum", in, {out}, {{"equation", std::string(equation)}}));
  };
  CHECK(einsum("ij, jk -> ik", {of({4, 6}), of({6, 8})}, of({4, 8})) ==
        texts_of(sketch("MatMul", {of({4, 6}), of({6, 8})}, {of({4, 8})})));
  CHECK(einsum("ij,jk", {of({4, 6}), of({6, 8})}, of({4, 8})).size() == 6);
  CHECK(einsum("ba", {of({4, 6})}, of({6, 4}))[1] == "S0R->RS0");
  CHECK(einsum("ii->i", {of({4, 4})}, of({4})) == Texts{"RR->R"});
  CHECK(einsum("...i->...", {of({4, 6})}, of({4})) ==
        Texts{"RR->R", "S0R->S0", "RS0->R all-reduce", "RS0->S0 reduce-scatter"});
  CHECK(einsum("...ij,jk", {of({3, 4, 6}), of({6, 8})}, of({3, 4, 8})) ==
        texts_of(sketch("MatMul", {of({3, 4, 6}), of({6, 8})}, {of({3, 4, 8})})));
  CHECK(einsum("a...,...->a...", {of({4, 1, 6}), of({3, 6})}, of({4, 3, 6})) ==
        Texts{"RRR,RR->RRR", "S0RR,RR->S0RR", "RRR,S0R->RS0R", "RRS0,RS0->RRS0"});
}

TEST_CASE("what an operator works along is whole") {
  CHECK(texts_of(sketch("TopK", {of({4, 6}), ints({2})}, {of({4, 2}), of({4, 2})})) ==
        Texts{"RR,R->RR,RR", "S0R,R->S0R,S0R"});
  CHECK(texts_of(sketch("CumSum", {of({4, 6}), scalar(-1)}, {of({4, 6})})) ==
        Texts{"RR,.->RR", "S0R,.->S0R"});
  CHECK(texts_of(sketch("CumSum", {of({4, 6}), of({})}, {of({4, 6})})) == Texts{"RR,.->RR"});
  CHECK(texts_of(sketch("Trilu", {of({4, 6, 6}), scalar(0)}, {of({4, 6, 6})})) ==
        Texts{"RRR,.->RRR", "S0RR,.->S0RR", "RS0R,.->RS0R", "RRS0,.->RRS0"});
  const Graph triangle = sketch("Trilu", {of({4, 6})}, {of({4, 6})});
  CHECK(localized(triangle, "S0R->S0R", 1).ints(1) == Ints{2});
  CHECK(localized(triangle, "RS0->RS0", 1).ints(1) == Ints{-3});
  CHECK(texts_of(sketch("OneHot", {of({4}), scalar(6), of({2})}, {of({4, 6})})) ==
        Texts{"R,.,R->RR", "S0,.,R->S0R"});
  CHECK(texts_of(sketch("ArgMax", {of({4, 6})}, {of({6})},
                        {{"axis", std::int64_t{0}}, {"keepdims", std::int64_t{0}}})) ==
        Texts{"RR->R", "RS0->S0"});
}

TEST_CASE("what is normalised over is split where the operator can be decomposed") {
  const auto softmax =
      sketch("Softmax", {of({4, 6, 8})}, {of({4, 6, 8})}, {{"axis", std::int64_t{1}}});
  CHECK(texts_of(softmax) == Texts{"RRR->RRR", "S0RR->S0RR", "RS0R->RS0R", "RRS0->RRS0"});
  CHECK(texts_of(sketch("LogSoftmax", {of({4, 6})}, {of({4, 6})})) ==
        Texts{"RR->RR", "S0R->S0R", "RS0->RS0"});
  CHECK(texts_of(sketch("ReduceL2", {of({4, 6}), ints({0})}, {of({1, 6})})) ==
        Texts{"RR,R->RR", "S0R,R->RR", "RS0,R->RS0"});
  CHECK(texts_of(sketch("ReduceL2", {of({4, 6}, DataType::int32), ints({0})},
                        {of({1, 6}, DataType::int32)})) == Texts{"RR,R->RR", "RS0,R->RS0"});
}

TEST_CASE("a decomposed normalisation has the epsilon that is given, or the default") {
  const auto has_number = [](Graph graph, float number) {
    const ShardingRule rule = rule_of(graph);
    const Node node = graph.nodes.front();
    graph.nodes.clear();
    Decomposer decomposer(graph, node);
    rule.decompose(decomposer);
    return std::ranges::any_of(graph.values, [&](const autopar::graph::Value& value) {
      return value.constant && value.type == DataType::float32 &&
             value.constant->values<float>()[0] == number;
    });
  };
  using Attributes = std::map<std::string, autopar::graph::Attribute>;
  const auto norms = [](const Attributes& attributes) {
    Attributes groups = attributes;
    groups["num_groups"] = std::int64_t{1};
    const Operand x = of({2, 4, 6});
    return std::vector{sketch("LayerNormalization", {x, of({6})}, {x}, attributes),
                       sketch("RMSNormalization", {x, of({6})}, {x}, attributes),
                       sketch("InstanceNormalization", {x, of({4}), of({4})}, {x}, attributes),
                       sketch("GroupNormalization", {x, of({4}), of({4})}, {x}, groups)};
  };
  for (const Graph& graph : norms({})) CHECK(has_number(graph, 1e-5F));
  for (const Graph& graph : norms({{"epsilon", 0.25F}})) CHECK(has_number(graph, 0.25F));
}

TEST_CASE("normalisations split whatever else they have") {
  CHECK(texts_of(sketch("LayerNormalization", {of({2, 4, 6}), of({6}), of({6})},
                        {of({2, 4, 6}), of({2, 4, 1}), of({2, 4, 1})})) ==
        Texts{"RRR,R,R->RRR,RRR,RRR", "S0RR,R,R->S0RR,S0RR,S0RR", "RS0R,R,R->RS0R,RS0R,RS0R",
              "RRS0,S0,S0->RRS0,RRR,RRR"});
  CHECK(texts_of(sketch("RMSNormalization", {of({2, 4, 6}), of({4, 6})}, {of({2, 4, 6})},
                        {{"axis", std::int64_t{-2}}})) ==
        Texts{"RRR,RR->RRR", "S0RR,RR->S0RR", "RS0R,S0R->RS0R", "RRS0,RS0->RRS0"});
  CHECK(texts_of(sketch("BatchNormalization", {of({2, 4, 6}), of({4}), of({4}), of({4}), of({4})},
                        {of({2, 4, 6})})) == Texts{"RRR,R,R,R,R->RRR", "S0RR,R,R,R,R->S0RR",
                                                   "RS0R,S0,S0,S0,S0->RS0R", "RRS0,R,R,R,R->RRS0"});
  CHECK(texts_of(
            sketch("InstanceNormalization", {of({2, 4, 6}), of({4}), of({4})}, {of({2, 4, 6})})) ==
        Texts{"RRR,R,R->RRR", "S0RR,R,R->S0RR", "RS0R,S0,S0->RS0R", "RRS0,R,R->RRS0"});
}

TEST_CASE("group normalisation gives whole groups to a device") {
  const auto norm = [](std::int64_t groups) {
    return sketch("GroupNormalization", {of({2, 12, 6}), of({12}), of({12})}, {of({2, 12, 6})},
                  {{"num_groups", groups}});
  };
  const Graph four = norm(4);
  CHECK(texts_of(four) ==
        Texts{"RRR,R,R->RRR", "S0RR,R,R->S0RR", "RS0R,S0,S0->RS0R", "RRS0,R,R->RRS0"});
  CHECK(texts_of(four, DeviceMesh({3})) == Texts{"RRR,R,R->RRR", "RRS0,R,R->RRS0"});
  const auto local = localized(four, "RS0R,S0,S0->RS0R", 1);
  CHECK(local.node().int_attribute("num_groups", 0) == 2);
  CHECK(texts_of(norm(1)) ==
        Texts{"RRR,R,R->RRR", "S0RR,R,R->S0RR", "RS0R,S0,S0->RS0R", "RRS0,R,R->RRS0"});
  // All groups on one axis leave shares of a group to the other, but in an order that no operator
  // reads.
  for (const auto& choice : choices_of(norm(2), DeviceMesh({2, 2})))
    CHECK(choice.inputs[0].dims[1] != std::vector<int>{1, 0});
}

TEST_CASE("reductions leave partial results, equal shares for a mean") {
  CHECK(texts_of(sketch("ReduceSum", {of({4, 6}), ints({1})}, {of({4, 1})})) ==
        Texts{"RR,R->RR", "S0R,R->S0R", "RS0,R->RR all-reduce", "RS0,R->S0R reduce-scatter"});
  CHECK(texts_of(sketch("ReduceMean", {of({4, 5}), ints({-1})}, {of({4})},
                        {{"keepdims", std::int64_t{0}}})) == Texts{"RR,R->R", "S0R,R->S0"});
  CHECK(texts_of(sketch("ReduceMean", {of({4, 6})}, {of({1, 1})})) ==
        Texts{"RR->RR", "S0R->RR all-reduce", "RS0->RR all-reduce"});
  CHECK(texts_of(sketch("ReduceSum", {of({4}), ints({})}, {of({4})},
                        {{"noop_with_empty_axes", std::int64_t{1}}})) ==
        Texts{"R,R->R", "S0,R->S0"});
  CHECK(texts_of(sketch("ReduceSum", {of({4}), of({1}, DataType::int64)}, {of({1})})) ==
        Texts{"R,R->R"});
  CHECK(texts_of(sketch("ReduceMean", {of({4}, DataType::int32)}, {of({1}, DataType::int32)})) ==
        Texts{"R->R"});
  const auto max = choices_of(sketch("ReduceMax", {of({4})}, {of({1})}), DeviceMesh({2}));
  CHECK(to_string(max[1].computed[0]) == "R+P0max");
}

TEST_CASE("an extremum over nothing is left to floating-point types") {
  const DeviceMesh four({4});  // 5 over 4 leaves the last share empty
  CHECK(texts_of(sketch("ReduceMin", {of({5})}, {of({1})}), four).size() == 2);
  CHECK(texts_of(sketch("ReduceMin", {of({5}, DataType::int32)}, {of({1}, DataType::int32)}), four)
            .size() == 1);
  CHECK(texts_of(sketch("ReduceMin", {of({8}, DataType::int32)}, {of({1}, DataType::int32)}), four)
            .size() == 2);
  CHECK(texts_of(sketch("ReduceMax", {of({8}, DataType::boolean)}, {of({1}, DataType::boolean)}),
                 four)
            .size() == 1);
}

TEST_CASE("a reshape splits heads out of the hidden dimension") {
  const Graph graph = sketch("Reshape", {of({1, 8, 12}), ints({1, 8, 4, 3})}, {of({1, 8, 4, 3})});
  CHECK(texts_of(graph) == Texts{"RRR,R->RRRR", "RS0R,R->RS0RR", "RRS0,R->RRS0R"});
  CHECK(rule_of(graph).is_view);
  const auto local = localized(graph, "RRS0,R->RRS0R", 1);
  CHECK(local.ints(1) == Ints{1, 8, 2, 3});
  CHECK(local.node().int_attribute("allowzero", 0) == 1);
}

TEST_CASE("squeezing names the axes that the global shape had") {
  const Graph squeeze = sketch("Squeeze", {of({1, 2, 1})}, {of({2})});
  CHECK(texts_of(squeeze) == Texts{"RRR->R", "RS0R->S0"});
  CHECK(localized(squeeze, "RS0R->S0", 0).ints(1) == Ints{0, 2});
  CHECK_FALSE(rule_of(sketch("Squeeze", {of({1, 2}), ints({0})}, {of({2})})).localize);
  CHECK(texts_of(sketch("Unsqueeze", {of({2}), ints({0})}, {of({1, 2})})) ==
        Texts{"R,R->RR", "S0,R->RS0"});
  CHECK(texts_of(sketch("Flatten", {of({2, 3, 4})}, {of({2, 12})})) ==
        Texts{"RRR->RR", "S0RR->S0R"});
  CHECK(texts_of(sketch("Flatten", {of({2, 4, 3})}, {of({2, 12})})).back() == "RS0R->RS0");
}

TEST_CASE("data that is moved splits where it passes through") {
  CHECK(
      texts_of(sketch("Transpose", {of({2, 4, 6})}, {of({6, 2, 4})}, {{"perm", Ints{2, 0, 1}}})) ==
      Texts{"RRR->RRR", "S0RR->RS0R", "RS0R->RRS0", "RRS0->S0RR"});
  CHECK(texts_of(sketch("Transpose", {of({2, 4})}, {of({4, 2})}))[1] == "S0R->RS0");
  CHECK(texts_of(sketch("Split", {of({4, 6})}, {of({4, 3}), of({4, 3})},
                        {{"axis", std::int64_t{1}}, {"num_outputs", std::int64_t{2}}})) ==
        Texts{"RR->RR,RR", "S0R->S0R,S0R"});
  CHECK(texts_of(sketch("Concat", {of({4, 6}), of({4, 2})}, {of({4, 8})},
                        {{"axis", std::int64_t{-1}}})) == Texts{"RR,RR->RR", "S0R,S0R->S0R"});
  CHECK(texts_of(sketch("Tile", {of({4, 6}), ints({1, 2})}, {of({4, 12})})) ==
        Texts{"RR,R->RR", "S0R,R->S0R", "RR,R->RS0"});
  CHECK_NOTHROW(texts_of(sketch("Tile", {of({0, 6}), ints({2, 2})}, {of({0, 12})})));
  CHECK_NOTHROW(texts_of(sketch("Tile", {of({4, 6}), ints({0, 2})}, {of({0, 12})})));
  CHECK(localized(sketch("Tile", {of({4, 6}), ints({1, 4})}, {of({4, 24})}), "RR,R->RS0", 1)
            .ints(1) == Ints{1, 2});
  CHECK(texts_of(sketch("Pad", {of({4, 6}), ints({0, 1, 0, 1})}, {of({4, 8})})) ==
        Texts{"RR,R->RR", "S0R,R->S0R"});
  CHECK(texts_of(sketch("Pad", {of({4, 6}), ints({0, 0, 0, 2})}, {of({4, 8})})) ==
        Texts{"RR,R->RR", "S0R,R->S0R"});
  CHECK(texts_of(sketch("Pad", {of({4, 6}), ints({1, -1}), absent(), ints({-1})}, {of({4, 6})})) ==
        Texts{"RR,R,.,R->RR", "S0R,R,.,R->S0R"});
}

TEST_CASE("expanding splits what is new and what was there") {
  const Graph graph = sketch("Expand", {of({4, 1}), ints({2, 1, 6})}, {of({2, 4, 6})});
  CHECK(texts_of(graph) == Texts{"RR,R->RRR", "S0R,R->RS0R", "RR,R->RRS0", "RR,R->S0RR"});
  CHECK(localized(graph, "RR,R->RRS0", 1).ints(1) == Ints{2, 4, 3});
}

TEST_CASE("a slice splits the dimensions that it keeps from end to end") {
  const auto slice = [](Shape in, Shape out, Ints starts, Ints ends, Ints axes, Ints steps) {
    return texts_of(
        sketch("Slice", {of(in), ints(starts), ints(ends), ints(axes), ints(steps)}, {of(out)}));
  };
  CHECK(slice({4, 6}, {4, 3}, {0, 1}, {INT64_MAX, -2}, {0, 1}, {1, 1}) ==
        Texts{"RR,R,R,R,R->RR", "S0R,R,R,R,R->S0R"});
  CHECK(slice({4, 6}, {4, 3}, {3}, {6}, {-1}, {1}) == Texts{"RR,R,R,R,R->RR", "S0R,R,R,R,R->S0R"});
  // Turned around, a dimension keeps its extent but not its order.
  CHECK(slice({4, 6}, {4, 6}, {-1}, {-7}, {1}, {-1}) ==
        Texts{"RR,R,R,R,R->RR", "S0R,R,R,R,R->S0R"});
  CHECK(texts_of(sketch("Slice", {of({4, 6}), ints({0}), ints({2})}, {of({2, 6})})) ==
        Texts{"RR,R,R->RR", "RS0,R,R->RS0"});
  CHECK(texts_of(sketch("Slice", {of({4, 6}), of({1}), of({1})}, {of({2, 6})})) ==
        Texts{"RR,R,R->RR"});
}

TEST_CASE("a lookup splits its table's other dimensions, its indices and its rows") {
  const Graph graph = sketch("Gather", {of({50, 6}), of({2, 4}, DataType::int64)}, {of({2, 4, 6})});
  CHECK(texts_of(graph) == Texts{"RR,RR->RRR", "S0R,RR->RRR all-reduce",
                                 "S0R,RR->S0RR reduce-scatter", "S0R,RR->RS0R reduce-scatter",
                                 "S0R,RR->RRS0 reduce-scatter", "RS0,RR->RRS0", "RR,S0R->S0RR",
                                 "RR,RS0->RS0R"});
  CHECK(localized(graph, "RR,RS0->RS0R", 1).shard.nodes.size() == 1);
  CHECK(localized(graph, "S0R,RR->RRR all-reduce", 1).shard.nodes.size() > 1);
  // Every device needs a row to look at; booleans do not add up.
  CHECK(texts_of(sketch("Gather", {of({5}), of({}, DataType::int64)}, {of({})}), DeviceMesh({4})) ==
        Texts{"R,.->."});
  CHECK(texts_of(sketch("Gather", {of({8}, DataType::boolean), of({}, DataType::int64)},
                        {of({}, DataType::boolean)})) == Texts{"R,.->."});
}

TEST_CASE("other lookups and updates split what they do not index") {
  CHECK(texts_of(sketch("GatherElements", {of({4, 6}), of({4, 3}, DataType::int64)}, {of({4, 3})},
                        {{"axis", std::int64_t{1}}})) ==
        Texts{"RR,RR->RR", "S0R,S0R->S0R", "RR,RS0->RS0"});
  CHECK(texts_of(sketch("GatherElements", {of({4, 6}), of({2, 6}, DataType::int64)}, {of({2, 6})},
                        {{"axis", std::int64_t{1}}})) == Texts{"RR,RR->RR", "RR,RS0->RS0"});
  CHECK(texts_of(sketch("GatherND", {of({2, 5, 6}), of({2, 4, 1}, DataType::int64)},
                        {of({2, 4, 6})}, {{"batch_dims", std::int64_t{1}}})) ==
        Texts{"RRR,RRR->RRR", "S0RR,S0RR->S0RR", "RRS0,RRR->RRS0", "RRR,RS0R->RS0R"});
  CHECK(texts_of(sketch("ScatterND", {of({5, 6}), of({4, 1}, DataType::int64), of({4, 6})},
                        {of({5, 6})})) == Texts{"RR,RR,RR->RR", "RS0,RR,RS0->RS0"});
  CHECK(texts_of(sketch("ScatterElements", {of({4, 6}), of({4, 3}, DataType::int64), of({4, 3})},
                        {of({4, 6})}, {{"axis", std::int64_t{1}}})) ==
        Texts{"RR,RR,RR->RR", "S0R,S0R,S0R->S0R"});
}

TEST_CASE("a convolution splits samples and channels, its bias added once") {
  const Graph conv =
      sketch("Conv", {of({2, 4, 8, 8}), of({6, 4, 3, 3}), of({6})}, {of({2, 6, 6, 6})});
  CHECK(texts_of(conv) ==
        Texts{"RRRR,RRRR,R->RRRR", "S0RRR,RRRR,R->S0RRR", "RS0RR,RS0RR,R->RRRR all-reduce",
              "RS0RR,RS0RR,R->S0RRR reduce-scatter", "RS0RR,RS0RR,R->RS0RR reduce-scatter",
              "RS0RR,RS0RR,R->RRS0R reduce-scatter", "RS0RR,RS0RR,R->RRRS0 reduce-scatter",
              "RRRR,S0RRR,S0->RS0RR"});
  for (int rank = 0; rank < 2; ++rank) {
    const auto local = localized(conv, "RS0RR,RS0RR,R->RRRR all-reduce", rank);
    CHECK(local.node().inputs.size() == (rank == 0 ? 3 : 2));
    CHECK(local.node().int_attribute("group", 0) == 1);
  }
}

TEST_CASE("a grouped convolution gives whole groups to a device") {
  const Graph conv = sketch("Conv", {of({1, 8, 8}), of({12, 2, 3})}, {of({1, 12, 6})},
                            {{"group", std::int64_t{4}}});
  CHECK(texts_of(conv) == Texts{"RRR,RRR->RRR", "RS0R,S0RR->RS0R"});
  CHECK(localized(conv, "RS0R,S0RR->RS0R", 1).node().int_attribute("group", 0) == 2);
  CHECK(texts_of(conv, DeviceMesh({3})) == Texts{"RRR,RRR->RRR"});
  const Graph depthwise =
      sketch("Conv", {of({1, 6, 8}), of({6, 1, 3})}, {of({1, 6, 6})}, {{"group", std::int64_t{6}}});
  CHECK(texts_of(depthwise, DeviceMesh({3})) == Texts{"RRR,RRR->RRR", "RS0R,S0RR->RS0R"});
  const Graph transposed = sketch("ConvTranspose", {of({1, 4, 8}), of({4, 3, 3})}, {of({1, 6, 10})},
                                  {{"group", std::int64_t{2}}});
  CHECK(texts_of(transposed) == Texts{"RRR,RRR->RRR", "RS0R,S0RR->RS0R"});
}

TEST_CASE("pooling and resizing split samples and channels") {
  CHECK(texts_of(sketch("MaxPool", {of({2, 4, 8})}, {of({2, 4, 4})})) ==
        Texts{"RRR->RRR", "S0RR->S0RR", "RS0R->RS0R"});
  CHECK(texts_of(sketch("MaxPool", {of({2, 4, 8})}, {of({2, 4, 4}), of({2, 4, 4})})) ==
        Texts{"RRR->RRR,RRR"});
  CHECK(texts_of(sketch("GlobalAveragePool", {of({2, 4, 8})}, {of({2, 4, 1})})) ==
        Texts{"RRR->RRR", "S0RR->S0RR", "RS0R->RS0R", "RRS0->RRR all-reduce",
              "RRS0->S0RR reduce-scatter", "RRS0->RS0R reduce-scatter"});
  const Graph resize =
      sketch("Resize", {of({2, 4, 8}), absent(), absent(), ints({2, 4, 16})}, {of({2, 4, 16})});
  CHECK(texts_of(resize) == Texts{"RRR,.,.,R->RRR", "S0RR,.,.,R->S0RR", "RS0R,.,.,R->RS0R"});
  CHECK(localized(resize, "RS0R,.,.,R->RS0R", 1).ints(3) == Ints{2, 2, 16});
}

TEST_CASE("attention splits samples, heads and queries") {
  const Graph grouped =
      sketch("Attention", {of({2, 8, 5, 4}), of({2, 4, 7, 4}), of({2, 4, 7, 3}), of({1, 8, 5, 7})},
             {of({2, 8, 5, 3})});
  CHECK(texts_of(grouped) == Texts{"RRRR,RRRR,RRRR,RRRR->RRRR", "S0RRR,S0RRR,S0RRR,RRRR->S0RRR",
                                   "RS0RR,RS0RR,RS0RR,RS0RR->RS0RR", "RRS0R,RRRR,RRRR,RRS0R->RRS0R",
                                   "RRRR,RRRR,RRRS0,RRRR->RRRS0"});
  const Graph one_head = sketch("Attention", {of({2, 8, 5, 4}), of({2, 1, 7, 4}), of({2, 1, 7, 3})},
                                {of({2, 8, 5, 3})});
  CHECK(texts_of(one_head)[2] == "RS0RR,RRRR,RRRR->RS0RR");
  // Two heads of keys over four devices: each has half of the queries' heads.
  const Graph two_heads =
      sketch("Attention", {of({1, 5, 32}), of({1, 7, 8}), of({1, 7, 6})}, {of({1, 5, 24})},
             {{"q_num_heads", std::int64_t{8}}, {"kv_num_heads", std::int64_t{2}}});
  const auto quarter = localized(two_heads, "RRS01,RRS0,RRS0->RRS01", 3, DeviceMesh({2, 2}));
  CHECK(quarter.node().int_attribute("q_num_heads", 0) == 2);
  CHECK(quarter.node().int_attribute("kv_num_heads", 0) == 1);
  const Graph packed =
      sketch("Attention", {of({1, 5, 32}), of({1, 7, 16}), of({1, 7, 12})}, {of({1, 5, 24})},
             {{"q_num_heads", std::int64_t{8}},
              {"kv_num_heads", std::int64_t{4}},
              {"is_causal", std::int64_t{1}}});
  CHECK(texts_of(packed) == Texts{"RRR,RRR,RRR->RRR", "RRS0,RRS0,RRS0->RRS0"});
  const auto local = localized(packed, "RRS0,RRS0,RRS0->RRS0", 1);
  CHECK(local.node().int_attribute("q_num_heads", 0) == 4);
  CHECK(local.node().int_attribute("kv_num_heads", 0) == 2);
}

TEST_CASE("rotary embedding splits samples, heads and positions") {
  CHECK(texts_of(sketch("RotaryEmbedding", {of({2, 4, 6, 8}), of({2, 6, 4}), of({2, 6, 4})},
                        {of({2, 4, 6, 8})})) ==
        Texts{"RRRR,RRR,RRR->RRRR", "S0RRR,S0RR,S0RR->S0RRR", "RS0RR,RRR,RRR->RS0RR",
              "RRS0R,RS0R,RS0R->RRS0R"});
  const Graph packed = sketch("RotaryEmbedding",
                              {of({1, 6, 32}), of({9, 4}), of({9, 4}), of({1, 6}, DataType::int64)},
                              {of({1, 6, 32})}, {{"num_heads", std::int64_t{4}}});
  CHECK(texts_of(packed) ==
        Texts{"RRR,RR,RR,RR->RRR", "RS0R,RR,RR,RS0->RS0R", "RRS0,RR,RR,RR->RRS0"});
  CHECK(localized(packed, "RRS0,RR,RR,RR->RRS0", 0).node().int_attribute("num_heads", 0) == 2);
}

TEST_CASE("quantised products split with their scales and zero points") {
  const DataType bytes = DataType::uint8;
  CHECK(texts_of(sketch("MatMulInteger",
                        {of({4, 6}, bytes), of({6, 8}, bytes), of({4}, bytes), of({8}, bytes)},
                        {of({4, 8}, DataType::int32)})) ==
        Texts{"RR,RR,R,R->RR", "S0R,RR,S0,R->S0R", "RS0,S0R,R,R->RR all-reduce",
              "RS0,S0R,R,R->S0R reduce-scatter", "RS0,S0R,R,R->RS0 reduce-scatter",
              "RR,RS0,R,S0->RS0"});
  CHECK(texts_of(sketch("QLinearMatMul",
                        {of({4, 6}, bytes), of({}), of({}, bytes), of({6, 8}, bytes), of({8}),
                         of({8}, bytes), of({1}), of({1}, bytes)},
                        {of({4, 8}, bytes)})) ==
        Texts{"RR,.,.,RR,R,R,R,R->RR", "S0R,.,.,RR,R,R,R,R->S0R", "RR,.,.,RS0,S0,S0,R,R->RS0"});
  const Graph conv = sketch("QLinearConv",
                            {of({2, 4, 6}, bytes), of({}), of({}, bytes), of({6, 2, 3}, bytes),
                             of({6}), of({6}, bytes), of({}), of({}, bytes), of({6})},
                            {of({2, 6, 4}, bytes)}, {{"group", std::int64_t{2}}});
  CHECK(texts_of(conv) == Texts{"RRR,.,.,RRR,R,R,.,.,R->RRR", "S0RR,.,.,RRR,R,R,.,.,R->S0RR",
                                "RS0R,.,.,S0RR,S0,S0,.,.,S0->RS0R"});
  CHECK(localized(conv, "RS0R,.,.,S0RR,S0,S0,.,.,S0->RS0R", 1).node().int_attribute("group", 0) ==
        1);
}

TEST_CASE("blocks of quantised weights split over columns, and over whole blocks of rows") {
  Graph product =
      sketch("MatMulNBits", {of({4, 64}), of({6, 4, 8}, DataType::uint8), of({6, 4})}, {of({4, 6})},
             {{"K", std::int64_t{64}},
              {"N", std::int64_t{6}},
              {"block_size", std::int64_t{16}},
              {"bits", std::int64_t{4}}});
  product.nodes[0].domain = "com.microsoft";
  CHECK(texts_of(product) == Texts{"RR,RRR,RR->RR", "S0R,RRR,RR->S0R",
                                   "RS0,RS0R,RS0->RR all-reduce",
                                   "RS0,RS0R,RS0->S0R reduce-scatter",
                                   "RS0,RS0R,RS0->RS0 reduce-scatter", "RR,S0RR,S0R->RS0"});
  const auto columns = localized(product, "RR,S0RR,S0R->RS0", 1);
  CHECK(columns.node().int_attribute("N", 0) == 3);
  CHECK(columns.node().int_attribute("K", 0) == 64);
  CHECK(localized(product, "RS0,RS0R,RS0->RR all-reduce", 1).node().int_attribute("K", 0) == 32);
}

TEST_CASE("recurrent networks split samples and directions") {
  const Graph lstm =
      sketch("LSTM", {of({5, 4, 6}), of({2, 16, 6}), of({2, 16, 4}), of({2, 32})},
             {of({5, 2, 4, 4}), of({2, 4, 4}), of({2, 4, 4})},
             {{"hidden_size", std::int64_t{4}}, {"direction", std::string("bidirectional")}});
  CHECK(texts_of(lstm) == Texts{"RRR,RRR,RRR,RR->RRRR,RRR,RRR", "RS0R,RRR,RRR,RR->RRS0R,RS0R,RS0R",
                                "RRR,S0RR,S0RR,S0R->RS0RR,S0RR,S0RR"});
  const auto reverse = localized(lstm, "RRR,S0RR,S0RR,S0R->RS0RR,S0RR,S0RR", 1);
  CHECK(reverse.node().string_attribute("direction", "") == "reverse");
}

TEST_CASE("what shapes are made of stays whole") {
  CHECK(texts_of(sketch("Range", {scalar(0), scalar(8), scalar(1)}, {of({8})})) ==
        Texts{".,.,.->R"});
  CHECK(texts_of(sketch("ConstantOfShape", {ints({8})}, {of({8})})) == Texts{"R->R"});
}
