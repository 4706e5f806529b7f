#include "graph/runtimes/autopar_collectives.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "graph/contrib/families.h"
#include "graph/contrib/operator_table.h"
#include "graph/onnx/onnx_import.h"
#include "graph/onnx/schema_text.h"
#include "graph/runtimes/node_chain.h"

namespace autopar::graph {
namespace {

using Ints = std::vector<std::int64_t>;

void infer_same(onnx::InferenceContext& context) {
  onnx::propagateShapeAndTypeFromFirstInput(context);
}

/// Multiplies and divides the extent of a dimension.
void infer_scaled(onnx::InferenceContext& context, std::int64_t dim, std::int64_t times,
                  std::int64_t parts) {
  infer_same(context);
  auto& shape = *context.getOutputType(0)->mutable_tensor_type()->mutable_shape();
  if (dim < 0 || dim >= shape.dim_size() || times < 1 || parts < 1)
    fail_shape_inference("dimension ", dim, " of a tensor of ", shape.dim_size(), ", times ", times,
                         " by ", parts);
  auto& extent = *shape.mutable_dim(static_cast<int>(dim));
  extent.set_dim_value(extent.dim_value() * times / parts);
}

void infer_all_gather(onnx::InferenceContext& context) {
  infer_scaled(context, onnx::getAttribute(context, "axis", 1),
               onnx::getAttribute(context, "group_size", 1), 1);
}

void infer_dist_collective(onnx::InferenceContext& context) {
  const std::string operation = onnx::getAttribute(context, "collective_operation", "");
  const std::int64_t ranks = onnx::getAttribute(context, "nb_rank", 1);
  if (operation == "all_gather") return infer_scaled(context, 0, ranks, 1);
  if (operation == "reduce_scatter") return infer_scaled(context, 0, 1, ranks);
  infer_same(context);
}

void register_runtime_schemas() {
  register_schemas();
  static std::once_flag once;
  std::call_once(once, [] {
    const VitalMemory vital;
    const std::pair<SchemaText, InferShapes> schemas[] = {
        {{microsoft_domain, "AllReduce", "input", "output", ""}, infer_same},
        {{microsoft_domain, "AllGather", "input", "output", "axis:i group_size:i"},
         infer_all_gather},
        {{microsoft_domain, "AllToAll", "input", "output", "group_size:i"}, infer_same},
        {{"", "DistCollective", "input", "output",
          "collective_operation:s reduce_op:s root:i nb_rank:i group_size:i groups:is"},
         infer_dist_collective}};
    for (const auto& [text, infer] : schemas)
      register_schema(text, infer, /*needs_attributes=*/false);
  });
}

/// Whose file it is, and a collective in it.
struct Read {
  const Node& node;
  std::int64_t rank;
  std::int64_t ranks;

