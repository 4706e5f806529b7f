#pragma once

#include <onnx/onnx_pb.h>

#include <functional>

namespace autopar::graph {

/// Calls `visit` with each tensor of the model: initializers, then those among the attributes of
/// nodes, nested graphs and functions included.
void for_each_tensor(onnx::ModelProto& model, const std::function<void(onnx::TensorProto&)>& visit);

}  // namespace autopar::graph
