#include "cost/cost_model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "graph/loop_body.h"
#include "sharding/decomposition.h"

namespace autopar::cost {
namespace {

using sharding::Factor;
using sharding::FactorKind;
using sharding::holds;
using sharding::OpShardSpec;
using sharding::ReshardStep;
using sharding::Shape;
using sharding::ShardingRule;
using sharding::StepKind;
using sharding::TensorShardSpec;

/// Links whose bandwidths differ by less are of one level, such as two that were measured alike.
/// There one collective is left to its library, which has better algorithms than rings for few
/// bytes: by rings' latency alone several would seem cheaper.
constexpr double level_ratio = 2;

/// The factors that a sum of products sums over: shared by two inputs, and in no output.
std::vector<bool> contracted_factors(const ShardingRule& rule) {
  std::vector<bool> contracted(rule.factors.size(), false);
  for (std::size_t f = 0; f < rule.factors.size(); ++f) {
    const FactorKind kind = rule.factors[f].kind;
    if (kind != FactorKind::sum && kind != FactorKind::whole) continue;
    const auto holds_factor = [f](const auto& tensor) {
      return holds(tensor, static_cast<int>(f));
    };
    contracted[f] = std::ranges::count_if(rule.inputs, holds_factor) >= 2 &&
                    std::ranges::none_of(rule.outputs, holds_factor);
  }
  return contracted;
}

/// Adds the arithmetic of a sum of products. A factor of both operands and the output makes a batch
/// of products, not a larger one.
void add_products(Work& work, const ShardingRule& rule, const OpShardSpec& spec,
                  const sharding::DeviceMesh& mesh) {
  const std::vector<bool> contracted = contracted_factors(rule);
  if (std::ranges::find(contracted, true) == contracted.end()) return;
  const auto is_operand = [&](const auto& tensor) {
    for (std::size_t f = 0; f < contracted.size(); ++f) {
      if (contracted[f] && holds(tensor, static_cast<int>(f))) return true;
    }
    return false;
  };
  double all = 2;  // a multiplication and an addition
  double one = 2;
  const std::vector<sharding::Range> shares =
      sharding::factor_ranges(rule, spec.factor_axes, mesh, 0);
  for (std::size_t f = 0; f < shares.size(); ++f) {
    const double share = static_cast<double>(shares[f].size());
    all *= share;
    const auto operands = std::ranges::count_if(rule.inputs, [&](const auto& tensor) {
      return is_operand(tensor) && holds(tensor, static_cast<int>(f));
    });
    if (contracted[f] || operands < 2) one *= share;
  }
  work.operations = all;
  work.product_operations = one;
}

/// The size of greatest rate among products that are no larger.
double fastest_size_up_to(double operations, const SizedRate& rate) {
  double fastest = operations;
  for (const SizedRate::Point& point : rate.points()) {
    if (point.size < operations && point.rate > rate.at(fastest)) fastest = point.size;
  }
  return fastest;
}

/// The type whose rate counts: the first input's, or the output's where there is none.
graph::DataType rate_type(const graph::Graph& graph, const graph::Node& node) {
  const graph::ValueId operand = node.inputs.empty() ? node.outputs.front() : node.inputs.front();
  return operand == graph::no_value ? graph::DataType::float32 : graph.value(operand).type;
}

/// Whether two ranks that differ along the axis alone may stand in different nodes.
bool is_across_nodes(const sharding::DeviceMesh& mesh, int axis, int gpus_per_node) {
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

/// Whether no dimension of more than one index lies around this one, so that a part of it is one
/// piece of memory.
bool is_outermost(int dim, const Shape& local, MemoryOrder order) {
  const int dims = static_cast<int>(local.size());
  const auto place = [&](int d) {
    return d == 1 && order == MemoryOrder::channels_last ? dims : d;
  };
  for (int d = 0; d < dims; ++d)
    if (place(d) < place(dim) && local[static_cast<std::size_t>(d)] != 1) return false;
  return true;
}

/// Calls `visit` with graph, node, rule and strategy of each part that the node is decomposed into.
template <typename Visit>
void for_each_part(const graph::Graph& graph, const graph::Node& node, const ShardingRule& rule,
                   const OpShardSpec& spec, const sharding::DeviceMesh& mesh, Visit visit) {
  const sharding::Decomposition parts = sharding::decompose(graph, node, rule, spec, mesh);
  for (std::size_t n = 0; n < parts.graph.nodes.size(); ++n) {
    const graph::Node& each = parts.graph.nodes[n];
    visit(parts.graph, each, *sharding::sharding_rule(parts.graph, each), parts.strategies[n]);
  }
}

}  // namespace

bool is_contraction(const ShardingRule& rule) {
  const std::vector<bool> contracted = contracted_factors(rule);
  return std::ranges::find(contracted, true) != contracted.end();
}

Rounds rounds_of(StepKind kind, int ranks, double payload) {
  const double n = ranks;
  return {kind == StepKind::all_reduce ? 2 * (n - 1) : n - 1,
          payload / (kind == StepKind::all_to_all ? n * n : n)};
}

CostModel::CostModel(DeviceModel device, sharding::DeviceMesh mesh)
    : device_(std::move(device)), mesh_(std::move(mesh)) {
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
    leaves_node_.push_back(is_across_nodes(mesh_, axis, device_.gpus_per_node));
  }
}

bool CostModel::is_stored(const graph::Value& value) const {
  return !device_.is_fusing || device_.fused == nullptr || !device_.fused->contains(value.name);
}

bool CostModel::takes_memory(const graph::Value& value) const {
  return device_.without_memory == nullptr || !device_.without_memory->contains(value.name);
}

MemoryOrder CostModel::order_of(const graph::Value& value) const {
  const bool is_last =
      device_.channels_last != nullptr && device_.channels_last->contains(value.name);
  return is_last ? MemoryOrder::channels_last : MemoryOrder::as_in_onnx;
}

bool CostModel::is_weight(const graph::Value& value) const {
  return device_.weight_bytes_per_second > 0 && value.constant.has_value();
}

Work CostModel::operator_work(const graph::Graph& graph, const graph::Node& node,
                              const ShardingRule& rule, const OpShardSpec& spec) const {
  Work work;
  add_products(work, rule, spec, mesh_);
  const auto elements_of = [&](graph::ValueId id, const TensorShardSpec& local) {
    return graph::num_elements(largest_local_shape(local, graph.value(id).shape, mesh_));
  };
  std::int64_t written = 0;
  std::int64_t most_elements = 0;
  work.is_launched = false;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == graph::no_value) continue;
    const graph::Value& value = graph.value(node.outputs[i]);
    const std::int64_t elements = elements_of(node.outputs[i], spec.computed[i]);
    most_elements = std::max(most_elements, elements);
    if (!is_stored(value) && spec.reductions[i] == sharding::ReduceFunction::none) continue;
    written += graph::bytes_of(value.type, elements);
    work.is_launched = true;
  }
  std::int64_t read = 0;
  std::int64_t weights = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] == graph::no_value) continue;
    const graph::Value& value = graph.value(node.inputs[i]);
    const std::int64_t elements = elements_of(node.inputs[i], spec.inputs[i]);
    const bool is_looked_up = static_cast<int>(i) == rule.lookup_input;
    if (!is_looked_up) most_elements = std::max(most_elements, elements);
    if (!is_stored(value)) continue;
    std::int64_t bytes = graph::bytes_of(value.type, elements);
    if (is_looked_up) bytes = std::min(bytes, written);
    (is_weight(value) ? weights : read) += bytes;
  }
  work.weight_bytes = static_cast<double>(weights);
  work.bytes = static_cast<double>(read + written);
  work.elements = static_cast<double>(most_elements);
  return work;
}

