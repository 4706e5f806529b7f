#pragma once

#include <cstdint>
#include <string>

#include "graph/graph.h"

namespace autopar {

/// y = x + W2 gelu(W1 x), weights large enough to be split. `tensor` makes a weight of its type and
/// shape.
inline graph::Graph block(std::int64_t rows, std::int64_t width, std::int64_t hidden,
                          graph::Tensor (*tensor)(graph::DataType,
                                                  graph::Shape) = graph::Tensor::zeros) {
  graph::Graph graph;
  graph.opsets[""] = 20;
  const auto value = [&](const std::string& name, const graph::Shape& shape) {
    return graph.add_value({name, graph::DataType::float32, shape, std::nullopt});
  };
  const auto weight = [&](const std::string& name, const graph::Shape& shape) {
    return graph.add_constant(name, tensor(graph::DataType::float32, shape));
  };
  const auto x = value("x", {rows, width});
  const auto w1 = weight("w1", {width, hidden});
  const auto w2 = weight("w2", {hidden, width});
  const auto a = value("a", {rows, hidden});
  const auto b = value("b", {rows, hidden});
  const auto c = value("c", {rows, width});
  const auto y = value("y", {rows, width});
  graph.nodes = {{"up", "MatMul", "", {x, w1}, {a}, {}},
                 {"gelu", "Gelu", "", {a}, {b}, {}},
                 {"down", "MatMul", "", {b, w2}, {c}, {}},
                 {"add", "Add", "", {c, x}, {y}, {}}};
  graph.inputs = {x};
  graph.outputs = {y};
  return graph;
}

}  // namespace autopar
