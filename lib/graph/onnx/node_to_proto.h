#pragma once

#include <onnx/onnx_pb.h>

#include "graph/graph.h"

namespace autopar::graph {

/// The node as ONNX writes it, its values by their names in the graph. A Loop's body names what it
/// captures as the graph around it does.
onnx::NodeProto node_to_proto(const Graph& graph, const Node& node);

onnx::TypeProto type_of(const Value& value);
/// A value's name, type and shape.
void write_type(onnx::ValueInfoProto& proto, const Value& value);

}  // namespace autopar::graph
