#include "graph/onnx/collective_schemas.h"

#include <mutex>

#include "base/checked.h"
#include "base/out_of_memory.h"
#include "graph/graph.h"
#include "graph/onnx/schema_text.h"

namespace autopar::graph {
namespace {

using onnx::InferenceContext;
using Ints = std::vector<std::int64_t>;

Ints ints(InferenceContext& context, const char* name) {
  Ints values;
  onnx::getRepeatedAttribute(context, name, values);
  return values;
}

std::int64_t sum(const Ints& sizes) {
  std::int64_t all = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0) fail_shape_inference("a rank's size is ", size);
    all = saturated_add(all, size);
  }
  return all;
}

/// The extent that belongs to this rank.
std::int64_t own_share(InferenceContext& context, const Ints& sizes) {
  const std::int64_t rank = onnx::getAttribute(context, "rank", -1);
  if (rank < 0 || rank >= static_cast<std::int64_t>(sizes.size()))
    fail_shape_inference("rank ", rank, " is outside its group of ", sizes.size());
  return sizes[static_cast<std::size_t>(rank)];
}

/// Makes the extent of the dimension that the attribute names `to`; before it must be `from`, if
/// that is given.
void change_extent(InferenceContext& context, const char* dim_name,
                   std::optional<std::int64_t> from, std::int64_t to) {
  auto& shape = *context.getOutputType(0)->mutable_tensor_type()->mutable_shape();
  const std::int64_t dim = onnx::getAttribute(context, dim_name, -1);
  if (dim < 0 || dim >= shape.dim_size())
    fail_shape_inference(dim_name, " ", dim, " is outside a tensor of ", shape.dim_size(),
                         " dimensions");
  auto& extent = *shape.mutable_dim(static_cast<int>(dim));
  if (from && extent.has_dim_value() && extent.dim_value() != *from)
    fail_shape_inference(dim_name, " ", dim, " has extent ", extent.dim_value(), ", not ", *from);
  extent.set_dim_value(to);
}

constexpr InferShapes same_shape = onnx::propagateShapeAndTypeFromFirstInput;

void infer_all_gather(InferenceContext& context) {
  same_shape(context);
  if (!onnx::hasInputShape(context, 0)) return;
  change_extent(context, "dim", std::nullopt, sum(ints(context, "sizes")));
}

void infer_reduce_scatter(InferenceContext& context) {
  same_shape(context);
  if (!onnx::hasInputShape(context, 0)) return;
  const Ints sizes = ints(context, "sizes");
  change_extent(context, "dim", sum(sizes), own_share(context, sizes));
}

void infer_all_to_all(InferenceContext& context) {
  same_shape(context);
  if (!onnx::hasInputShape(context, 0)) return;
  const Ints split = ints(context, "split_sizes");
  const Ints concat = ints(context, "concat_sizes");
  change_extent(context, "split_dim", sum(split), own_share(context, split));
  change_extent(context, "concat_dim", own_share(context, concat), sum(concat));
}

void infer_recv(InferenceContext& context) {
  onnx::propagateElemTypeFromAttributeToOutput(context, "dtype", 0);
  auto& shape = *context.getOutputType(0)->mutable_tensor_type()->mutable_shape();
  for (const std::int64_t extent : ints(context, "shape")) shape.add_dim()->set_dim_value(extent);
}

struct Collective : SchemaText {
  InferShapes infer = nullptr;
};

constexpr Collective collectives[] = {
    {collective_domain, "AllReduce", "input after?", "output",
     "mesh_axes:is ranks:is rank:i reduce:s", same_shape},
    {collective_domain, "AllGather", "input after?", "output",
     "mesh_axes:is ranks:is rank:i sizes:is dim:i", infer_all_gather},
    {collective_domain, "ReduceScatter", "input after?", "output",
     "mesh_axes:is ranks:is rank:i sizes:is dim:i reduce:s", infer_reduce_scatter},
    {collective_domain, "AllToAll", "input after?", "output",
     "mesh_axes:is ranks:is rank:i split_sizes:is concat_sizes:is split_dim:i concat_dim:i",
     infer_all_to_all},
    {collective_domain, "Broadcast", "input after?", "output",
     "mesh_axes:is ranks:is rank:i root:i", same_shape},
    {collective_domain, "Send", "input", "", "rank:i peers:is starts:is ends:is"},
    {collective_domain, "Recv", "", "output", "rank:i peers:is starts:is ends:is shape:is dtype:i",
     infer_recv},
};

}  // namespace

void register_collective_schemas() {
  static std::once_flag once;
  std::call_once(once, [] {
    const VitalMemory vital;
    onnx::OpSchemaRegistry::DomainToVersionRange::Instance().AddDomainToVersion(collective_domain,
                                                                                1, 1);
    for (const Collective& collective : collectives)
      register_schema(collective, collective.infer, /*needs_attributes=*/true);
  });
}

}  // namespace autopar::graph