double CostModel::work_seconds(const Work& work, graph::DataType type,
                               const std::string& op_type) const {
  double arithmetic = 0;
  if (work.operations > 0)
    arithmetic = work.operations / device_.flops(type).at(work.product_operations);
  const auto found = device_.element_seconds.find(op_type);
  if (found != device_.element_seconds.end()) arithmetic += work.elements * found->second;
  const double traffic = traffic_seconds(work);
  return (work.is_launched ? device_.launch_seconds : 0) + std::max(arithmetic, traffic) +
         (1 - device_.overlap) * std::min(arithmetic, traffic);
}

double CostModel::traffic_seconds(const Work& work) const {
  double seconds = device_.memory_bytes_per_second.seconds(work.bytes);
  if (work.weight_bytes > 0) seconds += work.weight_bytes / device_.weight_bytes_per_second;
  return seconds;
}

sharding::SymmetricAxes CostModel::symmetric_axes() const {
  const int count = mesh_.num_axes();
  sharding::SymmetricAxes first(static_cast<std::size_t>(count));
  std::iota(first.begin(), first.end(), 0);
  bool are_any = false;
  for (int axis = 0; axis < count; ++axis)
    for (int before = axis; before-- > 0;)
      if (are_symmetric(before, axis)) {
        first[axis] = first[before];
        are_any = true;
        break;
      }
  return are_any ? first : sharding::SymmetricAxes{};
}

