#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cost/device_model.h"
#include "graph/graph.h"
#include "search/profile.h"

namespace autopar::search {

/// No plan on any mesh of so many devices takes less: every operator at its share of the arithmetic
/// and the bytes, without communication. On one device it is what the model takes there.
double least_seconds_on(int devices, const graph::Graph& graph, const cost::DeviceModel& device);

/// The same of several profiles, each times its weight.
double least_seconds_on(int devices, std::span<const Profile> profiles);

/// The same of each operator, by NodeId, for each number of devices; views take nothing.
std::vector<std::vector<double>> least_operator_seconds(std::span<const int> devices,
                                                        const graph::Graph& graph,
                                                        const cost::DeviceModel& device);

/// Weights and activations of the whole model.
std::int64_t bytes_on_one_device(const graph::Graph& graph);
/// The weights of all profiles, and the activations of the one that has most.
std::int64_t bytes_on_one_device(std::span<const Profile> profiles);

}  // namespace autopar::search
