#pragma once

#include <functional>
#include <string>
#include <vector>

#include "graph/onnx/device_annotations.h"
#include "search/pins.h"

namespace autopar::search {

/// The stages that annotated nodes tell: 1 where none tells any. Throws Error where some nodes tell
/// a stage and others do not.
int stages_in(const graph::DeviceAnnotations& annotations, const std::string& where);

/// One pin for each annotated node, with its name alone.
std::vector<Pin> named_pins(const graph::DeviceAnnotations& annotations);

/// The meshes that a stage of so many devices may have, the preferred one first.
using StageMeshes = std::function<std::vector<sharding::DeviceMesh>(int devices)>;

/// What is annotated as pins of the model's operators: of each input and output that is annotated
/// its spec, on the first mesh of its stage that has such specs for all of the stage, and where
/// there are several stages the operator's. Throws Error, all at once, that begin with `where` and
/// name node and tensor, for what the model does not have, what contradicts it, and what no spec
/// expresses.
std::vector<Pin> pins_of(const graph::DeviceAnnotations& annotations, const graph::Graph& graph,
                         const StageMeshes& meshes, const std::string& where);

}  // namespace autopar::search