double CostModel::operator_seconds(const graph::Graph& graph, const graph::Node& node,
                                   const ShardingRule& rule, const OpShardSpec& spec) const {
  const double as_one = seconds_as_one(graph, node, rule, spec);
  if (!sharding::splits_normalized(rule, spec.factor_axes)) return as_one;
  double seconds = 0;
  for_each_part(graph, node, rule, spec, mesh_,
                [&](const auto& in, const auto& each, const auto& its_rule, const auto& choice) {
                  seconds += seconds_as_one(in, each, its_rule, choice);
                });
  return std::max(seconds, as_one);
}

double CostModel::seconds_as_one(const graph::Graph& graph, const graph::Node& node,
                                 const ShardingRule& rule, const OpShardSpec& spec) const {
  if (rule.is_view) return 0;
  if (node.body) return loop_seconds(graph, node);
  return work_seconds(operator_work(graph, node, rule, spec), rate_type(graph, node),
                      qualified_op_type(node));
}

double CostModel::loop_seconds(const graph::Graph& graph, const graph::Node& loop) const {
  const graph::Graph& body = loop.body->graph;
  const CostModel alone(device_, sharding::DeviceMesh({1}));
  double round = 0;
  for (const graph::Node& node : body.nodes) {
    const ShardingRule rule = sharding::rule_or_replicated(body, node);
    const auto choices = sharding::enumerate_op_shard_specs(body, node, rule, alone.mesh());
    round += alone.operator_seconds(body, node, rule, choices.front());
  }
  return device_.launch_seconds +
         round * static_cast<double>(graph::expected_rounds(graph, loop).rounds);
}

double CostModel::least_operator_seconds(int devices, const graph::Graph& graph,
                                         const graph::Node& node, const ShardingRule& rule,
                                         const OpShardSpec& whole) const {
  // Every device makes all rounds of a loop.
  if (rule.is_view || node.body) return seconds_as_one(graph, node, rule, whole);
  // A share has no less than its part of each, and time never falls with any of them. Its products
  // may be smaller, and of the fastest size.
  Work share = operator_work(graph, node, rule, whole);
  share.operations /= devices;
  if (devices > 1 && share.operations > 0)
    share.product_operations =
        fastest_size_up_to(share.product_operations, device_.flops(rate_type(graph, node)));
  share.bytes /= devices;
  share.weight_bytes /= devices;
  share.elements /= devices;
  return work_seconds(share, rate_type(graph, node), qualified_op_type(node));
}

std::string CostModel::price_key(const graph::Graph& graph, const graph::Node& node) const {
  std::string key;
  if (node.body) key = node.name;
  if (device_.element_seconds.contains(qualified_op_type(node))) key = qualified_op_type(node);
  const auto add = [&](graph::ValueId id, bool is_output) {
    if (id == graph::no_value) {
      key += '.';
      return;
    }
    const graph::Value& value = graph.value(id);
    key += is_weight(value) ? 'w' : is_stored(value) ? 's' : 'f';
    if (!takes_memory(value)) key += '-';
    // Inputs are moved by their producers' prices.
    if (is_output && order_of(value) == MemoryOrder::channels_last) key += 'c';
  };
  for (const graph::ValueId id : node.inputs) add(id, false);
  for (const graph::ValueId id : node.outputs) add(id, true);
  return key;
}

double CostModel::reduction_seconds(const graph::Graph& graph, const graph::Node& node,
                                    const ShardingRule& rule, const OpShardSpec& spec,
                                    const ChainSeconds& chain_seconds) const {
  double seconds = 0;
  if (sharding::splits_normalized(rule, spec.factor_axes)) {
    for_each_part(graph, node, rule, spec, mesh_,
                  [&](const auto& in, const auto& each, const auto& its_rule, const auto& choice) {
                    seconds += reduction_seconds(in, each, its_rule, choice, chain_seconds);
                  });
  }
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == graph::no_value) continue;
    const graph::Value& value = graph.value(node.outputs[i]);
    if (!chain_seconds) {
      seconds += reduction(spec, i, value).seconds;
      continue;
    }
    const auto [as_one, may_be_chain] = reduction_as_one(spec, i, value);
    seconds +=
        may_be_chain ? chain_seconds(spec.computed[i], spec.outputs[i], value) : as_one.seconds;
  }
  return seconds;
}

