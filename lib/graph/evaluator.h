#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace autopar::graph {

/// Evaluates a graph of one node whose inputs are all constants; nullopt where no kernel serves
/// it. The one call against the modules' order: folding needs kernels, which this module may not
/// know, so the application hands them in. Of Compress, NonMaxSuppression, NonZero and Unique the
/// results' shapes are the evaluator's.
using Evaluator = std::function<std::optional<std::vector<Tensor>>(const Graph& single_node)>;

}  // namespace autopar::graph
