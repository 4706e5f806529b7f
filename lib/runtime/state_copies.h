#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "runtime/device.h"

namespace autopar::runtime {

/// See Executable::hand_on_states.
using StateCopies = std::function<void(std::int64_t first_row, int step)>;

/// Copies a graph's states from its outputs to its inputs, within the device's memory. `rows_stay`:
/// of each state whether it keeps_places.
StateCopies state_copies(const graph::Graph& graph, const std::vector<bool>& rows_stay,
                         std::span<const TensorView> inputs, std::span<const TensorView> outputs,
                         Device& device);

}  // namespace autopar::runtime
