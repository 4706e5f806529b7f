#pragma once

#include <map>
#include <string>
#include <vector>

#include "run_node.h"

namespace autopar::runtime::testing {

using graph::ValueId;

/// Writes a graph down node by node, all of it float32 unless told otherwise.
struct Builder {
  graph::Graph graph;

  ValueId value(const std::string& name, const Shape& shape) {
    return graph.add_value({name, DataType::float32, shape, std::nullopt});
  }
  ValueId input(const std::string& name, const Shape& shape) {
    graph.inputs.push_back(value(name, shape));
    return graph.inputs.back();
  }
  ValueId constant(const std::string& name, const Shape& shape) {
    return graph.add_constant(name, Tensor::zeros(DataType::float32, shape));
  }
  ValueId node(const std::string& op_type, const std::vector<ValueId>& inputs, const Shape& shape,
               std::map<std::string, Attribute> attributes = {}) {
    const std::string name = op_type + std::to_string(graph.nodes.size());
    const ValueId output = value(name + "_out", shape);
    graph.nodes.push_back({name, op_type, "", inputs, {output}, std::move(attributes)});
    return output;
  }
  ValueId transpose(ValueId x, const std::vector<std::int64_t>& perm) {
    Shape shape;
    for (const std::int64_t d : perm)
      shape.push_back(graph.value(x).shape[static_cast<std::size_t>(d)]);
    return node("Transpose", {x}, shape, {{"perm", perm}});
  }
};

}  // namespace autopar::runtime::testing
