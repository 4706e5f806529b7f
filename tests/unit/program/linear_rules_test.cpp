// Every operator that the table of rules calls linear is run: on two tensors in each of its jointly
// linear inputs, and on their sums.

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "sharding/rules/table.h"
#include "sharding/sharding_rule.h"
#include "unit/runtime/run_node.h"

using namespace autopar;
using graph::Attribute;
using graph::DataType;
using graph::Shape;
using graph::Tensor;
using runtime::testing::NodeRun;

namespace {

using Ints = std::vector<std::int64_t>;

class Instances {
 public:
  explicit Instances(unsigned seed = 7) : random_(seed) {}
  Tensor floats(const Shape& shape) {
    return runtime::testing::random_in(DataType::float32, shape, random_, -2, 2);
  }
  static Tensor ints(const Ints& values, bool is_scalar = false) {
    return Tensor::of_int64(is_scalar ? Shape{} : Shape{static_cast<std::int64_t>(values.size())},
                            values);
  }
  static std::pair<DataType, Shape> out(const Shape& shape) { return {DataType::float32, shape}; }

  NodeRun node(const std::string& op_type, std::vector<std::optional<Tensor>> inputs,
               const std::vector<Shape>& outputs,
               std::map<std::string, Attribute> attributes = {}) {
    NodeRun run{.op_type = op_type,
                .attributes = std::move(attributes),
                .inputs = std::move(inputs),
                .outputs = {}};
    for (const Shape& shape : outputs) run.outputs.push_back(out(shape));
    for (std::size_t i = 0; i < run.inputs.size(); ++i) {
      if (run.inputs[i] && run.inputs[i]->type() == DataType::int64) run.constants.push_back(i);
    }
    return run;
  }

  /// At least one of each operator that the table calls linear.
  std::vector<NodeRun> all() {
    const Tensor x = floats({4, 6});
    const Tensor mask = Tensor::of<bool>(DataType::boolean, {3}, std::array{true, false, true});
    const std::map<std::string, Attribute> along_1{{"axis", std::int64_t{1}}};
    std::vector<NodeRun> runs{
        node("Add", {x, floats({6})}, {{4, 6}}),
        node("Sub", {x, floats({4, 1})}, {{4, 6}}),
        node("Sum", {x, floats({6}), x}, {{4, 6}}),
        node("Mean", {x, floats({6})}, {{4, 6}}),
        node("Concat", {x, floats({4, 2})}, {{4, 8}}, along_1),
        node("Mul", {x, floats({6})}, {{4, 6}}),
        node("MatMul", {x, floats({6, 3})}, {{4, 3}}),
        node("Div", {x, floats({6})}, {{4, 6}}),
        node("Neg", {x}, {{4, 6}}),
        node("Identity", {x}, {{4, 6}}),
        node("Cast", {x}, {{4, 6}}, {{"to", std::int64_t{1}}}),
        node("CastLike", {x, floats({})}, {{4, 6}}),
        node("Where", {mask, floats({3}), floats({2, 3})}, {{2, 3}}),
        node("Gemm", {x, floats({6, 3}), floats({3})}, {{4, 3}}, {{"alpha", 0.5F}, {"beta", 3.0F}}),
        node("Gemm", {x, floats({6, 3})}, {{4, 3}}),
        node("Conv", {floats({1, 4, 6}), floats({5, 4, 3}), floats({5})}, {{1, 5, 4}}),
        node("CumSum", {x, ints({1}, true)}, {{4, 6}}),
        node("Trilu", {x}, {{4, 6}}),
        node("ReduceSum", {x, ints({1})}, {{4, 1}}),
        node("ReduceMean", {x, ints({1})}, {{4, 1}}),
        node("Flatten", {floats({2, 3, 4})}, {{2, 12}}),
        node("Reshape", {x, ints({3, 8})}, {{3, 8}}),
        node("Squeeze", {floats({4, 1}), ints({1})}, {{4}}),
        node("Unsqueeze", {x, ints({0})}, {{1, 4, 6}}),
        node("Expand", {floats({4, 1}), ints({4, 6})}, {{4, 6}}),
        node("Pad", {x, ints({0, 1, 2, 0})}, {{6, 7}}),
        node("Pad", {x, ints({0, 1, 2, 0}), Tensor::of_float({}, {{0.0F}})}, {{6, 7}}),
        node("Slice", {x, ints({1}), ints({3})}, {{2, 6}}),
        node("Split", {x, ints({2, 4})}, {{4, 2}, {4, 4}}, along_1),
        node("Tile", {x, ints({2, 1})}, {{8, 6}}),
        node("Transpose", {x}, {{6, 4}}),
        node("Gather", {x, ints({2, -1, 0})}, {{3, 6}}),
        node("GatherElements", {x, Tensor::of_int64({1, 2}, {{3, -1}})}, {{1, 2}}),
        node("GatherND", {x, Tensor::of_int64({1, 2}, {{3, -1}})}, {{1}}),
        node("DepthToSpace", {floats({1, 4, 2, 3})}, {{1, 1, 4, 6}},
             {{"blocksize", std::int64_t{2}}}),
        node("SpaceToDepth", {floats({1, 1, 4, 6})}, {{1, 4, 2, 3}},
             {{"blocksize", std::int64_t{2}}})};
    // The padding's value decides, and so must be known.
    for (NodeRun& run : runs) {
      if (run.op_type == "Pad" && run.inputs.size() > 2) run.constants.push_back(2);
    }
    return runs;
  }

