#include "program/lowering.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "sharding/connect.h"
#include "sharding/decomposition.h"

namespace autopar::program {

namespace {

using graph::ValueId;
using sharding::OpShardSpec;
using sharding::ReshardStep;
using sharding::TensorShardSpec;

constexpr std::int64_t largest_shape_bytes = 1024;

/// A shape, axes, pads or the like, as far as the tensor itself tells.
bool is_shape_like(const graph::Value& value) {
  const bool is_integer =
      value.type == graph::DataType::int64 || value.type == graph::DataType::int32;
  return value.constant && is_integer && value.shape.size() <= 1 &&
         value.constant->size_bytes() <= largest_shape_bytes;
}

OpShardSpec without_idle_axes(OpShardSpec strategy, const sharding::DeviceMesh& mesh) {
  for (auto* specs : {&strategy.inputs, &strategy.computed, &strategy.outputs}) {
    for (TensorShardSpec& spec : *specs) spec = without_idle_axes(std::move(spec), mesh);
  }
  for (std::size_t i = 0; i < strategy.computed.size(); ++i) {
    if (!strategy.computed[i].is_partial()) strategy.reductions[i] = sharding::ReduceFunction::none;
  }
  return strategy;
}

/// The specs in which values lie: as they are stored, whole where a decomposition added them behind
/// the plan's values, or as operators leave them.
std::map<ValueId, TensorShardSpec> base_specs_of(const Program& program,
                                                 const std::map<ValueId, TensorShardSpec>& stored,
                                                 std::size_t planned_values) {
  std::map<ValueId, TensorShardSpec> specs;
  for (const auto& [id, spec] : stored) {
    const graph::Value& value = program.graph.value(id);
    specs[id] = is_shape_like(value) ? TensorShardSpec::replicated(value.shape.size())
                                     : without_idle_axes(spec, program.mesh);
  }
  for (std::size_t v = planned_values; v < program.graph.values.size(); ++v) {
    const graph::Value& added = program.graph.values[v];  // a number, axes
    if (added.constant)
      specs[static_cast<ValueId>(v)] = TensorShardSpec::replicated(added.shape.size());
  }
  for (std::size_t n = 0; n < program.graph.nodes.size(); ++n) {
    const auto& outputs = program.graph.nodes[n].outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] != graph::no_value) specs[outputs[i]] = program.operators[n].outputs[i];
  }
  return specs;
}

/// The versions of a program's values that operators read or leave, each made once; those on the
/// way between two are nobody else's.
class Versions {
 public:
  Versions(Program& program, const cost::CostModel& cost,
           std::map<ValueId, TensorShardSpec> base_specs)
      : program_(program), cost_(cost), base_specs_(std::move(base_specs)) {}

  VersionId base(ValueId value) {
    const TensorShardSpec& spec = base_specs_.at(value);
    const auto [entry, is_new] = known_.try_emplace({value, spec}, 0);
    if (is_new) entry->second = add({value, spec, /*is_base=*/true});
    return entry->second;
  }

  /// The value in a spec, made from its base version on first use.
  VersionId in(const TensorShardSpec& spec, ValueId value) {
    VersionId version = base(value);
    const auto [entry, is_new] = known_.try_emplace({value, spec}, 0);
    if (!is_new) return entry->second;
    for (const ReshardStep& step : steps_to(spec, value)) {
      const VersionId next = add({value, step.after});
      program_.instructions.push_back({graph::no_node, step, {version}, {next}});
      version = next;
    }
    return entry->second = version;
  }

  VersionId add(Version version) {
    program_.versions.push_back(std::move(version));
    return static_cast<VersionId>(program_.versions.size()) - 1;
  }

 private:
  using Ends = std::tuple<TensorShardSpec, TensorShardSpec, cost::MovedTensor>;

  /// From the base version, looked for once for all values alike, since layers repeat.
  const std::vector<ReshardStep>& steps_to(const TensorShardSpec& spec, ValueId value) {
    const graph::Value& moved = program_.graph.value(value);
    const TensorShardSpec& from = base_specs_.at(value);
    const auto [entry, is_new] = steps_.try_emplace(Ends{from, spec, cost_.as_moved(moved)});
    if (is_new)
      entry->second = sharding::connect(from, spec, moved.shape, moved.type, program_.mesh,
                                        cost_.step_price(cost_.order_of(moved)))
                          .steps;
    return entry->second;
  }

  Program& program_;
  const cost::CostModel& cost_;
  const std::map<ValueId, TensorShardSpec> base_specs_;
  std::map<std::pair<ValueId, TensorShardSpec>, VersionId> known_;
  std::map<Ends, std::vector<ReshardStep>> steps_;
};

