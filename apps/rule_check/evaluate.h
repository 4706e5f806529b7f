#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace autopar::rule_check {

/// Runs a graph whose inputs are all constants on the CPU; what has no kernel by inlining the
/// function by which ONNX defines it. nullopt where that does not do either.
std::optional<std::vector<graph::Tensor>> evaluate(const graph::Graph& graph);

}  // namespace autopar::rule_check
