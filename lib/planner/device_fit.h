#pragma once

#include <vector>

#include "cost/cost_model.h"
#include "graph/graph.h"
#include "program/memory_prediction.h"
#include "runtime/kernel.h"

/// What the runtime knows of a device that the search plans for.
namespace autopar::planner {

/// What may run a shard that is planned for the device: what it is for first, and the CPU, which
/// takes a GPU's place where there is none.
std::vector<const runtime::KernelTable*> kernels_for(const cost::DeviceModel& device);

/// Where the device file says that autopar's runtime runs the shards: prices what that fuses in
/// this model, and weights that all fit a cache. Says which values take no memory of their own, and
/// which images a CPU has with their channels last.
void fit_to_model(std::vector<cost::CostModel>& models, const graph::Graph& graph);

/// The runtime's answer for whichever of kernels_for() needs most.
program::RunBytes run_bytes_on(const cost::DeviceModel& device);

/// A rank's graph as it runs on that of kernels_for() which needs most memory.
program::RunGraph run_graph_on(const cost::DeviceModel& device, const graph::Graph& rank_graph);

}  // namespace autopar::planner
