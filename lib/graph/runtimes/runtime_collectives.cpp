#include "graph/runtimes/runtime_collectives.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "graph/runtimes/node_chain.h"

namespace autopar::graph {
namespace {

using Ints = std::vector<std::int64_t>;

/// A collective that is replaced.
struct Replaced {
  const Node& node;
  int ranks_of_world;

  std::int64_t integer(const char* name) const { return node.int_attribute(name, -1); }
  Ints group() const { return node.ints_attribute("ranks", {}); }
  std::int64_t ranks() const { return static_cast<std::int64_t>(group().size()); }
  bool is_of_world() const { return ranks() == ranks_of_world; }
  std::string reduce() const { return node.string_attribute("reduce", ""); }
};

/// How a runtime does one kind of collective.
struct Row {
  const char* op_type;  ///< of domain autopar
  void (*write)(const Replaced& collective, NodeChain& chain);
};

/// Swaps the dimension with dimension 0. Its own inverse.
Ints swapped_with_first(std::int64_t dim, const Shape& shape) {
  Ints permutation(shape.size());
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation.front(), permutation[static_cast<std::size_t>(dim)]);
  return permutation;
}

/// Moves entry `from` to place `to`, those between by one.
Ints moved(std::size_t from, std::size_t to, std::size_t count) {
  Ints permutation(count);
  std::iota(permutation.begin(), permutation.end(), 0);
  const Ints::value_type entry = permutation[from];
  permutation.erase(permutation.begin() + static_cast<std::ptrdiff_t>(from));
  permutation.insert(permutation.begin() + static_cast<std::ptrdiff_t>(to), entry);
  return permutation;
}

Shape with_extent(Shape shape, std::int64_t dim, std::int64_t extent) {
  shape[static_cast<std::size_t>(dim)] = extent;
  return shape;
}

Node microsoft_node(const char* op_type, std::map<std::string, Attribute> attributes) {
  return {.name = {},
          .op_type = op_type,
          .domain = "com.microsoft",
          .inputs = {},
          .outputs = {},
          .attributes = std::move(attributes)};
}

void all_reduce_in_onnx_runtime(const Replaced& collective, NodeChain& chain) {
  require(collective.reduce() == "sum", "ONNX Runtime's AllReduce adds up");
  const Shape shape = chain.shape();
  chain.through(microsoft_node("AllReduce", {}), shape);
}

void all_gather_in_onnx_runtime(const Replaced& collective, NodeChain& chain) {
  const std::int64_t dim = collective.integer("dim");
  const std::int64_t ranks = collective.ranks();
  const std::int64_t extent = ranks * chain.shape()[static_cast<std::size_t>(dim)];
  Shape gathered = with_extent(chain.shape(), dim, extent);
  chain.through(microsoft_node("AllGather", {{"axis", dim}, {"group_size", ranks}}),
                std::move(gathered));
}

/// The operator exchanges the parts of dimension 0, one a rank.
void all_to_all_in_onnx_runtime(const Replaced& collective, NodeChain& chain) {
  const auto split = static_cast<std::size_t>(collective.integer("split_dim"));
  const auto concat = static_cast<std::size_t>(collective.integer("concat_dim"));
  const std::int64_t ranks = collective.ranks();
  Shape part = chain.shape();
  part[split] /= ranks;
  Shape parts = part;
  parts.insert(parts.begin() + static_cast<std::ptrdiff_t>(split), ranks);
  chain.reshape(parts).transpose(moved(split, 0, parts.size()));
  const Shape exchanged = chain.shape();
  chain.through(microsoft_node("AllToAll", {{"group_size", ranks}}), exchanged)
      .transpose(moved(0, concat, parts.size()))
      .reshape(with_extent(part, static_cast<std::int64_t>(concat), ranks * part[concat]));
}

/// By autopar's name of a reduction.
const std::map<std::string, std::string>& reductions_in_tensorrt() {
  static const std::map<std::string, std::string> names{
      {"sum", "sum"}, {"max", "max"}, {"min", "min"}, {"mean", "avg"}, {"", "none"}};
  return names;
}

Node dist_collective(const Replaced& collective, const char* operation) {
  Node node{.name = {},
            .op_type = "DistCollective",
            .domain = {},
            .inputs = {},
            .outputs = {},
            .attributes = {{"collective_operation", std::string(operation)},
                           {"reduce_op", reductions_in_tensorrt().at(collective.reduce())},
                           {"root", std::int64_t{-1}},
                           {"nb_rank", collective.ranks()},
                           {"group_size", std::int64_t{0}}}};
  if (!collective.is_of_world()) {
    node.attributes["groups"] = collective.group();
    node.attributes["group_size"] = collective.ranks();
  }
  return node;
}

void all_reduce_in_tensorrt(const Replaced& collective, NodeChain& chain) {
  const Shape shape = chain.shape();
  const Shape reduced = shape.empty() ? Shape{1} : shape;
  chain.reshape(reduced).through(dist_collective(collective, "all_reduce"), reduced).reshape(shape);
}

void all_gather_in_tensorrt(const Replaced& collective, NodeChain& chain) {
  const Ints swap = swapped_with_first(collective.integer("dim"), chain.shape());
  chain.transpose(swap);
  Shape gathered = with_extent(chain.shape(), 0, collective.ranks() * chain.shape().front());
  chain.through(dist_collective(collective, "all_gather"), std::move(gathered)).transpose(swap);
}

void reduce_scatter_in_tensorrt(const Replaced& collective, NodeChain& chain) {
  const Ints swap = swapped_with_first(collective.integer("dim"), chain.shape());
  chain.transpose(swap);
  Shape scattered = with_extent(chain.shape(), 0, chain.shape().front() / collective.ranks());
  chain.through(dist_collective(collective, "reduce_scatter"), std::move(scattered))
      .transpose(swap);
}

constexpr std::array onnx_runtime_rows{Row{"AllReduce", all_reduce_in_onnx_runtime},
                                       Row{"AllGather", all_gather_in_onnx_runtime},
                                       Row{"AllToAll", all_to_all_in_onnx_runtime}};
constexpr std::array tensorrt_rows{Row{"AllReduce", all_reduce_in_tensorrt},
                                   Row{"AllGather", all_gather_in_tensorrt},
                                   Row{"ReduceScatter", reduce_scatter_in_tensorrt}};

/// Whether data of the first collective's output come to the second's input.
bool brings(const Graph& graph, std::size_t first, std::size_t second) {
  std::vector<bool> reached(graph.values.size(), false);
  const auto is_reached = [&](ValueId id) {
    return id != no_value && reached[static_cast<std::size_t>(id)];
  };
  reached[static_cast<std::size_t>(graph.nodes[first].outputs[0])] = true;
  for (std::size_t n = first + 1; n < second; ++n) {
    if (std::ranges::none_of(graph.nodes[n].inputs, is_reached)) continue;
    for (const ValueId output : graph.nodes[n].outputs)
      if (output != no_value) reached[static_cast<std::size_t>(output)] = true;
  }
  return is_reached(graph.nodes[second].inputs[0]);
}

/// A copy of `input` that is there only when `before` is.
ValueId after(ValueId before, ValueId input, const std::string& name, GraphRewriter& rewriter) {
  const Value copied = rewriter.value(input);
  NodeChain end(rewriter, name + "/after", before);
  end.reshape({num_elements(end.shape())}).nothing().cast(copied.type);
  const ValueId nothing = rewriter.graph().add_value(
      {rewriter.name(name + "/nothing"), copied.type, {0}, std::nullopt});
  end.end_in(nothing);
  NodeChain copy(rewriter, name + "/ordered", input);
  copy.reshape({num_elements(copied.shape)}).append(nothing).reshape(copied.shape);
  const ValueId made = rewriter.graph().add_value(
      {rewriter.name(name + "/input"), copied.type, copied.shape, std::nullopt});
  copy.end_in(made);
  return made;
}

void replace_collectives(Graph& shard, int ranks, std::span<const Row> rows, bool is_ordered) {
  const Graph before = shard;  // nodes alone change; constants are views
  GraphRewriter rewriter(shard);
  std::optional<std::size_t> last;
  for (std::size_t n = 0; n < before.nodes.size(); ++n) {
    const Node& node = before.nodes[n];
    if (node.domain != collective_domain) {
      rewriter.append(node);
      continue;
    }
    const auto row = std::ranges::find(rows, node.op_type, &Row::op_type);
    require(row != rows.end(), "the search chooses collectives that the runtime has");
    ValueId input = node.inputs[0];
    if (is_ordered && last && !brings(before, *last, n))
      input = after(before.nodes[*last].outputs[0], input, node.name, rewriter);
    rewriter.release(node.name);
    NodeChain chain(rewriter, node.name, input);
    row->write({node, ranks}, chain);
    chain.end_in(node.outputs[0]);
    last = n;
  }
  rewriter.finish();
  shard.opsets.erase(collective_domain);
}

}  // namespace

void use_onnx_runtime_collectives(Graph& shard, int ranks) {
  replace_collectives(shard, ranks, onnx_runtime_rows, /*is_ordered=*/true);
  shard.opsets.try_emplace("com.microsoft", 1);
}

void use_tensorrt_collectives(Graph& shard, int ranks) {
  replace_collectives(shard, ranks, tensorrt_rows, /*is_ordered=*/false);
}

}  // namespace autopar::graph
