#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/onnx/function_body.h"

namespace autopar::graph {

/// Registers what ONNX's schema registry does not know, once: these operators and the collectives.
/// SimplifiedLayerNormalization stands in ONNX's own domain in such files.
void register_schemas();

/// The operator in ONNX's own ones, of opset `body_opset`; nullopt where it has a kernel of its own
/// or is none of these. Throws Error for a form that is not served.
std::optional<FunctionBody> contrib_function_body(const NodeInContext& call);

/// Domain and type of each operator of the table: those of com.microsoft and ai.onnx.ml, some of
/// ONNX's own and autopar's (own_operators.h).
std::vector<std::pair<std::string_view, std::string_view>> contrib_operators();

/// Whether the operator is one of these and has a body.
bool has_contrib_body(std::string_view domain, std::string_view op_type);

}  // namespace autopar::graph
