#include <algorithm>
#include <optional>
#include <set>

#include "runtime/kernels/elementwise/chain.h"
#include "runtime/passes/passes.h"
#include "runtime/passes/value_uses.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

/// A *group* is a set of element-wise nodes with outputs of one shape. Its *root* is its last node;
/// every other node's output is read inside the group alone, so that the root's position is one
/// where the whole group can be computed.
class ChainFusion {
 public:
  ChainFusion(Graph& graph, const KernelTable& kernels)
      : graph_(graph), kernels_(kernels), uses_(graph) {
    for (const Node& node : graph.nodes) slots_.push_back(slots_of(node));
  }

  void run() {
    std::vector<bool> taken(graph_.nodes.size());
    for (std::size_t n = graph_.nodes.size(); n-- > 0;) {
      if (taken[n] || !slots_[n]) continue;
      const std::set<NodeId> group = group_of(static_cast<NodeId>(n));
      for (const NodeId member : group) taken[static_cast<std::size_t>(member)] = true;
      if (group.size() > 1) chains_.emplace_back(static_cast<NodeId>(n), fused(group));
    }
    for (auto& [root, chain] : chains_) graph_.node(root) = std::move(chain);
  }

 private:
  std::optional<int> slots_of(const Node& node) const {
    std::vector<TensorView> inputs;
    for (const ValueId id : node.inputs)
      inputs.push_back(id == graph::no_value
                           ? TensorView{}
                           : TensorView{graph_.value(id).type, graph_.value(id).shape, nullptr});
    if (node.outputs.size() != 1) return std::nullopt;
    const graph::Value& output = graph_.value(node.outputs[0]);
    return kernels_.chain_slots(node, inputs, {output.type, output.shape, nullptr});
  }

  /// Grows from the root to producers that nothing outside reads, nearest first, while the slots
  /// last.
  std::set<NodeId> group_of(NodeId root) const {
    std::set<NodeId> group{root};
    std::optional<NodeId> next = root;
    while (next) {
      next.reset();
      for (auto member = group.rbegin(); member != group.rend() && !next; ++member)
        for (const ValueId input : graph_.node(*member).inputs)
          if (const auto producer = absorbable(input, root, group)) next = producer;
      if (next) group.insert(*next);
    }
    return group;
  }

  std::optional<NodeId> absorbable(ValueId value, NodeId root, std::set<NodeId>& group) const {
    if (value == graph::no_value) return std::nullopt;
    const NodeId producer = uses_.producer(value);
    if (producer == graph::no_node || group.contains(producer)) return std::nullopt;
    const bool stays_inside =
        slots_[static_cast<std::size_t>(producer)] &&
        graph_.value(value).shape == graph_.value(graph_.node(root).outputs[0]).shape &&
        !uses_.leaves(value) && std::ranges::all_of(uses_.readers(value), [&](NodeId reader) {
          return group.contains(reader);
        });
    if (!stays_inside) return std::nullopt;
    group.insert(producer);
    const bool fits = slots_of(group) <= kernels_.max_chain_slots;
    group.erase(producer);
    return fits ? std::optional(producer) : std::nullopt;
  }

  int slots_of(const std::set<NodeId>& group) const {
    int slots = static_cast<int>(inputs_of(group).size());
    for (const NodeId member : group) slots += *slots_[static_cast<std::size_t>(member)];
    return slots;
  }

  /// What the group reads from outside, each value once.
  std::vector<ValueId> inputs_of(const std::set<NodeId>& group) const {
    std::vector<ValueId> inputs;
    for (const NodeId member : group)
      for (const ValueId input : graph_.node(member).inputs) {
        if (input == graph::no_value) continue;
        const NodeId producer = uses_.producer(input);
        const bool is_inside = producer != graph::no_node && group.contains(producer);
        if (!is_inside && std::ranges::find(inputs, input) == inputs.end()) inputs.push_back(input);
      }
    return inputs;
  }

  Node fused(const std::set<NodeId>& group) const {
    Node chain = graph_.node(*group.rbegin());
    chain.inputs = inputs_of(group);
    std::vector<NodeId> members;
    std::vector<ChainLink> links;
    for (const NodeId member : group) {
      const Node& node = graph_.node(member);
      ChainLink& link = links.emplace_back();
      link.op_type = node.op_type;
      link.attributes = node.attributes;
      link.result = graph_.value(node.outputs[0]).type;
      for (const ValueId id : node.inputs) link.operands.push_back(operand(id, chain, members));
      members.push_back(member);
    }
    chain.domain = internal_domain;
    chain.op_type = "ElementwiseChain";
    chain.attributes = encode_chain(links);
    return chain;
  }

  ChainLink::Operand operand(ValueId id, const Node& chain,
                             const std::vector<NodeId>& members) const {
    using Kind = ChainLink::Operand::Kind;
    if (id == graph::no_value) return {};
    const auto member = std::ranges::find(members, uses_.producer(id));
    if (member != members.end())
      return {Kind::link, static_cast<std::size_t>(member - members.begin())};
    const auto input = std::ranges::find(chain.inputs, id);
    return {Kind::input, static_cast<std::size_t>(input - chain.inputs.begin())};
  }

  Graph& graph_;
  const KernelTable& kernels_;
  ValueUses uses_;
  std::vector<std::optional<int>> slots_;  ///< by node; none where it is not element-wise
  std::vector<std::pair<NodeId, Node>> chains_;
};

}  // namespace

void fuse_elementwise_chains(Graph& graph, const KernelTable& kernels) {
  if (kernels.find(internal_domain, "ElementwiseChain") != nullptr)
    ChainFusion(graph, kernels).run();
}

}  // namespace autopar::runtime::passes
