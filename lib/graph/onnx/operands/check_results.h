#pragma once

#include <vector>

#include "graph/onnx/node_inference.h"

namespace autopar::graph {

/// Refuses operands that ONNX's inference lets through, that fit no sharding rule and no kernel,
/// and of which more is to be said than what form each input has (operand_table.h): how they and
/// what is made of them fit together. Throws Error without the node's name.
void check_results(const NodeInContext& context, const std::vector<OutputType>& outputs);

}  // namespace autopar::graph
