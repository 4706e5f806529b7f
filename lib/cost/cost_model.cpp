#include "cost/cost_model.h"

#include <algorithm>
#include <utility>

namespace autopar::cost {
namespace {

using sharding::Factor;
using sharding::FactorKind;
using sharding::OpShardSpec;
using sharding::ReshardStep;
using sharding::Shape;
using sharding::ShardingRule;
using sharding::StepKind;
using sharding::TensorShardSpec;

bool holds(const std::vector<std::vector<int>>& tensor, int factor) {
  return std::ranges::any_of(tensor, [factor](const std::vector<int>& factors) {
    return std::ranges::find(factors, factor) != factors.end();
  });
}

/// Whether two ranks that differ along the axis alone may stand in different nodes.
bool leaves_node(const sharding::DeviceMesh& mesh, int axis, int gpus_per_node) {
  if (gpus_per_node == 0) return false;
  int stride = 1;
  for (int minor = axis + 1; minor < mesh.num_axes(); ++minor) stride *= mesh.axis_size(minor);
  const int length = stride * mesh.axis_size(axis);
  for (int first = 0; first < mesh.num_devices(); ++first) {
    if (first % length >= stride) continue;
    const int last = first + length - stride;
    if (first / gpus_per_node != last / gpus_per_node) return true;
  }
  return false;
}

}  // namespace

bool is_contraction(const ShardingRule& rule) {
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    const FactorKind kind = rule.factors[f].kind;
    if (kind != FactorKind::sum && kind != FactorKind::whole) continue;
    const auto holds_factor = [f](const auto& tensor) {
      return holds(tensor, static_cast<int>(f));
    };
    if (std::ranges::count_if(rule.inputs, holds_factor) >= 2 &&
        std::ranges::none_of(rule.outputs, holds_factor)) {
      return true;
    }
  }
  return false;
}

CostModel::CostModel(DeviceModel device, sharding::DeviceMesh mesh)
    : device_(std::move(device)), mesh_(std::move(mesh)) {
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
    leaves_node_.push_back(leaves_node(mesh_, axis, device_.gpus_per_node));
  }
}

double CostModel::arithmetic_seconds(graph::DataType type, const ShardingRule& rule,
                                     const OpShardSpec& spec) const {
  if (!is_contraction(rule)) return 0;
  double operations = 2;  // a multiplication and an addition
  for (const sharding::Range& share : sharding::factor_ranges(rule, spec, mesh_, 0)) {
    operations *= static_cast<double>(share.size());
  }
  return operations / device_.flops(type);
}

double CostModel::memory_seconds(const graph::Graph& graph, const graph::Node& node,
                                 const ShardingRule& rule, const OpShardSpec& spec) const {
  const auto local_bytes = [&](graph::ValueId id, const TensorShardSpec& local) {
    const graph::Value& value = graph.value(id);
    return graph::bytes_of(value.type,
                           graph::num_elements(largest_local_shape(local, value.shape, mesh_)));
  };
  std::int64_t written = 0;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != graph::no_value) {
      written += local_bytes(node.outputs[i], spec.computed[i]);
    }
  }
  std::int64_t read = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == graph::no_value) continue;
    const std::int64_t bytes = local_bytes(node.inputs[i], spec.inputs[i]);
    read += static_cast<int>(i) == rule.lookup_input ? std::min(bytes, written) : bytes;
  }
  return static_cast<double>(read + written) / device_.memory_bytes_per_second;
}

double CostModel::operator_seconds(const graph::Graph& graph, const graph::Node& node,
                                   const ShardingRule& rule, const OpShardSpec& spec) const {
  if (rule.is_view) return 0;
  // The rate is that of what is multiplied: the first input, or the output where there is none.
  const graph::ValueId operand = node.inputs.empty() ? node.outputs.front() : node.inputs.front();
  const graph::DataType type =
      operand == graph::no_value ? graph::DataType::float32 : graph.value(operand).type;
  return device_.launch_seconds +
         std::max(arithmetic_seconds(type, rule, spec), memory_seconds(graph, node, rule, spec));
}

double CostModel::reduction_seconds(const graph::Graph& graph, const graph::Node& node,
                                    const OpShardSpec& spec) const {
  double seconds = 0;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (const auto step = reduction_step(spec, i)) {
      const graph::Value& value = graph.value(node.outputs[i]);
      seconds += step_seconds(*step, value.shape, value.type);
    }
  }
  return seconds;
}

double CostModel::step_seconds(const ReshardStep& step, const Shape& shape,
                               graph::DataType type) const {
  if (step.kind == StepKind::slice) return slice_seconds(step, shape, type);
  const double n = mesh_.group_size(step.mesh_axes);
  const double bytes = static_cast<double>(payload_bytes(step, shape, type, mesh_, 0));
  const Link link = slowest_link(step.mesh_axes);
  const double shares = step.kind == StepKind::all_to_all ? n * n : n;
  const double rounds = step.kind == StepKind::all_reduce ? 2 * (n - 1) : n - 1;
  return rounds * (link.latency_seconds + bytes / (shares * link.bytes_per_second));
}

double CostModel::slice_seconds(const ReshardStep& step, const Shape& shape,
                                graph::DataType type) const {
  const std::int64_t bytes =
      graph::bytes_of(type, graph::num_elements(largest_local_shape(step.after, shape, mesh_)));
  return device_.launch_seconds + 2 * static_cast<double>(bytes) / device_.memory_bytes_per_second;
}

const Link& CostModel::link_of(int axis) const {
  if (device_.gpus_per_node == 0) return device_.link(axis);
  return device_.link(leaves_node_[static_cast<std::size_t>(axis)] ? 1 : 0);
}

Link CostModel::slowest_link(const std::vector<int>& mesh_axes) const {
  Link slowest = link_of(mesh_axes.front());
  for (const int axis : mesh_axes) {
    const Link& link = link_of(axis);
    slowest.latency_seconds = std::max(slowest.latency_seconds, link.latency_seconds);
    slowest.bytes_per_second = std::min(slowest.bytes_per_second, link.bytes_per_second);
  }
  return slowest;
}

sharding::StepPrice CostModel::step_price() const {
  return [model = *this](const ReshardStep& step, const Shape& shape, graph::DataType type) {
    return model.step_seconds(step, shape, type);
  };
}

std::optional<ReshardStep> reduction_step(const OpShardSpec& spec, std::size_t i) {
  if (spec.reductions[i] == sharding::ReduceFunction::none) return std::nullopt;
  ReshardStep step{.kind = StepKind::all_reduce,
                   .mesh_axes = spec.computed[i].partial,
                   .reduce = spec.computed[i].reduce,
                   .before = spec.computed[i],
                   .after = spec.outputs[i]};
  if (spec.reductions[i] == sharding::ReduceFunction::reduce_scatter) {
    step.kind = StepKind::reduce_scatter;
    const auto [computed, scattered] = std::ranges::mismatch(step.before.dims, step.after.dims);
    require(computed != step.before.dims.end(), "a reduce-scatter splits a dimension");
    step.dim = static_cast<int>(computed - step.before.dims.begin());
  }
  return step;
}

}  // namespace autopar::cost
