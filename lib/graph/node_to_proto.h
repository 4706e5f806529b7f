#pragma once

#include <onnx/onnx_pb.h>

#include "graph/graph.h"

namespace autopar::graph {

/// The node as ONNX writes it, its values by their names in the graph.
onnx::NodeProto node_to_proto(const Graph& graph, const Node& node);

}  // namespace autopar::graph
