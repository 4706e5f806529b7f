#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cost/cost_model.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "sharding/op_shard_spec.h"

namespace autopar {

/// A small graph and a plan for it, written line by line: tensors are called by name, strategies by
/// their text ("RS0,S0R->RR all-reduce").
class PlanSketch {
 public:
  explicit PlanSketch(const std::string& mesh) {
    graph.opsets[""] = 20;
    plan.mesh = sharding::DeviceMesh::parse(mesh);
    plan.device = "cpu";
  }

  void input(const std::string& name, const graph::Shape& shape, const std::string& spec) {
    graph.inputs.push_back(graph.add_value({name, graph::DataType::float32, shape, std::nullopt}));
    store(name, spec);
  }

  /// Element i has the value i.
  void weight(const std::string& name, const graph::Shape& shape, const std::string& spec) {
    std::vector<float> values(static_cast<std::size_t>(graph::num_elements(shape)));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    graph.add_constant(name, graph::Tensor::of_float(shape, values));
    store(name, spec);
  }

  void ints(const std::string& name, const graph::Shape& shape, const std::string& spec) {
    const std::vector<std::int64_t> values(static_cast<std::size_t>(graph::num_elements(shape)));
    graph.add_constant(name, graph::Tensor::of_int64(shape, values));
    store(name, spec);
  }

  void store(const std::string& name, const std::string& spec) {
    plan.stored[id(name)] = sharding::TensorShardSpec::parse(spec);
  }

  /// The last input is a new vector of `shape_like`'s integers where it is given.
  void node(const std::string& op_type, const std::vector<std::string>& inputs,
            const std::string& output, const graph::Shape& shape, const std::string& strategy,
            const std::vector<std::int64_t>& shape_like = {}) {
    if (!shape_like.empty()) {
      const auto length = static_cast<std::int64_t>(shape_like.size());
      graph.add_constant(inputs.back(), graph::Tensor::of_int64({length}, shape_like));
      store(inputs.back(), "R");
    }
    graph::Node node{output, op_type, "", {}, {}, {}};
    for (const std::string& name : inputs) node.inputs.push_back(id(name));
    const graph::DataType type = graph.value(node.inputs[0]).type;
    node.outputs = {graph.add_value({output, type, shape, std::nullopt})};
    graph.nodes.push_back(node);
    plan.operators.push_back(choose(node, strategy));
  }

  void output(const std::string& name) { graph.outputs.push_back(id(name)); }

  graph::ValueId id(const std::string& name) const {
    const auto found = std::ranges::find(graph.values, name, &graph::Value::name);
    require(found != graph.values.end(), "a sketch names its own tensors");
    return static_cast<graph::ValueId>(found - graph.values.begin());
  }

  cost::CostModel cost(const cost::DeviceModel& device = cost::load_device_model("cpu")) const {
    return {device, plan.mesh};
  }

  graph::Graph graph;
  plan::Plan plan;

 private:
  /// The strategy of that text. Axes of size 1, which are never enumerated, are chosen as on a mesh
  /// where they have size 2.
  sharding::OpShardSpec choose(const graph::Node& node, const std::string& text) const {
    std::vector<int> sizes = plan.mesh.axis_sizes();
    for (int& size : sizes) size = std::max(size, 2);
    const auto rule = sharding::sharding_rule(graph, node);
    std::string known;
    for (auto& choice : sharding::enumerate_op_shard_specs(*rule, sharding::DeviceMesh(sizes),
                                                           sharding::input_shapes(graph, node),
                                                           sharding::output_shapes(graph, node))) {
      if (to_string(choice) == text) return choice;
      known += to_string(choice) + "; ";
    }
    throw std::logic_error(node.op_type + " has no strategy " + text + " among " + known);
  }
};

}  // namespace autopar
