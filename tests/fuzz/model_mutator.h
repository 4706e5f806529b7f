#pragma once

#include <onnx/onnx_pb.h>

namespace autopar::fuzz {

/// Changes a few things of a model, the same ones for the same seed: nodes and what they read,
/// attributes, shapes, types, numbers of tensors; inputs become constants, so that nodes fold; or
/// any field of any message.
void mutate(onnx::ModelProto& model, unsigned seed);

/// Takes over a node, an attribute or an initializer of another model.
void cross_over(onnx::ModelProto& model, const onnx::ModelProto& other, unsigned seed);

}  // namespace autopar::fuzz
