#pragma once

#include <onnx/onnx_pb.h>

#include "graph/graph.h"
#include "graph/onnx/model_file.h"

namespace autopar::graph {

/// The data of a tensor among a node's attributes.
using TensorReader = std::function<Tensor(const onnx::TensorProto&)>;

/// A node's attributes as our own. Throws Error, which names `where` the node is, for those that
/// hold graphs, types or sparse tensors.
std::map<std::string, Attribute> convert_attributes(const onnx::NodeProto& node,
                                                    const TensorReader& read_tensor,
                                                    std::string_view where);

/// Operator, domain and attributes of a node as our own; inputs and outputs are left empty. Throws
/// Error for attributes that hold graphs, types or sparse tensors.
Node convert_node(const onnx::NodeProto& node, ModelFile& file);

/// What a Constant node holds, in whichever of its attributes.
Tensor constant_of(const onnx::NodeProto& node, ModelFile& file);

}  // namespace autopar::graph
