#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace autopar::graph {

struct OutputType {
  DataType type = DataType::undefined;
  std::optional<Shape> shape;  ///< absent where it depends on data
};

/// What ONNX's inference says of a node's outputs: from the types and shapes of its inputs, and the
/// data of small constants. Throws Error where the operator does not allow them.
std::vector<OutputType> infer_node(const Graph& graph, const Node& node);

}  // namespace autopar::graph
