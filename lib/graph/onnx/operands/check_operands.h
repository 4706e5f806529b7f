#pragma once

#include "graph/onnx/node_inference.h"

namespace autopar::graph {

/// Checks that none of a variadic input is left out, and what inputs may be (operand_table.h), and
/// attributes that ONNX's inference divides by or takes for true or false. Throws Error that says
/// which input is wrong, without the node's name.
void check_operand_forms(const NodeInContext& context);

}  // namespace autopar::graph