 private:
  std::mt19937 random_;
};

Tensor combined(const Tensor& a, const Tensor& b) {
  std::vector<double> sum = runtime::testing::doubles(a);
  const std::vector<double> more = runtime::testing::doubles(b);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
  return runtime::testing::tensor_of(a.type(), a.shape(), sum);
}

/// Whether f(a) + f(b) = f(a + b), where a and b differ in these inputs alone.
bool is_linear(const NodeRun& run, const std::vector<int>& group) {
  Instances instances(8);  // other numbers than `run` has: a multiple of them would tell less
  NodeRun other = run;
  NodeRun both = run;
  for (const int i : group) {
    const auto input = static_cast<std::size_t>(i);
    other.inputs[input] = instances.floats(run.inputs[input]->shape());
    both.inputs[input] = combined(*run.inputs[input], *other.inputs[input]);
  }
  const std::vector<Tensor> a = run_node(run);
  const std::vector<Tensor> b = run_node(other);
  const std::vector<Tensor> whole = run_node(both);
  for (std::size_t o = 0; o < whole.size(); ++o) {
    const std::vector<double> expected = runtime::testing::doubles(whole[o]);
    const std::vector<double> found = runtime::testing::doubles(combined(a[o], b[o]));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (!(std::fabs(found[i] - expected[i]) < 1e-4)) return false;
    }
  }
  return true;
}

sharding::ShardingRule rule_of(const NodeRun& run) {
  const graph::Graph graph = runtime::testing::make_graph(run);
  return *sharding::sharding_rule(graph, graph.nodes.front());
}

}  // namespace

TEST_CASE("operators are linear in what their rules say") {
  std::set<std::string> tried;
  for (const NodeRun& run : Instances().all()) {
    CAPTURE(run.op_type, run.inputs.size());
    tried.insert(run.op_type);
    const sharding::ShardingRule rule = rule_of(run);
    REQUIRE_FALSE(rule.linear.empty());
    for (const std::vector<int>& group : rule.linear) {
      CAPTURE(group);
      CHECK(is_linear(run, group));
    }
  }
  for (const sharding::RuleEntry& entry : sharding::rule_table()) {
    CAPTURE(std::string(entry.op_type));
    if (tried.contains(std::string(entry.op_type))) CHECK(entry.linear != nullptr);
  }
}

TEST_CASE("operators that are not linear, or not in these inputs, are found out") {
  Instances instances;
  const Tensor x = instances.floats({4, 6});
  const Tensor y = instances.floats({4, 6});
  const Tensor mask = Tensor::of<bool>(DataType::boolean, {2}, std::array{true, false});
  CHECK_FALSE(is_linear(instances.node("Relu", {x}, {{4, 6}}), {0}));
  CHECK_FALSE(is_linear(instances.node("Add", {x, y}, {{4, 6}}), {0}));
  CHECK_FALSE(is_linear(instances.node("Mul", {x, y}, {{4, 6}}), {0, 1}));
  CHECK_FALSE(is_linear(instances.node("Div", {x, y}, {{4, 6}}), {1}));
  CHECK_FALSE(is_linear(instances.node("Max", {x, y}, {{4, 6}}), {0, 1}));
  CHECK_FALSE(is_linear(instances.node("ReduceMax", {x, Instances::ints({1})}, {{4, 1}}), {0}));
  CHECK_FALSE(is_linear(
      instances.node("Where", {mask, instances.floats({2}), instances.floats({2})}, {{2}}), {1}));
  CHECK_FALSE(is_linear(
      instances.node("Gemm", {x, instances.floats({6, 3}), instances.floats({3})}, {{4, 3}}), {0}));
  CHECK_FALSE(is_linear(
      instances.node("Pad", {x, Instances::ints({0, 1, 0, 0}), Tensor::of_float({}, {{1.0F}})},
                     {{4, 7}}),
      {0}));
}

TEST_CASE("what a run alone would tell, or types forbid, is not linear") {
  Instances instances;
  const Tensor x = instances.floats({4, 6});
  const auto linear = [](const NodeRun& run) { return rule_of(run).linear; };
  NodeRun pad = instances.node(
      "Pad", {x, Instances::ints({0, 1, 0, 0}), Tensor::of_float({}, {{0.0F}})}, {{4, 7}});
  CHECK(linear(pad).empty());  // with what is not known
  pad.constants.push_back(2);
  CHECK(linear(pad).size() == 1);
  pad.inputs[2] = Tensor::of_float({}, {{1.0F}});
  CHECK(linear(pad).empty());

  NodeRun cast = instances.node("Cast", {x}, {{4, 6}});
  for (const auto& [to, is_linear] : std::map<DataType, bool>{{DataType::float32, true},
                                                              {DataType::float64, true},
                                                              {DataType::float16, false},
                                                              {DataType::bfloat16, false},
                                                              {DataType::int32, false}}) {
    CAPTURE(graph::name_of(to));
    cast.outputs.front().first = to;
    CHECK(linear(cast).size() == (is_linear ? 1 : 0));
  }
  NodeRun divided = instances.node("Div", {Instances::ints({4}), Instances::ints({3})}, {{1}});
  divided.outputs.front().first = DataType::int64;
  CHECK(linear(divided).empty());
}
