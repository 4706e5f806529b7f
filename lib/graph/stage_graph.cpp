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
      crossing_(graph.nodes.size() + 1),
      homes_(graph.values.size(), 0),
      parts_a_state_(graph.nodes.size() + 1, false) {
  const auto readers = consumers(graph);
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    if (!readers[v].empty()) last_readers_[v] = readers[v].back();
    if (producers_[v] == no_node) continue;
    for (NodeId cut = producers_[v] + 1; cut <= last_readers_[v]; ++cut)
      crossing_[static_cast<std::size_t>(cut)].push_back(static_cast<ValueId>(v));
  }
  for (const State& state : graph.states) note_state(state, readers);
}

void StageCutter::note_state(const State& state, const std::vector<std::vector<NodeId>>& readers) {
  const ValueId input = graph_.inputs[state.input];
  const NodeId maker =
      std::max(0, producers_[static_cast<std::size_t>(graph_.outputs[state.output])]);
  std::vector<NodeId> users = readers[static_cast<std::size_t>(input)];
  const bool is_output = std::ranges::find(graph_.outputs, input) != graph_.outputs.end();
  if (is_output) users.push_back(0);
  if (users.empty()) homes_[static_cast<std::size_t>(input)] = maker;
  users.push_back(maker);
  const auto [first, last] = std::ranges::minmax(users);
  for (NodeId cut = first + 1; cut <= last; ++cut)
    parts_a_state_[static_cast<std::size_t>(cut)] = true;
}

bool StageCutter::keeps_states(NodeId cut) const {
  return !parts_a_state_[static_cast<std::size_t>(cut)];
}

/// An input that no node reads goes to the stage of its state's output, or to the first.
bool StageCutter::has_input(ValueId input, NodeId begin, NodeId end) const {
  const bool is_unread = last_readers_[static_cast<std::size_t>(input)] == no_node;
  const bool is_output = std::ranges::find(graph_.outputs, input) != graph_.outputs.end();
  const NodeId home = homes_[static_cast<std::size_t>(input)];
  return (is_unread || is_output) && begin <= home && home < end;
}

std::vector<ValueId> StageCutter::crossing(NodeId cut) const {
  return crossing_[static_cast<std::size_t>(cut)];
}

StageGraph StageCutter::cut(NodeId begin, NodeId end) const {
  require(0 <= begin && begin < end && end <= static_cast<NodeId>(graph_.nodes.size()),
          "a stage has nodes");
  require(keeps_states(begin) && keeps_states(end), "no state is in two stages");
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
    if (copies.contains(input) || has_input(input, begin, end)) made.inputs.push_back(copy(input));
  }
  for (const ValueId output : graph_.outputs) {
    const bool is_given = producers_[static_cast<std::size_t>(output)] == no_node;
    const NodeId producer = is_given ? 0 : producers_[static_cast<std::size_t>(output)];
    if (begin <= producer && producer < end) stage.model_outputs.push_back(copy(output));
  }
  stage.model_inputs = made.inputs;
  made.outputs = stage.model_outputs;
  const auto place = [&](const std::vector<ValueId>& ports, ValueId value) {
    const auto found = copies.find(value);
    const auto port = found == copies.end() ? ports.end() : std::ranges::find(ports, found->second);
    return static_cast<std::size_t>(port - ports.begin());
  };
  for (const State& state : graph_.states) {
    const State own{place(made.outputs, graph_.outputs[state.output]),
                    place(made.inputs, graph_.inputs[state.input])};
    if (own.output < made.outputs.size() && own.input < made.inputs.size())
      made.states.push_back(own);
  }
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
