#include "search/graph_uses.h"

#include <algorithm>

namespace autopar::search {

using graph::NodeId;
using graph::ValueId;

GraphUses find_uses(const graph::Graph& graph, const cost::CostModel& cost) {
  GraphUses uses;
  uses.producers = graph::producers(graph);
  uses.readers.resize(graph.values.size());
  uses.last_use.assign(graph.values.size(), 0);
  uses.horizon = static_cast<int>(graph.nodes.size()) + 1;
  const auto last_use = [&](ValueId id) -> int& { return uses.last_use[id]; };
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const auto& inputs = graph.nodes[id].inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == graph::no_value) continue;
      uses.readers[inputs[i]].push_back({static_cast<NodeId>(id), i});
      last_use(inputs[i]) = static_cast<int>(id) + 1;
    }
  }
  for (const ValueId output : graph.outputs) last_use(output) = uses.horizon - 1;
  for (const graph::State& state : graph.states)
    last_use(graph.inputs[state.input]) = uses.horizon - 1;
  for (std::size_t id = graph.nodes.size(); id-- > 0;) {
    const graph::Node& node = graph.nodes[id];
    int last = 0;
    for (const ValueId output : node.outputs)
      if (output != graph::no_value && !cost.takes_memory(graph.value(output)))
        last = std::max(last, last_use(output));
    for (const ValueId input : node.inputs)
      if (input != graph::no_value) last_use(input) = std::max(last_use(input), last);
  }
  return uses;
}

}  // namespace autopar::search
