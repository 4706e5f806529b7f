#pragma once

#include <cstdint>
#include <vector>

#include "cost/device_model.h"
#include "graph/graph.h"

namespace autopar::search {

/// No plan on any mesh of so many devices takes less: every operator at its share of the arithmetic
/// and the bytes, without communication. On one device it is what the model takes there.
double least_seconds_on(int devices, const graph::Graph& graph, const cost::DeviceModel& device);

/// What each operator takes on one device, by NodeId; views nothing.
std::vector<double> seconds_on_one_device(const graph::Graph& graph,
                                          const cost::DeviceModel& device);

/// Of an operator that takes `whole` seconds on one device, with its share on each of several.
double least_share_seconds(int devices, double whole, const cost::DeviceModel& device);

/// Weights and activations of the whole model.
std::int64_t bytes_on_one_device(const graph::Graph& graph);

}  // namespace autopar::search
