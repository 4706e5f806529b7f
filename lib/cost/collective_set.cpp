#include "cost/collective_set.h"

#include <algorithm>

namespace autopar::cost {
namespace {

using graph::DataType;
using sharding::DeviceMesh;
using sharding::Reduce;
using sharding::ReshardStep;
using sharding::Shape;
using sharding::StepKind;
using sharding::TensorShardSpec;

bool is_divided(const TensorShardSpec& spec, const Shape& shape, const DeviceMesh& mesh) {
  for (std::size_t d = 0; d < spec.dims.size(); ++d)
    if (shape[d] % mesh.group_size(spec.dims[d]) != 0) return false;
  return true;
}

/// Whether all ranks of each group along the axes have as much of the tensor.
bool has_equal_shares(const TensorShardSpec& spec, const Shape& shape, const DeviceMesh& mesh,
                      const std::vector<int>& axes) {
  if (is_divided(spec, shape, mesh)) return true;
  for (int rank = 0; rank < mesh.num_devices(); ++rank) {
    const int first = mesh.group(rank, axes).front();
    if (local_shape(spec, shape, mesh, rank) != local_shape(spec, shape, mesh, first)) return false;
  }
  return true;
}

bool is_in_order_of_ranks(const DeviceMesh& mesh, const std::vector<int>& axes) {
  return std::ranges::is_sorted(mesh.group(0, axes));
}

bool reduces(StepKind kind) {
  return kind == StepKind::all_reduce || kind == StepKind::reduce_scatter;
}

}  // namespace

bool CollectiveSet::has(const ReshardStep& step, const Shape& shape, DataType type,
                        const DeviceMesh& mesh) const {
  const int ranks = mesh.group_size(step.mesh_axes);
  if (step.kind == StepKind::slice || ranks == 1) return true;
  const auto kind = types.find(step.kind);
  if (kind == types.end() || !kind->second.contains(type)) return false;
  if (reduces(step.kind) && !reductions.contains(step.reduce)) return false;
  if (is_of_world && ranks != mesh.num_devices()) return false;
  return (step.kind == StepKind::all_reduce || is_in_order_of_ranks(mesh, step.mesh_axes)) &&
         has_equal_shares(step.before, shape, mesh, step.mesh_axes) &&
         has_equal_shares(step.after, shape, mesh, step.mesh_axes);
}

bool CollectiveSet::transposes(const ReshardStep& step) const {
  return is_of_outermost && (step.dim > 0 || step.split_dim > 0);
}

std::shared_ptr<const CollectiveSet> onnx_runtime_collectives() {
  static const std::set<DataType> floats{DataType::float16, DataType::float32, DataType::float64};
  static const std::set<DataType> moved{DataType::float16, DataType::float32, DataType::float64,
                                        DataType::int64, DataType::boolean};
  static const auto set =
      std::make_shared<const CollectiveSet>(CollectiveSet{.name = "onnxruntime",
                                                          .types = {{StepKind::all_reduce, floats},
                                                                    {StepKind::all_gather, moved},
                                                                    {StepKind::all_to_all, moved}},
                                                          .reductions = {Reduce::sum},
                                                          .is_of_world = true,
                                                          .is_of_outermost = true});
  return set;
}

std::shared_ptr<const CollectiveSet> tensorrt_collectives() {
  static const std::set<DataType> floats{DataType::float16, DataType::bfloat16, DataType::float32};
  static const auto set = std::make_shared<const CollectiveSet>(
      CollectiveSet{.name = "tensorrt",
                    .types = {{StepKind::all_reduce, floats},
                              {StepKind::all_gather, floats},
                              {StepKind::reduce_scatter, floats}},
                    .reductions = {Reduce::sum, Reduce::max, Reduce::min, Reduce::mean},
                    .is_of_world = false,
                    .is_of_outermost = true});
  return set;
}

}  // namespace autopar::cost
