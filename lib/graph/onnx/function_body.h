#pragma once

#include "graph/onnx/node_inference.h"

namespace autopar::graph {

/// The version of ONNX's own operators that bodies of contrib's operators are written in.
inline constexpr std::int64_t body_opset = 25;

/// A function about to be inlined: its body with the caller's attributes put in.
struct FunctionBody {
  onnx::FunctionProto function;
  /// Versions whose forms the body uses, by domain.
  std::map<std::string, std::int64_t> opsets;
};

/// The body by which ONNX defines the operator; nullopt where it defines it by words, or by a Loop
/// (Range), which would be no gain.
std::optional<FunctionBody> schema_function_body(const NodeInContext& call);

/// The body of a function of the model.
FunctionBody local_function_body(const onnx::NodeProto& call, const onnx::FunctionProto& function);

}  // namespace autopar::graph