sharding::Connection CostModel::reduction(const OpShardSpec& spec, std::size_t i,
                                          const graph::Value& value) const {
  auto [as_one, may_be_chain] = reduction_as_one(spec, i, value);
  if (!may_be_chain) return std::move(as_one);
  return sharding::connect(spec.computed[i], spec.outputs[i], value.shape, value.type, mesh_,
                           step_price(order_of(value)));
}

std::pair<sharding::Connection, bool> CostModel::reduction_as_one(const OpShardSpec& spec,
                                                                  std::size_t i,
                                                                  const graph::Value& value) const {
  const auto step = reduction_step(spec, i);
  if (!step) return {{}, false};
  const double seconds = step_seconds(*step, value);
  return {{{*step}, seconds}, !std::isinf(seconds) && crosses_levels(*step)};
}

double CostModel::step_seconds(const ReshardStep& step, const Shape& shape, graph::DataType type,
                               MemoryOrder order) const {
  if (step.kind == StepKind::slice) return copy_seconds(step.after, shape, type);
  const CollectiveSet* only = device_.collectives.get();
  if (only != nullptr && !only->has(step, shape, type, mesh_))
    return std::numeric_limits<double>::infinity();
  const double bytes = static_cast<double>(payload_bytes(step, shape, type, mesh_, 0));
  const double seconds = rounds_of(step.kind, mesh_.group_size(step.mesh_axes), bytes)
                             .seconds(slowest_link(step.mesh_axes, step.kind));
  if (only == nullptr) return seconds + packing_seconds(step, shape, type, order);
  if (!only->transposes(step)) return seconds;
  return seconds + copy_seconds(step.before, shape, type) + copy_seconds(step.after, shape, type);
}

double CostModel::packing_seconds(const ReshardStep& step, const Shape& shape, graph::DataType type,
                                  MemoryOrder order) const {
  const bool is_all_to_all = step.kind == StepKind::all_to_all;
  const bool cuts = is_all_to_all || step.kind == StepKind::reduce_scatter;
  const bool joins = is_all_to_all || step.kind == StepKind::all_gather;
  const auto is_packed = [&](const TensorShardSpec& spec, int dim) {
    return !is_outermost(dim, largest_local_shape(spec, shape, mesh_), order);
  };
  double seconds = 0;
  if (cuts && is_packed(step.before, is_all_to_all ? step.split_dim : step.dim))
    seconds += copy_seconds(step.before, shape, type);
  if (joins && is_packed(step.after, step.dim)) seconds += copy_seconds(step.after, shape, type);
  return seconds;
}

double CostModel::copy_seconds(const TensorShardSpec& spec, const Shape& shape,
                               graph::DataType type) const {
  const std::int64_t bytes =
      graph::bytes_of(type, graph::num_elements(largest_local_shape(spec, shape, mesh_)));
  return device_.launch_seconds +
         device_.memory_bytes_per_second.seconds(2 * static_cast<double>(bytes));
}

LinkSpeed CostModel::slowest_link(const std::vector<int>& mesh_axes, StepKind kind) const {
  LinkSpeed slowest = link_along(mesh_axes.front()).speed(kind);
  for (const int axis : mesh_axes) {
    const LinkSpeed link = link_along(axis).speed(kind);
    slowest.latency_seconds = std::max(slowest.latency_seconds, link.latency_seconds);
    slowest.bytes_per_second = std::min(slowest.bytes_per_second, link.bytes_per_second);
  }
  return slowest;
}

const Link& CostModel::link_along(int axis) const {
  return device_.link(device_.gpus_per_node == 0 ? axis : leaves_node_[axis] ? 1 : 0);
}

bool CostModel::crosses_levels(const ReshardStep& step) const {
  double fastest = 0;
  for (int axis = 0; axis < mesh_.num_axes(); ++axis) {
    const bool is_split = std::ranges::any_of(
        step.before.dims, [&](const auto& axes) { return std::ranges::count(axes, axis) > 0; });
    if (mesh_.axis_size(axis) > 1 && !is_split)
      fastest = std::max(fastest, link_along(axis).speed(step.kind).bytes_per_second);
  }
  return fastest >= level_ratio * slowest_link(step.mesh_axes, step.kind).bytes_per_second;
}

sharding::StepPrice CostModel::step_price(MemoryOrder order) const {
  return [model = *this, order](const ReshardStep& step, const Shape& shape, graph::DataType type) {
    return model.step_seconds(step, shape, type, order);
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