/// Appends the steps that make the base version, and returns the version that they begin with.
VersionId append_reduction(const std::vector<ReshardStep>& steps, ValueId value, Versions& versions,
                           std::vector<Instruction>& instructions) {
  const VersionId base = versions.base(value);
  if (steps.empty()) return base;
  const VersionId computed = versions.add({value, steps.front().before});
  VersionId before = computed;
  for (const ReshardStep& step : steps) {
    const bool is_last = &step == &steps.back();
    const VersionId after = is_last ? base : versions.add({value, step.after});
    instructions.push_back({graph::no_node, step, {before}, {after}});
    before = after;
  }
  return computed;
}

/// Appends the operator behind the versions that it reads, and its reductions behind it.
void append_operator(graph::NodeId id, const cost::CostModel& cost, Versions& versions,
                     Program& program) {
  const graph::Node& node = program.graph.node(id);
  const OpShardSpec& strategy = program.operators[id];
  Instruction instruction{.node = id, .step = {}, .inputs = {}, .outputs = {}};
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const bool left_out = node.inputs[i] == graph::no_value;
    instruction.inputs.push_back(left_out ? -1 : versions.in(strategy.inputs[i], node.inputs[i]));
  }
  std::vector<Instruction> reductions;
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId output = node.outputs[i];
    VersionId& computed = instruction.outputs.emplace_back(-1);
    if (output == graph::no_value) continue;
    const graph::Value& value = program.graph.value(output);
    const sharding::Connection chain = cost.reduction(strategy, i, value);
    computed = append_reduction(chain.steps, output, versions, reductions);
  }
  program.instructions.push_back(std::move(instruction));
  std::ranges::move(reductions, std::back_inserter(program.instructions));
}

}  // namespace

Program lower(const graph::Graph& graph, const plan::Plan& plan, const cost::CostModel& cost) {
  require(plan.operators.size() == graph.nodes.size(), "a plan has a strategy for every node");
  require(plan.mesh == cost.mesh(), "a plan is lowered by the prices of its mesh");
  Program program;
  program.graph = graph;
  program.mesh = plan.mesh;
  for (const OpShardSpec& strategy : plan.operators)
    program.operators.push_back(without_idle_axes(strategy, plan.mesh));
  sharding::decompose_normalized(program.graph, program.operators, program.mesh);
  Versions versions(program, cost, base_specs_of(program, plan.stored, graph.values.size()));
  for (const ValueId input : program.graph.inputs) program.inputs.push_back(versions.base(input));
  for (std::size_t id = 0; id < program.graph.nodes.size(); ++id)
    append_operator(static_cast<graph::NodeId>(id), cost, versions, program);
  for (const ValueId output : program.graph.outputs) {
    program.outputs.push_back(versions.base(output));
    require(!program.versions[program.outputs.back()].spec.is_partial(),
            "a model output is not partial");
  }
  return program;
}

std::vector<bundle::CollectiveTotal> collective_totals(const Program& program) {
  std::vector<bundle::CollectiveTotal> totals;
  for (const plan::CollectiveUse& use : collective_uses(program, /*cost=*/nullptr)) {
    if (use.kind != name_of(sharding::StepKind::slice))
      totals.push_back(
          {use.kind, use.mesh_axes, use.times * program.mesh.num_devices(), use.bytes});
  }
  return totals;
}

plan::CollectiveUse& use_of(std::vector<plan::CollectiveUse>& uses, const std::string& kind,
                            const std::vector<int>& mesh_axes) {
  const auto key = [](const plan::CollectiveUse& use) { return std::tie(use.kind, use.mesh_axes); };
  const auto place = std::ranges::lower_bound(uses, std::tie(kind, mesh_axes), {}, key);
  if (place != uses.end() && key(*place) == std::tie(kind, mesh_axes)) return *place;
  return *uses.insert(place, {.kind = kind, .mesh_axes = mesh_axes});
}

std::vector<plan::CollectiveUse> collective_uses(const Program& program,
                                                 const cost::CostModel* cost) {
  std::vector<plan::CollectiveUse> uses;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.node != graph::no_node) continue;
    const ReshardStep& step = instruction.step;
    const graph::Value& value = program.value_of(instruction);
    plan::CollectiveUse& use = use_of(uses, std::string(name_of(step.kind)), step.mesh_axes);
    ++use.times;
    if (cost != nullptr) use.seconds += cost->step_seconds(step, value);
    for (int rank = 0; rank < program.mesh.num_devices(); ++rank)
      use.bytes += payload_bytes(step, value.shape, value.type, program.mesh, rank);
  }
  return uses;
}

}  // namespace autopar::program
