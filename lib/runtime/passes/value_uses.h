#pragma once

#include <vector>

#include "graph/graph.h"

namespace autopar::runtime::passes {

/// Who makes and who reads each value, as the graph was when this was made. Values that came later
/// have neither.
class ValueUses {
 public:
  explicit ValueUses(const graph::Graph& graph)
      : producers_(graph::producers(graph)),
        consumers_(graph::consumers(graph)),
        leaves_(graph.values.size()) {
    for (const graph::ValueId id : graph.outputs) leaves_[static_cast<std::size_t>(id)] = true;
  }

  /// no_node for inputs and constants.
  graph::NodeId producer(graph::ValueId value) const {
    return is_known(value) ? producers_[static_cast<std::size_t>(value)] : graph::no_node;
  }
  const std::vector<graph::NodeId>& readers(graph::ValueId value) const {
    static const std::vector<graph::NodeId> none;
    return is_known(value) ? consumers_[static_cast<std::size_t>(value)] : none;
  }
  /// Whether the value is an output of the graph.
  bool leaves(graph::ValueId value) const {
    return is_known(value) && leaves_[static_cast<std::size_t>(value)];
  }
  bool is_read_once(graph::ValueId value) const {
    return readers(value).size() == 1 && !leaves(value);
  }

 private:
  bool is_known(graph::ValueId value) const {
    return static_cast<std::size_t>(value) < producers_.size();
  }

  std::vector<graph::NodeId> producers_;
  std::vector<std::vector<graph::NodeId>> consumers_;
  std::vector<bool> leaves_;
};

}  // namespace autopar::runtime::passes
