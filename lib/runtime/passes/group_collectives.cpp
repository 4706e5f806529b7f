#include <algorithm>

#include "runtime/kernels/collective/collective_group.h"
#include "runtime/passes/matcher.h"

namespace autopar::runtime::passes {
namespace {

bool may_join(const Matcher& matcher, const Node& node) {
  // What nobody reads would take its sending along when it is dropped.
  return node.inputs.size() == 1 && node.outputs.size() == 1 &&
         !matcher.is_constant(node.inputs[0]) &&
         (!matcher.readers(node.outputs[0]).empty() || matcher.is_output(node.outputs[0]));
}

/// The first one becomes the group; the others are dead then.
void join(Graph& graph, const std::vector<NodeId>& group) {
  std::vector<Node> members;
  for (const NodeId n : group) members.push_back(graph.node(n));
  Node& node = graph.node(group.front());
  node.domain = internal_domain;
  node.op_type = "CollectiveGroup";
  node.attributes = encode_group(members);
  for (std::size_t m = 1; m < members.size(); ++m) {
    node.inputs.push_back(members[m].inputs[0]);
    node.outputs.push_back(members[m].outputs[0]);
  }
}

}  // namespace

void group_collectives(Graph& graph) {
  const Matcher matcher(graph);
  std::vector<std::vector<NodeId>> groups(1);
  for (NodeId n = 0; n < std::ssize(graph.nodes); ++n) {
    const Node& node = graph.node(n);
    if (node.domain != graph::collective_domain) continue;
    const bool joins = may_join(matcher, node);
    const bool is_ready =
        joins && !groups.back().empty() && matcher.producer(node.inputs[0]) < groups.back().front();
    if (!is_ready) groups.emplace_back();
    if (joins) groups.back().push_back(n);
  }
  std::vector<bool> is_moved(graph.nodes.size());
  for (const std::vector<NodeId>& group : groups) {
    if (group.size() < 2) continue;
    join(graph, group);
    for (std::size_t m = 1; m < group.size(); ++m)
      is_moved[static_cast<std::size_t>(group[m])] = true;
  }
  std::size_t index = 0;
  std::erase_if(graph.nodes, [&](const Node&) { return is_moved[index++]; });
}

bool has_collective_groups(const Graph& graph) {
  return std::ranges::any_of(graph.nodes,
                             [](const Node& node) { return node.op_type == "CollectiveGroup"; });
}

}  // namespace autopar::runtime::passes
