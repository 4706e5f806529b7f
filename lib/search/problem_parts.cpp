#include "search/problem_parts.h"

#include <algorithm>
#include <set>
#include <utility>

namespace autopar::search {

using assignment::AssignmentProblem;
using assignment::Cost;
using assignment::impossible;
using graph::NodeId;
using graph::ValueId;

GraphUses find_uses(const graph::Graph& graph, const cost::CostModel& cost, int first_node) {
  GraphUses uses{.producers = graph::producers(graph),
                 .readers = std::vector<std::vector<GraphUses::Reader>>(graph.values.size()),
                 .last_use = std::vector<int>(graph.values.size(), first_node),
                 .first_node = first_node,
                 .end = first_node + static_cast<int>(graph.nodes.size()) + 1};
  const auto last_use = [&](ValueId id) -> int& { return uses.last_use[id]; };
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const auto& inputs = graph.nodes[id].inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == graph::no_value) continue;
      uses.readers[inputs[i]].push_back({static_cast<graph::NodeId>(id), i});
      last_use(inputs[i]) = uses.time_of(static_cast<NodeId>(id));
    }
  }
  for (const ValueId output : graph.outputs) last_use(output) = uses.end - 1;
  for (const graph::State& state : graph.states) last_use(graph.inputs[state.input]) = uses.end - 1;
  for (std::size_t id = graph.nodes.size(); id-- > 0;) {
    const graph::Node& node = graph.nodes[id];
    int last = first_node;
    for (const ValueId output : node.outputs)
      if (output != graph::no_value && !cost.takes_memory(graph.value(output)))
        last = std::max(last, last_use(output));
    for (const ValueId input : node.inputs)
      if (input != graph::no_value) last_use(input) = std::max(last_use(input), last);
  }
  return uses;
}

int add_node(AssignmentProblem& problem, int first, int end, std::vector<std::int64_t> usages,
             std::vector<Cost> costs) {
  if (costs.empty()) costs.resize(usages.size());
  problem.nodes.push_back({std::move(costs), std::move(usages), first, end});
  return static_cast<int>(problem.nodes.size()) - 1;
}

void add_edge(AssignmentProblem& problem, int a, int b, assignment::CostTable costs) {
  const bool matters = std::ranges::any_of(costs, [](Cost cost) { return cost != 0; });
  if (matters) problem.edges.push_back({a, b, std::move(costs)});
}

void add_usage(AssignmentProblem& problem, int node, int first, int end,
               const std::vector<std::int64_t>& bytes) {
  const std::set<std::int64_t> amounts(bytes.begin(), bytes.end());
  const int usage = add_node(problem, first, end, {amounts.begin(), amounts.end()});
  std::vector<Cost> costs;
  for (const std::int64_t needed : bytes)
    for (const std::int64_t amount : amounts) costs.push_back(needed == amount ? 0 : impossible);
  add_edge(problem, node, usage, std::move(costs));
}

void fix(AssignmentProblem::Node& node, int strategy) {
  for (int s = 0; s < std::ssize(node.costs); ++s)
    if (s != strategy) node.costs[s] = impossible;
}

}  // namespace autopar::search
