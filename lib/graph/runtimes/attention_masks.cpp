#include "graph/runtimes/attention_masks.h"

#include <algorithm>
#include <map>

#include "graph/runtimes/node_chain.h"

namespace autopar::graph {
namespace {

constexpr std::size_t mask_input = 3;

/// The extent of its scores' rows: Q is [batch, queries, hidden] or [batch, heads, queries, size].
std::int64_t num_queries(const Graph& graph, const Node& attention) {
  const Shape& query = graph.value(attention.inputs[0]).shape;
  return query[query.size() - 2];
}

bool has_mask(const Node& node) {
  return node.domain.empty() && node.op_type == "Attention" && node.inputs.size() > mask_input &&
         node.inputs[mask_input] != no_value;
}

bool has_mask_of_one_row(const Graph& graph, const Node& node) {
  if (!has_mask(node)) return false;
  const Value& mask = graph.value(node.inputs[mask_input]);
  const std::size_t dims = mask.shape.size();
  return !mask.constant && dims >= 2 && mask.shape[dims - 2] == 1 && num_queries(graph, node) > 1;
}

/// Makes the node read its mask with a row for each query.
void repeat_mask(GraphRewriter& rewriter, Node& attention) {
  ValueId& mask = attention.inputs[mask_input];
  Value rows = rewriter.value(mask);
  rows.shape[rows.shape.size() - 2] = num_queries(rewriter.graph(), attention);
  rows.name = rewriter.name(attention.name + "/mask_rows");
  rows.constant.reset();
  const Shape shape = rows.shape;
  const ValueId repeated = rewriter.graph().add_value(std::move(rows));
  NodeChain(rewriter, attention.name + "/mask", mask).expand(shape).end_in(repeated);
  mask = repeated;
}

}  // namespace

void repeat_rows_of_attention_masks(Graph& shard) {
  if (std::ranges::none_of(shard.nodes,
                           [&](const Node& n) { return has_mask_of_one_row(shard, n); }))
    return;
  GraphRewriter rewriter(shard);
  for (Node node : shard.nodes) {
    if (has_mask_of_one_row(shard, node)) repeat_mask(rewriter, node);
    rewriter.append(std::move(node));
  }
  rewriter.finish();
}

void drop_repeated_rows_of_attention_masks(Graph& shard) {
  std::map<ValueId, ValueId> one_row;  // by what it is repeated to
  for (const Node& node : shard.nodes) {
    if (!node.domain.empty() || node.op_type != "Expand") continue;
    Shape shape = shard.value(node.outputs[0]).shape;
    if (shape.size() < 2) continue;
    shape[shape.size() - 2] = 1;
    if (shard.value(node.inputs[0]).shape == shape) one_row[node.outputs[0]] = node.inputs[0];
  }
  bool drops = false;
  for (Node& node : shard.nodes) {
    const auto found = has_mask(node) ? one_row.find(node.inputs[mask_input]) : one_row.end();
    if (found == one_row.end()) continue;
    node.inputs[mask_input] = found->second;
    drops = true;
  }
  if (drops) remove_dead_nodes(shard);
}

}  // namespace autopar::graph
