#pragma once

#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cost/device_model.h"
#include "sharding/connect.h"
#include "sharding/op_shard_spec.h"

namespace autopar::cost {

/// A sum of products: two inputs share a factor that no output has. Lookups and the like are not.
bool is_contraction(const sharding::ShardingRule& rule);

/// A collective takes so many rounds, one after the other, of so many bytes each.
struct Rounds {
  double rounds = 0;
  double bytes = 0;

  double seconds(const LinkSpeed& link) const {
    return rounds * (link.latency_seconds + bytes / link.bytes_per_second);
  }
};

/// The rounds of a collective over n ranks with a payload of V bytes (sharding::payload_bytes):
/// ring algorithms, as docs/costs.md has them.
Rounds rounds_of(sharding::StepKind kind, int ranks, double payload);

/// The work of an operator on its largest local shard, as far as its time depends on it.
struct Work {
  /// Whether it is a kernel of its own: no view, and not made part of another's by fusion.
  bool is_launched = true;
  double operations = 0;          ///< of all its products, 2 an iteration of their loops
  double product_operations = 0;  ///< of one product, where it has a batch of them
  double bytes = 0;               ///< every stored input and output once, but for weights
  double weight_bytes = 0;        ///< every weight once, where the device has a rate of their own
  double elements = 0;            ///< of its largest input or output
};

/// The seconds of the cheapest chain of steps between two specs of a value.
using ChainSeconds =
    std::function<double(const sharding::TensorShardSpec& from, const sharding::TensorShardSpec& to,
                         const graph::Value&)>;

/// How a device has a tensor's dimensions in memory, outermost first: as ONNX has them, or with the
/// second one, an image's channels, behind all others.
enum class MemoryOrder { as_in_onnx, channels_last };

/// All of a value that the seconds of steps depend on.
using MovedTensor = std::tuple<sharding::Shape, graph::DataType, MemoryOrder>;

/// Predicts seconds on one mesh of equal devices. The formulas are in docs/costs.md; each cost is
/// computed here and nowhere else.
class CostModel {
 public:
  CostModel(DeviceModel device, sharding::DeviceMesh mesh);

  const DeviceModel& device() const { return device_; }
  const sharding::DeviceMesh& mesh() const { return mesh_; }
  /// Whether the devices along a mesh axis stand in several nodes.
  bool leaves_node(int axis) const { return leaves_node_[axis]; }
  /// Whether two axes may change places in every strategy without a change of cost.
  bool are_symmetric(int a, int b) const {
    return mesh_.axis_size(a) == mesh_.axis_size(b) && leaves_node_[a] == leaves_node_[b] &&
           link_along(a) == link_along(b);
  }
  /// Mesh axes of one size along like links; empty where no two are.
  sharding::SymmetricAxes symmetric_axes() const;

