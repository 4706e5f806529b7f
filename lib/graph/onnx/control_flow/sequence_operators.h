#pragma once

#include "graph/onnx/control_flow/control_flow.h"

namespace autopar::graph {

using ReadSequenceOperator = std::vector<ValueId> (*)(const onnx::NodeProto& node,
                                                      const std::vector<ValueId>& inputs,
                                                      NodeReader& reader);

/// The reader of one of ONNX's operators on sequences and optional values, which makes nodes on the
/// tensors that they hold; null for other operators. It returns the node's outputs, and throws
/// Error where only the run tells which tensor is meant or how many there are.
ReadSequenceOperator find_sequence_operator(std::string_view op_type);

}  // namespace autopar::graph
