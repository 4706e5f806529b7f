#include <algorithm>
#include <set>

#include "runtime/kernels/elementwise/chain.h"
#include "runtime/passes/matcher.h"

namespace autopar::runtime::passes {
namespace {

/// A set of element-wise nodes with outputs of one shape. Its *root* is its last node; every other
/// node's output is read inside the group alone, so that the root's position is one where the whole
/// group can be computed.
using Group = std::set<NodeId>;
/// By node, KernelTable::chain_slots; none where it is not element-wise.
using Slots = std::vector<std::optional<int>>;

std::optional<int> slots_of(const Pass& pass, const Node& node) {
  if (node.outputs.size() != 1) return std::nullopt;
  std::vector<TensorView> inputs;
  for (const ValueId id : node.inputs) inputs.push_back(view_of(pass.graph, id));
  return pass.kernels.chain_slots(node, inputs, view_of(pass.graph, node.outputs[0]));
}

/// What the group reads from outside, each value once.
std::vector<ValueId> inputs_of(const Pass& pass, const Group& group) {
  std::vector<ValueId> inputs;
  for (const NodeId member : group)
    for (const ValueId input : pass.graph.node(member).inputs) {
      const bool is_outside = input != graph::no_value && !group.contains(pass.producer(input));
      if (is_outside && std::ranges::find(inputs, input) == inputs.end()) inputs.push_back(input);
    }
  return inputs;
}

int slots_of(const Pass& pass, const Slots& slots, const Group& group) {
  int sum = static_cast<int>(inputs_of(pass, group).size());
  for (const NodeId member : group) sum += *slots[static_cast<std::size_t>(member)];
  return sum;
}

/// Whether the group may have the node that makes the value.
bool is_absorbable(const Pass& pass, const Slots& slots, ValueId value, NodeId root,
                   const Group& group) {
  const NodeId producer = pass.producer(value);
  if (producer == graph::no_node || group.contains(producer)) return false;
  const bool stays_inside =
      slots[static_cast<std::size_t>(producer)] &&
      pass.shape(value) == pass.shape(pass.graph.node(root).outputs[0]) && !pass.is_output(value) &&
      std::ranges::all_of(pass.readers(value),
                          [&](NodeId reader) { return group.contains(reader); });
  if (!stays_inside) return false;
  Group larger = group;
  larger.insert(producer);
  return slots_of(pass, slots, larger) <= pass.kernels.max_chain_slots;
}

/// Grows from the root to producers that nothing outside reads, nearest first, while the slots
/// last.
Group group_of(const Pass& pass, const Slots& slots, NodeId root) {
  Group group{root};
  std::optional<NodeId> next = root;
  while (next) {
    next.reset();
    for (auto member = group.rbegin(); member != group.rend() && !next; ++member)
      for (const ValueId input : pass.graph.node(*member).inputs)
        if (is_absorbable(pass, slots, input, root, group)) next = pass.producer(input);
    if (next) group.insert(*next);
  }
  return group;
}

Node chain_of(const Pass& pass, const Group& group) {
  Node chain = pass.graph.node(*group.rbegin());
  chain.inputs = inputs_of(pass, group);
  std::vector<ValueId> values = chain.inputs;  // by their numbers in the chain
  std::vector<ChainLink> links;
  for (const NodeId member : group) {
    const Node& node = pass.graph.node(member);
    ChainLink& link = links.emplace_back();
    link.op_type = node.op_type;
    link.attributes = node.attributes;
    link.result = pass.type(node.outputs[0]);
    for (const ValueId id : node.inputs)
      link.operands.push_back(
          id == graph::no_value ? id : std::ranges::find(values, id) - values.begin());
    values.push_back(node.outputs[0]);
  }
  chain.domain = internal_domain;
  chain.op_type = "ElementwiseChain";
  chain.attributes = encode_chain(links);
  return chain;
}

}  // namespace

void fuse_elementwise_chains(Graph& graph, const KernelTable& kernels) {
  if (kernels.find(internal_domain, "ElementwiseChain") == nullptr) return;
  const Pass pass(graph, kernels);
  Slots slots;
  for (const Node& node : graph.nodes) slots.push_back(slots_of(pass, node));
  std::vector<bool> taken(graph.nodes.size());
  std::vector<std::pair<NodeId, Node>> chains;
  for (std::size_t n = graph.nodes.size(); n-- > 0;) {
    if (taken[n] || !slots[n]) continue;
    const Group group = group_of(pass, slots, static_cast<NodeId>(n));
    for (const NodeId member : group) taken[static_cast<std::size_t>(member)] = true;
    if (group.size() > 1) chains.emplace_back(static_cast<NodeId>(n), chain_of(pass, group));
  }
  for (auto& [root, chain] : chains) graph.node(root) = std::move(chain);
}

}  // namespace autopar::runtime::passes
