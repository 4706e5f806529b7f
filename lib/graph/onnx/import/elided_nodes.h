#pragma once

#include "graph/onnx/import/model_reading.h"

namespace autopar::graph {

/// Defines the output of a node that computes nothing, so that no node is left of it: Constant,
/// Identity, and Dropout in inference. False for other nodes.
bool elide(const onnx::NodeProto& node, const std::vector<ValueId>& inputs, Scope& scope,
           ModelReading& model);

}  // namespace autopar::graph
