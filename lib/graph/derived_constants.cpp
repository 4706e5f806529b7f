#include "graph/derived_constants.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

namespace autopar::graph {
namespace {

constexpr std::int64_t always_few_bytes = std::int64_t{4} << 20;

/// A flag for each value of a graph.
class ValueSet {
 public:
  explicit ValueSet(const Graph& graph) : has_(graph.values.size()) {}
  bool has(ValueId id) const { return id != no_value && has_[static_cast<std::size_t>(id)]; }
  void add(ValueId id) {
    if (id != no_value) has_[static_cast<std::size_t>(id)] = true;
  }

 private:
  std::vector<bool> has_;
};

std::int64_t bytes_of(const Graph& graph, ValueId id) {
  return bytes_of(graph.value(id).type, num_elements(graph.value(id).shape));
}

bool is_product(const Node& node) {
  static const std::set<std::string_view> products = {"Conv", "ConvTranspose", "Einsum", "Gemm",
                                                      "MatMul"};
  return node.domain.empty() && products.contains(node.op_type);
}

/// What follows from constants, and what of it products make or others make of that.
struct Known {
  ValueSet all;
  ValueSet of_products;
};

bool is_computable(const Node& node, const ValueSet& known) {
  const auto is_known = [&](ValueId id) { return id == no_value || known.has(id); };
  return node.domain != collective_domain && !node.body &&
         std::ranges::all_of(node.inputs, is_known);
}

Known known_values(const Graph& graph) {
  Known known{ValueSet(graph), ValueSet(graph)};
  for (std::size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].constant) known.all.add(static_cast<ValueId>(v));
  for (const Node& node : graph.nodes) {
    if (!is_computable(node, known.all)) continue;
    std::int64_t bytes_read = 0;
    std::int64_t bytes_made = 0;
    for (const ValueId id : node.inputs)
      if (known.of_products.has(id)) bytes_read += bytes_of(graph, id);
    for (const ValueId id : node.outputs)
      if (id != no_value) bytes_made += bytes_of(graph, id);
    const bool follows = bytes_read > 0 && bytes_made <= bytes_read;
    for (const ValueId id : node.outputs) {
      known.all.add(id);
      if (is_product(node) || follows) known.of_products.add(id);
    }
  }
  return known;
}

/// Bytes of the values that nodes read which do not make such themselves.
std::int64_t bytes_read_by_others(const Graph& graph, const ValueSet& values) {
  std::set<ValueId> read;
  for (const Node& node : graph.nodes) {
    const auto is_among = [&](ValueId id) { return values.has(id); };
    if (std::ranges::any_of(node.outputs, is_among)) continue;
    std::ranges::copy_if(node.inputs, std::inserter(read, read.end()), is_among);
  }
  std::int64_t bytes = 0;
  for (const ValueId id : read) bytes += bytes_of(graph, id);
  return bytes;
}

/// Bytes of the constants that are read to compute others alone.
std::int64_t replaced_bytes(const Graph& graph, const ValueSet& known) {
  ValueSet read_by_others(graph);
  std::set<ValueId> read;
  for (const ValueId id : graph.outputs) read_by_others.add(id);
  for (const Node& node : graph.nodes) {
    const bool is_computed_once = is_computable(node, known);
    for (const ValueId id : node.inputs) {
      if (!is_computed_once) read_by_others.add(id);
      if (is_computed_once && graph.is_constant(id)) read.insert(id);
    }
  }
  std::int64_t bytes = 0;
  for (const ValueId id : read)
    if (!read_by_others.has(id)) bytes += bytes_of(graph, id);
  return bytes;
}

std::int64_t products_bytes(const Graph& graph, const Known& known) {
  const std::int64_t bytes = bytes_read_by_others(graph, known.of_products);
  if (bytes <= always_few_bytes) return bytes;
  return bytes <= weight_bytes(graph) / 4 ? bytes : 0;
}

}  // namespace

std::int64_t derived_constant_bytes(const Graph& graph) {
  const Known known = known_values(graph);
  return replaced_bytes(graph, known.all) + products_bytes(graph, known);
}

}  // namespace autopar::graph
