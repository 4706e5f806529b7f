#pragma once

#include "graph/onnx/node_inference.h"
#include "graph/onnx/onnx_import.h"

namespace autopar::graph {

enum class Folding {
  of_small_constants,  ///< what pays before a run
  of_everything,       ///< in place of a run: all inputs of all nodes are constants
};

/// The outputs of a node whose values are known before any run; nullopt where they are not, or
/// where folding would not pay: large results, random numbers, and anything computed from a weight
/// matrix (`is_weight` by input, or quantised), which would untie and copy weights. Shape and Size
/// of a static shape always fold; the rest needs all inputs constant, and the evaluator or, failing
/// that, ONNX's data propagation. In place of a run, everything pays.
std::optional<std::vector<Tensor>> fold(const NodeInContext& context, const Node& node,
                                        const std::vector<OutputType>& outputs,
                                        const std::vector<bool>& is_weight,
                                        const Evaluator& evaluate, Folding folding);

}  // namespace autopar::graph
