#include "graph/onnx/collective_schemas.h"

#include <onnx/defs/schema.h>

#include <mutex>
#include <numeric>
#include <vector>

#include "graph/graph.h"

namespace autopar::graph {
namespace {

using onnx::AttributeProto;
using onnx::InferenceContext;
using onnx::OpSchema;
using Ints = std::vector<std::int64_t>;

Ints ints(InferenceContext& context, const char* name) {
  Ints values;
  onnx::getRepeatedAttribute(context, name, values);
  return values;
}

std::int64_t sum(const Ints& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
}

/// The extent that belongs to this rank.
std::int64_t own_share(InferenceContext& context, const Ints& sizes) {
  const std::int64_t rank = onnx::getAttribute(context, "rank", -1);
  if (rank < 0 || rank >= static_cast<std::int64_t>(sizes.size()))
    fail_shape_inference("rank ", rank, " is outside its group of ", sizes.size());
  return sizes[static_cast<std::size_t>(rank)];
}

/// Requires input extent `from` in the dimension that the attribute names and makes it `to`.
void change_extent(InferenceContext& context, const char* dim_name, std::int64_t from,
                   std::int64_t to) {
  auto& shape = *context.getOutputType(0)->mutable_tensor_type()->mutable_shape();
  const std::int64_t dim = onnx::getAttribute(context, dim_name, -1);
  if (dim < 0 || dim >= shape.dim_size())
    fail_shape_inference(dim_name, " ", dim, " is outside a tensor of ", shape.dim_size(),
                         " dimensions");
  auto& extent = *shape.mutable_dim(static_cast<int>(dim));
  if (extent.has_dim_value() && extent.dim_value() != from)
    fail_shape_inference(dim_name, " ", dim, " has extent ", extent.dim_value(), ", not ", from);
  extent.set_dim_value(to);
}

void same_shape(InferenceContext& context) {
  onnx::propagateElemTypeFromInputToOutput(context, 0, 0);
  if (onnx::hasInputShape(context, 0)) onnx::propagateShapeFromInputToOutput(context, 0, 0);
}

void infer_all_gather(InferenceContext& context) {
  same_shape(context);
  if (!onnx::hasInputShape(context, 0)) return;
  const Ints sizes = ints(context, "sizes");
  auto& shape = *context.getOutputType(0)->mutable_tensor_type()->mutable_shape();
  const std::int64_t dim = onnx::getAttribute(context, "dim", -1);
  if (dim < 0 || dim >= shape.dim_size())
    fail_shape_inference("dim ", dim, " is outside a tensor of ", shape.dim_size(), " dimensions");
  shape.mutable_dim(static_cast<int>(dim))->set_dim_value(sum(sizes));
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

OpSchema communication(const char* name) {
  OpSchema schema;
  schema.SetName(name).SetDomain(collective_domain).SinceVersion(1);
  schema.TypeConstraint("T", OpSchema::all_tensor_types_ir10(), "any tensor");
  return schema;
}

OpSchema collective(const char* name) {
  OpSchema schema = communication(name);
  schema.Attr("mesh_axes", "mesh axes that the group spans", AttributeProto::INTS);
  schema.Attr("ranks", "world ranks of the group, in order", AttributeProto::INTS);
  return schema;
}

OpSchema with_input(OpSchema schema) {
  schema.Input(0, "input", "this rank's tensor", "T");
  return schema;
}

OpSchema with_input_and_output(OpSchema schema, onnx::InferenceFunction infer) {
  schema = with_input(std::move(schema));
  schema.Output(0, "output", "this rank's result", "T");
  schema.TypeAndShapeInferenceFunction(std::move(infer));
  return schema;
}

OpSchema with_attributes(OpSchema schema, std::initializer_list<const char*> names,
                         AttributeProto::AttributeType type) {
  for (const char* name : names) schema.Attr(name, name, type);
  return schema;
}

std::vector<OpSchema> schemas() {
  const auto add_ints = [](OpSchema schema, std::initializer_list<const char*> names) {
    return with_attributes(std::move(schema), names, AttributeProto::INTS);
  };
  const auto add_int = [](OpSchema schema, std::initializer_list<const char*> names) {
    return with_attributes(std::move(schema), names, AttributeProto::INT);
  };
  const auto add_reduce = [](OpSchema schema) {
    return with_attributes(std::move(schema), {"reduce"}, AttributeProto::STRING);
  };
  const auto messages = [&](const char* name) {
    return add_ints(communication(name), {"peers", "starts", "ends"});
  };
  OpSchema recv = add_int(add_ints(messages("Recv"), {"shape"}), {"dtype"});
  recv.Output(0, "output", "what the peers sent", "T").TypeAndShapeInferenceFunction(infer_recv);
  return {
      add_reduce(with_input_and_output(collective("AllReduce"), same_shape)),
      add_int(add_ints(with_input_and_output(collective("AllGather"), infer_all_gather), {"sizes"}),
              {"dim"}),
      add_reduce(
          add_int(add_ints(with_input_and_output(collective("ReduceScatter"), infer_reduce_scatter),
                           {"sizes"}),
                  {"dim", "rank"})),
      add_int(add_ints(with_input_and_output(collective("AllToAll"), infer_all_to_all),
                       {"split_sizes", "concat_sizes"}),
              {"split_dim", "concat_dim", "rank"}),
      add_int(with_input_and_output(collective("Broadcast"), same_shape), {"root"}),
      with_input(messages("Send")),
      recv,
  };
}

}  // namespace

void register_collective_schemas() {
  static std::once_flag once;
  std::call_once(once, [] {
    onnx::OpSchemaRegistry::DomainToVersionRange::Instance().AddDomainToVersion(collective_domain,
                                                                                1, 1);
    for (OpSchema& schema : schemas())
      onnx::RegisterSchema(std::move(schema), 0, /*fail_duplicate_schema=*/true,
                           /*fail_with_exception=*/true);
  });
}

}  // namespace autopar::graph
