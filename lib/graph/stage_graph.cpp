#include "graph/stage_graph.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace autopar::graph {

StageGraph whole_stage(const Graph& graph) { return {graph, graph.inputs, graph.outputs, {}, {}}; }

StageCutter::StageCutter(const Graph& graph)
    : graph_(graph),
      producers_(producers(graph)),
      last_readers_(graph.values.size(), no_node),
      crossing_(graph.nodes.size() + 1) {
  const auto readers = consumers(graph);
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (!readers[v].empty()) last_readers_[v] = readers[v].back();
    if (producers_[v] == no_node) continue;
    for (NodeId cut = producers_[v] + 1; cut <= last_readers_[v]; ++cut)
      crossing_[static_cast<std::size_t>(cut)].push_back(static_cast<ValueId>(v));
  }
}

std::vector<ValueId> StageCutter::crossing(NodeId cut) const {
  return crossing_[static_cast<std::size_t>(cut)];
}

StageGraph StageCutter::cut(NodeId begin, NodeId end) const {
  require(0 <= begin && begin < end && end <= static_cast<NodeId>(graph_.nodes.size()),
          "a stage has nodes");
  StageGraph stage;
  Graph& made = stage.graph;
  made.name = graph_.name;
  made.opsets = graph_.opsets;
  std::unordered_map<ValueId, ValueId> copies{{no_value, no_value}};
  const auto copy = [&](ValueId id) {
    const auto [entry, is_new] = copies.try_emplace(id, no_value);
    if (is_new) entry->second = made.add_value(graph_.value(id));
    return entry->second;
  };
  for (NodeId n = begin; n < end; ++n) {
    Node node = graph_.node(n);
    for (ValueId& input : node.inputs) input = copy(input);
    for (ValueId& output : node.outputs) output = copy(output);
    made.nodes.push_back(std::move(node));
  }
  for (const ValueId input : graph_.inputs) {
    const bool is_unread = last_readers_[static_cast<std::size_t>(input)] == no_node;
    const bool is_output = std::ranges::find(graph_.outputs, input) != graph_.outputs.end();
    if (copies.contains(input) || (begin == 0 && (is_unread || is_output)))
      made.inputs.push_back(copy(input));
  }
  for (const ValueId output : graph_.outputs) {
    const bool is_given = producers_[static_cast<std::size_t>(output)] == no_node;
    const NodeId producer = is_given ? 0 : producers_[static_cast<std::size_t>(output)];
    if (begin <= producer && producer < end) stage.model_outputs.push_back(copy(output));
  }
  stage.model_inputs = made.inputs;
  made.outputs = stage.model_outputs;
  for (const ValueId value : crossing_[static_cast<std::size_t>(begin)]) {
    stage.received.push_back(copy(value));
    made.inputs.push_back(stage.received.back());
  }
  if (end == static_cast<NodeId>(graph_.nodes.size())) return stage;
  for (const ValueId value : crossing_[static_cast<std::size_t>(end)]) {
    stage.sent.push_back(copy(value));
    if (std::ranges::find(made.outputs, copy(value)) == made.outputs.end())
      made.outputs.push_back(copy(value));
  }
  return stage;
}

}  // namespace autopar::graph
