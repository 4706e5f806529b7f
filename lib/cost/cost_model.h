#pragma once

#include <optional>
#include <vector>

#include "cost/device_model.h"
#include "sharding/connect.h"
#include "sharding/op_shard_spec.h"

namespace autopar::cost {

/// A sum of products: two inputs share a factor that no output has. Lookups and the like are not.
bool is_contraction(const sharding::ShardingRule& rule);

/// Predicts seconds on one mesh of equal devices. The formulas are in ARCHITECTURE.md; each cost
/// is computed here and nowhere else.
class CostModel {
 public:
  CostModel(DeviceModel device, sharding::DeviceMesh mesh);

  const DeviceModel& device() const { return device_; }
  const sharding::DeviceMesh& mesh() const { return mesh_; }

  /// The operator on its largest local shard, without its reductions: the larger of arithmetic and
  /// memory traffic, plus a launch; views are free. Only a sum of products (a factor shared by two
  /// inputs and no output) is priced by its arithmetic, 2 operations an iteration of its loops; all
  /// else is bound by memory, which counts every input and output once.
  double operator_seconds(const graph::Graph& graph, const graph::Node& node,
                          const sharding::ShardingRule& rule,
                          const sharding::OpShardSpec& spec) const;
  /// The reductions that the strategy does after the operator.
  double reduction_seconds(const graph::Graph& graph, const graph::Node& node,
                           const sharding::OpShardSpec& spec) const;
  /// One slice or collective on a tensor of the given global shape, the largest rank's. A slice
  /// costs its copy: what it keeps, read and written, plus a launch.
  double step_seconds(const sharding::ReshardStep& step, const sharding::Shape& shape,
                      graph::DataType type) const;

  sharding::StepPrice step_price() const;

 private:
  double arithmetic_seconds(graph::DataType type, const sharding::ShardingRule& rule,
                            const sharding::OpShardSpec& spec) const;
  double memory_seconds(const graph::Graph& graph, const graph::Node& node,
                        const sharding::ShardingRule& rule,
                        const sharding::OpShardSpec& spec) const;
  double slice_seconds(const sharding::ReshardStep& step, const sharding::Shape& shape,
                       graph::DataType type) const;
  /// Of a mesh axis: where devices stand in nodes, that between nodes if the axis leaves one.
  const Link& link_of(int axis) const;
  /// Of several axes' links the greatest latency and the least bandwidth.
  Link slowest_link(const std::vector<int>& mesh_axes) const;

  DeviceModel device_;
  sharding::DeviceMesh mesh_;
  std::vector<bool> leaves_node_;  ///< by mesh axis
};

/// The reduction of output `i` as a step on that output, nullopt for none.
std::optional<sharding::ReshardStep> reduction_step(const sharding::OpShardSpec& spec,
                                                    std::size_t i);

}  // namespace autopar::cost
