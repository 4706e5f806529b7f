#pragma once

#include "graph/onnx/control_flow.h"

namespace autopar::graph {

using ReadSequenceOperator = std::vector<ValueId> (*)(const onnx::NodeProto& node,
                                                      const std::vector<ValueId>& inputs,
                                                      std::int64_t opset,
                                                      const ControlFlowServices& services);

/// For ONNX's operators on sequences and optional values: what reads one into nodes on the tensors
/// that they hold; null for other operators. It returns the node's outputs, and throws Error where
/// only the run tells which tensor is meant or how many there are.
ReadSequenceOperator find_sequence_operator(std::string_view op_type);

}  // namespace autopar::graph
