#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "sharding/tensor_shard_spec.h"

namespace autopar::sharding {

enum class StepKind { slice, all_reduce, all_gather, reduce_scatter, all_to_all };
/// All kinds but slice, in the order of device files and experiments.
inline constexpr std::array collectives = {StepKind::all_reduce, StepKind::all_gather,
                                           StepKind::reduce_scatter, StepKind::all_to_all};
std::string_view name_of(StepKind kind);  ///< "slice", "all-reduce", "all-gather", ...

/// One slice or collective over the group of `mesh_axes`, which turns `before` into `after`.
struct ReshardStep {
  StepKind kind = StepKind::slice;
  std::vector<int> mesh_axes;  ///< major first
  int dim = -1;        ///< sliced, gathered, scattered or (all-to-all) concatenated dimension
  int split_dim = -1;  ///< all-to-all: the dimension that is split
  Reduce reduce = Reduce::sum;
  TensorShardSpec before;
  TensorShardSpec after;
};

/// The payload V of one rank in the cost formulas, in bytes: all-reduce its local tensor,
/// all-gather the gathered tensor, reduce-scatter the tensor before it is scattered, all-to-all
/// its local tensor before the exchange; 0 for a slice, which communicates nothing.
std::int64_t payload_bytes(const ReshardStep& step, const Shape& shape, graph::DataType type,
                           const DeviceMesh& mesh, int rank);

/// Seconds of one step on a tensor of this global shape; infinite where there is no such step.
using StepPrice =
    std::function<double(const ReshardStep&, const Shape& shape, graph::DataType type)>;

/// On meshes of up to so many axes a slice or a reduce-scatter splits a dimension over axes in any
/// order, so that axes that are alike may change places. On others, which have too many orders, it
/// takes them in ascending order.
inline constexpr int most_axes_stepped_in_any_order = 6;

/// Calls `visit` with each step that leads away from one spec of a tensor, which it may keep as a
/// copy. What one axis of a coarser mesh does in one step, its run of axes of a finer mesh does in
/// one, too; and axes that change places in specs change places in the steps between them.
void for_each_step_from(const TensorShardSpec& spec, const Shape& shape, const DeviceMesh& mesh,
                        const std::function<void(const ReshardStep&)>& visit);

}  // namespace autopar::sharding
