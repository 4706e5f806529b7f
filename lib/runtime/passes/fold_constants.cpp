#include <algorithm>
#include <set>
#include <utility>

#include "base/work_signs.h"
#include "runtime/constant_store.h"
#include "runtime/executable.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {
namespace {

using graph::Tensor;

/// Outputs up to this size are kept however small the inputs.
constexpr std::int64_t always_worth_bytes = 1 << 20;

/// Without those that are left out.
std::vector<ValueId> present(std::vector<ValueId> ids) {
  std::erase(ids, graph::no_value);
  return ids;
}

std::int64_t bytes_of(const Graph& graph, const std::vector<ValueId>& ids) {
  std::int64_t bytes = 0;
  for (const ValueId id : present(ids))
    bytes += graph::bytes_of(graph.value(id).type, graph::num_elements(graph.value(id).shape));
  return bytes;
}

bool is_foldable(const Graph& graph, const Node& node) {
  if (node.domain == graph::collective_domain || node.body) return false;
  const bool all_constant =
      std::ranges::all_of(present(node.inputs), [&](ValueId id) { return graph.is_constant(id); });
  if (!all_constant || cpu_kernels().find(node.domain, node.op_type) == nullptr) return false;
  const std::int64_t bytes = bytes_of(graph, node.outputs);
  return bytes <= always_worth_bytes || bytes <= bytes_of(graph, node.inputs);
}

/// The node alone, with its constants as they are.
Graph single_node_graph(const Graph& graph, const Node& node) {
  Graph single;
  single.opsets = graph.opsets;
  Node copy = node;
  for (ValueId& id : copy.inputs)
    if (id != graph::no_value) id = single.add_value(graph.value(id));
  for (ValueId& id : copy.outputs) {
    if (id == graph::no_value) continue;
    id = single.add_value(graph.value(id));
    single.outputs.push_back(id);
  }
  single.nodes.push_back(std::move(copy));
  return single;
}

bool is_view_of_constant(const Graph& graph, const Node& node) {
  return cpu_kernels().find(node.domain, node.op_type)->is_view && node.outputs.size() == 1 &&
         graph.value(node.inputs[0]).constant->is_contiguous();
}

/// The value in whose new memory each one lies; no_value where there is none, or it is mapped.
using Owners = std::vector<ValueId>;

/// The outputs, without data where an input has none.
std::optional<std::vector<Tensor>> evaluate(const Graph& graph, const Node& node) {
  const bool has_data = std::ranges::all_of(
      present(node.inputs), [&](ValueId id) { return graph.value(id).constant->has_data(); });
  if (has_data) return evaluate_constants(single_node_graph(graph, node));
  std::vector<Tensor> results;
  for (const ValueId id : present(node.outputs))
    results.push_back(Tensor::absent(graph.value(id).type, graph.value(id).shape));
  return results;
}

/// Whether the node's outputs are constants now.
bool fold(Graph& graph, const Node& node, Owners& owners, ConstantStore* store) {
  if (is_view_of_constant(graph, node)) {
    graph::Value& output = graph.value(node.outputs[0]);
    const Tensor& input = *graph.value(node.inputs[0]).constant;
    output.constant = derived(store, ConstantStore::recipe_of(graph, node),
                              [&] { return input.reshaped(output.shape); });
    owners[static_cast<std::size_t>(node.outputs[0])] =
        owners[static_cast<std::size_t>(node.inputs[0])];
    return true;
  }
  const auto make = [&] { return evaluate(graph, node); };
  auto results =
      store == nullptr ? make() : store->derive(ConstantStore::recipe_of(graph, node), make);
  if (!results) return false;
  for (const ValueId id : present(node.inputs)) graph.value(id).constant->release_pages();
  std::size_t next = 0;
  for (const ValueId id : present(node.outputs)) {
    graph.value(id).constant = std::move((*results)[next++]);
    owners[static_cast<std::size_t>(id)] = id;
  }
  return true;
}

/// Bytes of the new constants that are read, or lie where one lies that is.
std::int64_t bytes_in_use(const Graph& graph, const Owners& owners) {
  std::set<ValueId> used;
  const auto use = [&](const std::vector<ValueId>& ids) {
    for (const ValueId id : present(ids)) used.insert(owners[static_cast<std::size_t>(id)]);
  };
  for (const Node& node : graph.nodes) use(node.inputs);
  use(graph.outputs);
  used.erase(graph::no_value);
  return bytes_of(graph, {used.begin(), used.end()});
}

}  // namespace

std::int64_t fold_constants(Graph& graph, ConstantStore* store) {
  Owners owners(graph.values.size(), graph::no_value);
  std::vector<Node> kept;
  for (Node& node : graph.nodes) {
    note_work();
    if (!is_foldable(graph, node) || !fold(graph, node, owners, store))
      kept.push_back(std::move(node));
  }
  graph.nodes = std::move(kept);
  return bytes_in_use(graph, owners);
}

}  // namespace autopar::runtime::passes