  Ints group() const {
    Ints world(static_cast<std::size_t>(ranks));
    std::iota(world.begin(), world.end(), 0);
    const Ints group = node.ints_attribute("groups", {});
    return group.empty() ? world : group;
  }
};

/// The node, with the attributes that all of autopar's collectives have.
Node autopar_node(const char* op_type, const Read& read,
                  std::map<std::string, Attribute> attributes) {
  const Ints group = read.group();
  const auto own = std::ranges::find(group, read.rank);
  const std::string key = read.node.domain.empty() ? "nb_rank" : "group_size";
  const auto size = static_cast<std::int64_t>(group.size());
  if (own == group.end() || read.node.int_attribute(key, size) != size)
    fail("node '{}' is of another group than rank {} of {} is in", read.node.name, read.rank,
         read.ranks);
  attributes["ranks"] = group;
  attributes["rank"] = own - group.begin();
  attributes["mesh_axes"] = Ints{0};
  return {.name = {},
          .op_type = op_type,
          .domain = collective_domain,
          .inputs = {},
          .outputs = {},
          .attributes = std::move(attributes)};
}

Shape scaled(Shape shape, std::int64_t dim, std::int64_t times, std::int64_t parts) {
  auto& extent = shape[static_cast<std::size_t>(dim)];
  extent = extent * times / parts;
  return shape;
}

void read_all_reduce(const Read& read, const std::string& reduce, NodeChain& chain) {
  const Shape shape = chain.shape();
  chain.through(autopar_node("AllReduce", read, {{"reduce", reduce}}), shape);
}

void read_all_gather(const Read& read, std::int64_t dim, NodeChain& chain) {
  const std::size_t ranks = read.group().size();
  const Ints sizes(ranks, chain.shape()[static_cast<std::size_t>(dim)]);
  Shape gathered = scaled(chain.shape(), dim, static_cast<std::int64_t>(ranks), 1);
  chain.through(autopar_node("AllGather", read, {{"dim", dim}, {"sizes", sizes}}),
                std::move(gathered));
}

void read_reduce_scatter(const Read& read, const std::string& reduce, NodeChain& chain) {
  const auto ranks = static_cast<std::int64_t>(read.group().size());
  Shape scattered = scaled(chain.shape(), 0, 1, ranks);
  const Ints sizes(read.group().size(), scattered.front());
  chain.through(autopar_node("ReduceScatter", read,
                             {{"reduce", reduce}, {"dim", std::int64_t{0}}, {"sizes", sizes}}),
                std::move(scattered));
}

/// The parts of dimension 0 become a dimension, which is split; what they hold is put together.
void read_all_to_all(const Read& read, NodeChain& chain) {
  const Shape shape = chain.shape();
  Shape parts = scaled(shape, 0, 1, read.ranks);
  const Ints own(static_cast<std::size_t>(read.ranks), parts.front());
  parts.insert(parts.begin(), read.ranks);
  Shape exchanged = shape;
  exchanged.insert(exchanged.begin(), 1);
  chain.reshape(parts)
      .through(autopar_node("AllToAll", read,
                            {{"split_dim", std::int64_t{0}},
                             {"concat_dim", std::int64_t{1}},
                             {"split_sizes", Ints(own.size(), 1)},
                             {"concat_sizes", own}}),
               exchanged)
      .reshape(shape);
}

/// By TensorRT's name of a reduction.
const std::string& reduction(const Node& node) {
  static const std::map<std::string, std::string> names{
      {"sum", "sum"}, {"max", "max"}, {"min", "min"}, {"avg", "mean"}};
  const auto found = names.find(node.string_attribute("reduce_op", ""));
  if (found == names.end())
    fail("node '{}' reduces by '{}', not sum, max, min or avg", node.name,
         node.string_attribute("reduce_op", ""));
  return found->second;
}

void read_dist_collective(const Read& read, NodeChain& chain) {
  const std::string operation = read.node.string_attribute("collective_operation", "");
  if (operation == "all_reduce") return read_all_reduce(read, reduction(read.node), chain);
  if (operation == "all_gather") return read_all_gather(read, 0, chain);
  if (operation == "reduce_scatter") return read_reduce_scatter(read, reduction(read.node), chain);
  fail("node '{}' is of operation '{}', not all_reduce, all_gather or reduce_scatter",
       read.node.name, operation);
}

using ReadNode = void (*)(const Read& read, NodeChain& chain);

/// By qualified type.
const std::map<std::string, ReadNode>& readers() {
  static const std::map<std::string, ReadNode> table{
      {"com.microsoft::AllReduce",
       [](const Read& read, NodeChain& chain) { read_all_reduce(read, "sum", chain); }},
      {"com.microsoft::AllGather",
       [](const Read& read, NodeChain& chain) {
         read_all_gather(read, read.node.int_attribute("axis", 1), chain);
       }},
      {"com.microsoft::AllToAll", read_all_to_all},
      {"DistCollective", read_dist_collective}};
  return table;
}

}  // namespace

Graph load_runtime_shard(const std::filesystem::path& file, int rank, int ranks) {
  register_runtime_schemas();
  Graph shard = load_onnx(file, {.shapes = {}, .evaluate = {}, .is_native = {}, .unrolls = false});
  const std::vector<Node> nodes = shard.nodes;
  GraphRewriter rewriter(shard);
  for (const Node& node : nodes) {
    const auto reader = readers().find(qualified_op_type(node));
    if (reader == readers().end()) {
      rewriter.append(node);
      continue;
    }
    rewriter.release(node.name);
    NodeChain chain(rewriter, node.name, node.inputs[0]);
    reader->second({node, rank, ranks}, chain);
    chain.end_in(node.outputs[0]);
  }
  rewriter.finish();
  shard.opsets[collective_domain] = 1;
  return shard;
}

}  // namespace autopar::graph