  /// The operator on its largest local shard, without its reductions: the larger of arithmetic and
  /// memory traffic (and the part of the smaller that does not overlap), plus a launch; views are
  /// free. Arithmetic is that of a sum of products, and what the device is known to take for an
  /// element of this operator type. A decomposed one costs what its parts do, and no less than it
  /// would as one.
  double operator_seconds(const graph::Graph& graph, const graph::Node& node,
                          const sharding::ShardingRule& rule,
                          const sharding::OpShardSpec& spec) const;
  /// No strategy on any mesh of so many devices takes less: each device has its share of the
  /// operator, which `whole` has on one device. On one device it is operator_seconds.
  double least_operator_seconds(int devices, const graph::Graph& graph, const graph::Node& node,
                                const sharding::ShardingRule& rule,
                                const sharding::OpShardSpec& whole) const;
  /// Whether a run stores the value, in no other's memory, where no strategy sends it anywhere.
  bool takes_memory(const graph::Value& value) const;
  MemoryOrder order_of(const graph::Value& value) const;
  MovedTensor as_moved(const graph::Value& value) const {
    return {value.shape, value.type, order_of(value)};
  }
  Work operator_work(const graph::Graph& graph, const graph::Node& node,
                     const sharding::ShardingRule& rule, const sharding::OpShardSpec& spec) const;
  /// Seconds of the memory traffic alone.
  double traffic_seconds(const Work& work) const;
  /// Seconds of the work on operands of the type; launch included. `op_type` is qualified.
  double work_seconds(const Work& work, graph::DataType type, const std::string& op_type) const;
  /// Nodes of one rule, with equal strategies, types, shapes and this key cost the same.
  std::string price_key(const graph::Graph& graph, const graph::Node& node) const;
  /// The steps that reduce output `i`, the value: none, or an all-reduce or reduce-scatter. Where
  /// it takes a link much slower than another that is free for it, the cheapest chain of
  /// sharding::connect: so an all-reduce over axes within nodes and between them becomes a
  /// reduce-scatter within, an all-reduce between, and an all-gather within.
  sharding::Connection reduction(const sharding::OpShardSpec& spec, std::size_t i,
                                 const graph::Value& value) const;
  /// The reductions that the strategy does after the operator, or within it where it is
  /// decomposed. `chain_seconds` may know the seconds of sharding::connect sooner.
  double reduction_seconds(const graph::Graph& graph, const graph::Node& node,
                           const sharding::ShardingRule& rule, const sharding::OpShardSpec& spec,
                           const ChainSeconds& chain_seconds = {}) const;
  /// One slice or collective on a tensor of the given global shape, the largest rank's. A slice
  /// costs its copy: what it keeps, read and written, plus a launch. A collective moves blocks that
  /// lie each in one piece: along a dimension that is not the outermost of what a rank has, they
  /// are packed before or unpacked behind it, at the price of a copy. Infinite where the device's
  /// collectives have none for it; where they take transposes, with those.
  double step_seconds(const sharding::ReshardStep& step, const sharding::Shape& shape,
                      graph::DataType type, MemoryOrder order = MemoryOrder::as_in_onnx) const;
  double step_seconds(const sharding::ReshardStep& step, const graph::Value& value) const {
    return step_seconds(step, value.shape, value.type, order_of(value));
  }

  sharding::StepPrice step_price(MemoryOrder order = MemoryOrder::as_in_onnx) const;

 private:
  double seconds_as_one(const graph::Graph& graph, const graph::Node& node,
                        const sharding::ShardingRule& rule,
                        const sharding::OpShardSpec& spec) const;
  /// The seconds of a Loop that runs as one node: its body's, graph::expected_rounds times.
  double loop_seconds(const graph::Graph& graph, const graph::Node& loop) const;
  /// What the copies take that put a collective's blocks in one piece, or back into the tensor.
  double packing_seconds(const sharding::ReshardStep& step, const sharding::Shape& shape,
                         graph::DataType type, MemoryOrder order) const;
  /// Read and written, plus a launch.
  double copy_seconds(const sharding::TensorShardSpec& spec, const sharding::Shape& shape,
                      graph::DataType type) const;
  bool is_stored(const graph::Value& value) const;
  bool is_weight(const graph::Value& value) const;
  /// The greatest latency and the least bandwidth of several axes' links. Where devices stand in
  /// nodes, an axis that leaves one has the link between nodes.
  LinkSpeed slowest_link(const std::vector<int>& mesh_axes, sharding::StepKind kind) const;
  const Link& link_along(int axis) const;
  /// The reduction in no step or one, and whether a chain may be cheaper.
  std::pair<sharding::Connection, bool> reduction_as_one(const sharding::OpShardSpec& spec,
                                                         std::size_t i,
                                                         const graph::Value& value) const;
  /// Whether the step crosses a link that is slow beside one along an axis that does not split the
  /// tensor before it.
  bool crosses_levels(const sharding::ReshardStep& step) const;

  DeviceModel device_;
  sharding::DeviceMesh mesh_;
  std::vector<bool> leaves_node_;  ///< by mesh axis
};

/// The reduction of output `i` as a step on that output, nullopt for none.
std::optional<sharding::ReshardStep> reduction_step(const sharding::OpShardSpec& spec,
                                                    std::size_t i);

}  // namespace autopar::cost
