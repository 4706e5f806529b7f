#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "graph/graph.h"
#include "runtime/device.h"

namespace autopar::runtime {

/// See Executable::hand_on_states.
using StateCopies = std::function<void(std::int64_t first_row, int step)>;

/// Copies a graph's states from its outputs to its inputs, within the device's memory. The graph is
/// the one before passes: it tells which states keep_places.
StateCopies state_copies(const graph::Graph& graph, std::span<const TensorView> inputs,
                         std::span<const TensorView> outputs, Device& device);

}  // namespace autopar::runtime
