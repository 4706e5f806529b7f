#pragma once

#include "cost/device_model.h"
#include "graph/graph.h"

namespace autopar::search {

/// No plan on any mesh of so many devices takes less: every operator at its share of the arithmetic
/// and the bytes, without communication. On one device it is what the model takes there.
double least_seconds_on(int devices, const graph::Graph& graph, const cost::DeviceModel& device);

}  // namespace autopar::search
