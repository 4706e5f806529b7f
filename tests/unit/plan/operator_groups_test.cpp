#include "plan/operator_groups.h"

#include <catch2/catch.hpp>

#include "search/search_plan.h"

using namespace autopar;

namespace {

/// `layers` times y = x + W2 gelu(W1 x), named as an exporter would; the last W2 is replaced by a
/// product of another width where `odd_hidden` is not 0.
graph::Graph layered(int layers, std::int64_t odd_hidden = 0) {
  graph::Graph graph;
  graph.opsets[""] = 20;
  const auto value = [&](const std::string& name, const graph::Shape& shape) {
    return graph.add_value({name, graph::DataType::float32, shape, std::nullopt});
  };
  const auto weight = [&](const std::string& name, const graph::Shape& shape) {
    return graph.add_constant(name, graph::Tensor::zeros(graph::DataType::float32, shape));
  };
  auto x = value("x", {64, 32});
  graph.inputs = {x};
  for (int layer = 0; layer < layers; ++layer) {
    const std::int64_t hidden = odd_hidden != 0 && layer == layers - 1 ? odd_hidden : 96;
    const std::string name = "/h." + std::to_string(layer);
    const auto a = value(name + "/a", {64, hidden});
    const auto b = value(name + "/b", {64, hidden});
    const auto c = value(name + "/c", {64, 32});
    const auto y = value(name + "/y", {64, 32});
    const auto up = weight("h." + std::to_string(layer) + ".up.weight", {32, hidden});
    const auto down = weight("h." + std::to_string(layer) + ".down.weight", {hidden, 32});
    graph.nodes.push_back({name + "/up/MatMul", "MatMul", "", {x, up}, {a}, {}});
    graph.nodes.push_back({name + "/Gelu", "Gelu", "", {a}, {b}, {}});
    graph.nodes.push_back({name + "/down/MatMul", "MatMul", "", {b, down}, {c}, {}});
    graph.nodes.push_back({name + "/Add", "Add", "", {c, x}, {y}, {}});
    x = y;
  }
  graph.outputs = {x};
  return graph;
}

const cost::CostModel& two_devices() {
  static const cost::CostModel cost{cost::load_device_model("h200"), sharding::DeviceMesh({2})};
  return cost;
}

/// Every operator and tensor whole.
plan::Plan replicated_plan(const graph::Graph& graph) {
  plan::Plan plan;
  plan.mesh = two_devices().mesh();
  plan.predicted.cost_seconds = 1;
  for (const graph::Node& node : graph.nodes) {
    plan.operators.push_back(
        sharding::enumerate_op_shard_specs(*sharding::sharding_rule(graph, node), plan.mesh,
                                           sharding::input_shapes(graph, node),
                                           sharding::output_shapes(graph, node))
            .front());
  }
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const auto value = static_cast<graph::ValueId>(id);
    if (graph.is_constant(value) || value == graph.inputs[0]) {
      plan.stored.emplace(value,
                          sharding::TensorShardSpec::replicated(graph.values[id].shape.size()));
    }
  }
  return plan;
}

const plan::OperatorGroup& group_of(const std::vector<plan::OperatorGroup>& groups,
                                    graph::NodeId node) {
  for (const auto& group : groups) {
    if (std::ranges::find(group.members, node) != group.members.end()) return group;
  }
  throw std::runtime_error("in no group");
}

}  // namespace

TEST_CASE("a name's pattern is without the layer's number and the order of export") {
  CHECK(plan::name_pattern("/model/layers.3/q_proj/MatMul") == "/model/layers.*/q_proj/MatMul");
  CHECK(plan::name_pattern("/h.11/MatMul_1") == "/h.*/MatMul");
  CHECK(plan::name_pattern("node_linear") == "node_linear");
  CHECK(plan::name_pattern("node_linear_117") == "node_linear");
  CHECK(plan::name_pattern("node_view_2/split_1_split_0") == "node_view/split_split");
  CHECK(plan::name_pattern("conv2d") == "conv*d");
  CHECK(plan::name_pattern("7") == "*");
  CHECK(plan::name_pattern("") == "");
}

TEST_CASE("a common name is a glob of the layers, and the first name in all else") {
  using Names = std::vector<std::string>;
  CHECK(plan::common_name(Names{"/h.0/MatMul_1", "/h.1/MatMul_1"}) == "/h.*/MatMul_1");
  CHECK(plan::common_name(Names{"/h.0/MatMul_1"}) == "/h.0/MatMul_1");
  CHECK(plan::common_name(Names{"node_linear", "node_linear_7"}) == "node_linear");
  CHECK(plan::common_name(Names{"node_linear_3", "node_linear_7"}) == "node_linear_3");
  CHECK(plan::common_name(Names{"a.0.b.2", "a.0.b.3"}) == "a.0.b.*");
  CHECK(plan::common_name(Names{"up", "down"}) == "up");
}

TEST_CASE("operators of repeated layers are one group") {
  const graph::Graph graph = layered(6);
  const auto groups = plan::group_operators(graph, two_devices(), replicated_plan(graph));
  const auto& up = group_of(groups, 8);
  CHECK(up.name == "/h.*/up/MatMul");
  CHECK(up.weight == "h.*.up.weight");
  // The first layer reads the model's input, all others an Add.
  CHECK(up.members == std::vector<graph::NodeId>{4, 8, 12, 16, 20});
  CHECK(up.is_major);
  const auto& gelu = group_of(groups, 1);
  CHECK(gelu.members.size() == 6);
  CHECK(gelu.weight.empty());
  CHECK_FALSE(gelu.is_major);
  CHECK(group_of(groups, 2).members.size() == 6);
  std::size_t all = 0;
  for (const auto& group : groups) all += group.members.size();
  CHECK(all == graph.nodes.size());
}

TEST_CASE("another shape, strategy, or spec of an input makes another group") {
  const graph::Graph odd = layered(6, 128);
  const auto of_odd = plan::group_operators(odd, two_devices(), replicated_plan(odd));
  CHECK(group_of(of_odd, 22).members == std::vector<graph::NodeId>{22});

  const graph::Graph graph = layered(6);
  plan::Plan plan = replicated_plan(graph);
  const auto choices = sharding::enumerate_op_shard_specs(
      *sharding::sharding_rule(graph, graph.node(9)), plan.mesh,
      sharding::input_shapes(graph, graph.node(9)), sharding::output_shapes(graph, graph.node(9)));
  plan.operators[9] = choices.back();  // the third layer's Gelu
  REQUIRE(to_string(choices.back()) != to_string(choices.front()));
  const auto groups = plan::group_operators(graph, two_devices(), plan);
  CHECK(group_of(groups, 9).members.size() == 1);
  CHECK(group_of(groups, 1).members.size() == 5);
  const auto& reader = group_of(groups, 10);
  CHECK(reader.members.size() == 1);
  CHECK(reader.inputs_as[0] == choices.back().outputs[0]);
}

TEST_CASE("an operator that is no product is major where it takes a large part of the run") {
  const graph::Graph graph = layered(2);
  plan::Plan plan = replicated_plan(graph);
  const auto gelu = group_of(plan::group_operators(graph, two_devices(), plan), 1);
  plan.predicted.cost_seconds = gelu.seconds * 19;  // two of them are more than a tenth
  CHECK(group_of(plan::group_operators(graph, two_devices(), plan), 1).is_major);
  plan.predicted.cost_seconds = gelu.seconds * 21;
  CHECK_FALSE(group_of(plan::group_operators(graph, two_devices(), plan), 1).is_major);
}
