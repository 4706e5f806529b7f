#pragma once

#include <string>

#include "graph/onnx/device_annotations.h"
#include "plan/plan.h"

namespace autopar::plan {

/// Metadata that says what ONNX's annotations cannot; only autopar reads it.
inline constexpr const char* meshes_property = "autopar.meshes";  ///< of the model: "2x2", by stage
inline constexpr const char* spec_property = "autopar.spec";  ///< of an input or weight: its spec
/// Of a node, with the input's or output's number: a spec that is partial, or one of several in
/// which the node reads one tensor.
inline constexpr const char* input_property = "autopar.input.";
inline constexpr const char* output_property = "autopar.output.";

/// The plan as annotations of the model's nodes, by their names. Every operator has a spec for each
/// input and output, and in stages its stage; a device's number is its rank. A dimension is cut
/// into so many shards, even or not; who has which is as the plan has it. A partial tensor is
/// annotated as if it were replicated over the axes of the sum, which any reader may make of it,
/// and a tensor that a node reads in several specs is not annotated there.
graph::DeviceAnnotations annotations_of(const PipelinePlan& plan);

}  // namespace autopar::plan
