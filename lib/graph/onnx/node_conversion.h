#pragma once

#include <onnx/onnx_pb.h>

#include <string_view>

#include "graph/graph.h"
#include "graph/onnx/model_file.h"

namespace autopar::graph {

/// Operator, domain and attributes of a node as our own; inputs and outputs are left empty. Throws
/// Error for attributes that hold graphs, types or sparse tensors.
Node convert_node(const onnx::NodeProto& node, ModelFile& file);

/// What a Constant node holds, in whichever of its attributes.
Tensor constant_of(const onnx::NodeProto& node, ModelFile& file);

}  // namespace autopar::graph
