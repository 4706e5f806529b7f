#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "graph/graph.h"

namespace autopar {

/// Four times x = relu(x w + past), each a state.
inline graph::Graph decoder(std::int64_t rows) {
  graph::Graph graph;
  graph.name = "decoder";
  graph.opsets[""] = 20;
  const auto tensor = [&](const std::string& name) {
    return graph.add_value({name, graph::DataType::float32, {rows, 64}, std::nullopt});
  };
  graph::ValueId x = tensor("x");
  graph.inputs = {x};
  for (int i = 0; i < 4; ++i) {
    const std::string name = std::to_string(i);
    const auto w =
        graph.add_constant("w" + name, graph::Tensor::absent(graph::DataType::float32, {64, 64}));
    const auto product = tensor("product" + name), past = tensor("past" + name),
               sum = tensor("sum" + name), present = tensor("present" + name);
    graph.nodes.push_back({"matmul" + name, "MatMul", "", {x, w}, {product}, {}});
    graph.nodes.push_back({"add" + name, "Add", "", {product, past}, {sum}, {}});
    graph.nodes.push_back({"relu" + name, "Relu", "", {sum}, {present}, {}});
    graph.states.push_back({graph.outputs.size(), graph.inputs.size()});
    graph.inputs.push_back(past);
    graph.outputs.push_back(present);
    x = present;
  }
  return graph;
}

}  // namespace autopar
