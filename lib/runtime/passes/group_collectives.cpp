#include <algorithm>

#include "runtime/kernels/collective/collective_group.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/value_uses.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;

class Grouping {
 public:
  explicit Grouping(Graph& graph) : graph_(graph), uses_(graph) {}

  void run() {
    std::vector<NodeId> group;
    for (NodeId n = 0; n < static_cast<NodeId>(graph_.nodes.size()); ++n) {
      if (graph_.node(n).domain != graph::collective_domain) continue;
      if (!may_join(n)) {
        close(group);
        continue;
      }
      if (!group.empty() && !is_ready_at(n, group.front())) close(group);
      group.push_back(n);
    }
    close(group);
    std::size_t index = 0;
    std::erase_if(graph_.nodes, [&](const Node&) { return is_moved(index++); });
  }

 private:
  bool may_join(NodeId n) const {
    const Node& node = graph_.node(n);
    // What nobody reads would take its sending along when it is dropped.
    return node.inputs.size() == 1 && node.outputs.size() == 1 &&
           !graph_.is_constant(node.inputs[0]) &&
           (!uses_.readers(node.outputs[0]).empty() || uses_.leaves(node.outputs[0]));
  }

  bool is_ready_at(NodeId n, NodeId place) const {
    return uses_.producer(graph_.node(n).inputs[0]) < place;  // no_node is -1
  }

  void close(std::vector<NodeId>& group) {
    if (group.size() > 1) {
      std::vector<Node> members;
      for (const NodeId n : group) members.push_back(graph_.node(n));
      Node& node = graph_.node(group.front());
      node.domain = internal_domain;
      node.op_type = "CollectiveGroup";
      node.attributes = encode_group(members);
      for (std::size_t m = 1; m < members.size(); ++m) {
        node.inputs.push_back(members[m].inputs[0]);
        node.outputs.push_back(members[m].outputs[0]);
      }
      moved_.insert(moved_.end(), group.begin() + 1, group.end());
    }
    group.clear();
  }

  bool is_moved(std::size_t n) const {
    return std::ranges::binary_search(moved_, static_cast<NodeId>(n));
  }

  Graph& graph_;
  ValueUses uses_;
  std::vector<NodeId> moved_;  ///< members but the first of each group, ascending
};

}  // namespace

void group_collectives(Graph& graph) { Grouping(graph).run(); }

}  // namespace autopar::runtime::passes
