#pragma once

#include "graph/graph.h"
#include "runtime/named_tensors.h"
#include "runtime/session_options.h"

namespace autopar::runtime {

/// The outputs of a model that is not split, run in this thread: what a bundle's are compared with.
/// Inputs that fit the graph's are the caller's care.
NamedTensors run_whole(const graph::Graph& graph, const NamedTensors& inputs,
                       const DeviceOptions& device);

}  // namespace autopar::runtime
