#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "plan/plan.h"

namespace autopar::plan {

/// Consecutive operators that are told together: one layer, as often as it is repeated.
struct LayerBlock {
  std::string name;           ///< what names of its operators, or weights, have in common
  graph::NodeId first = 0;    ///< of the first repetition
  std::size_t operators = 0;  ///< of one repetition
  std::size_t repeats = 1;    ///< one behind the other, split alike

  graph::NodeId end() const { return first + static_cast<graph::NodeId>(operators * repeats); }
};

/// The graph as blocks, which cover its nodes in order. Repeated layers are found by their
/// operators (types, shapes, attributes), not by names; where they are split otherwise than those
/// before, a new block begins. What is not repeated is cut where little goes across.
std::vector<LayerBlock> layer_blocks(const graph::Graph& graph, const Plan& plan);

}  // namespace autopar::plan
