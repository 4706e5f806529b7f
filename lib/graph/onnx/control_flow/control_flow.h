#pragma once

#include "graph/onnx/control_flow/node_reader.h"

namespace autopar::graph {

/// The readers below return the node's outputs, and throw Error where the node needs what is known
/// in a run alone. `inputs` has no_value for inputs that are left out.

/// Reads one branch where the condition is known. Else both, and each output is the one or the
/// other by Where: so both are computed, and their outputs must have one type and shape.
Values read_if(const onnx::NodeProto& node, const Values& inputs, NodeReader& reader);

/// Unrolls the loop where its trip count is known and no more than most_rounds, and it adds no more
/// than most_unrolled_nodes. Where only the run tells whether it goes on, all rounds are made, and
/// values stay as they are behind the last one that counts. Other loops become one node
/// (native_loop.h).
Values read_loop(const onnx::NodeProto& node, const Values& inputs, NodeReader& reader);

/// Unrolls the scan, or makes a Loop of it beyond the same limits. Before opset 9, it went over the
/// sequences of a batch.
Values read_scan(const onnx::NodeProto& node, const Values& inputs, NodeReader& reader);

/// The reader of one of ONNX's operators on sequences and optional values, which makes nodes on the
/// tensors that they hold; null for other operators. It fails where only the run tells which tensor
/// is meant or how many there are.
using ReadNode = Values (*)(const onnx::NodeProto& node, const Values& inputs, NodeReader& reader);
ReadNode find_sequence_operator(std::string_view op_type);

}  // namespace autopar::graph
