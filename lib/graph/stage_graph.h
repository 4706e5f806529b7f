#pragma once

#include <vector>

#include "graph/graph.h"

namespace autopar::graph {

/// What one pipeline stage runs: a run of a graph's nodes and the values that they touch, with the
/// names that they have there. A value made before the stage and read behind it passes through: it
/// is received and sent. A model input comes from the user in every stage that reads it; one that
/// no node reads, and an output that no node makes, belong to the first stage. A state is in the
/// stage that makes its output, which alone reads its input.
struct StageGraph {
  Graph graph;  ///< inputs: the model's, then `received`; outputs: the model's, then `sent`
  std::vector<ValueId> model_inputs;   ///< inputs that come from the user
  std::vector<ValueId> model_outputs;  ///< outputs that go to the user
  std::vector<ValueId> received;       ///< inputs that come from the stage before
  std::vector<ValueId> sent;  ///< outputs that go to the stage behind; maybe the model's, too
};

/// The graph as its only stage, values and nodes numbered as they were.
StageGraph whole_stage(const Graph& graph);

/// Cuts stages out of a graph, which must outlive it.
class StageCutter {
 public:
  explicit StageCutter(const Graph& graph);

  /// What nodes before `cut` make and nodes from it on read, ascending: so it crosses between two
  /// stages in the same order on both sides.
  std::vector<ValueId> crossing(NodeId cut) const;
  /// Whether every state is whole on one side: its output and all that read its input.
  bool keeps_states(NodeId cut) const;
  /// Nodes [begin, end), not empty, between cuts that keep states. Weights are shared, never
  /// copied.
  StageGraph cut(NodeId begin, NodeId end) const;

 private:
  void note_state(const State& state, const std::vector<std::vector<NodeId>>& readers);
  bool has_input(ValueId input, NodeId begin, NodeId end) const;

  const Graph& graph_;
  std::vector<NodeId> producers_;
  std::vector<NodeId> last_readers_;            ///< by value; no_node where none reads it
  std::vector<std::vector<ValueId>> crossing_;  ///< by cut
  std::vector<NodeId> homes_;        ///< by value: a node of the stage of an input that is unread
  std::vector<bool> parts_a_state_;  ///< by cut
};

}  // namespace autopar::graph
