#include "program/lowering.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/error.h"
#include "cost/cost_model.h"
#include "sharding/decomposition.h"

namespace autopar::program {

namespace {

using graph::Graph;
using graph::Node;
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

class Lowering {
 public:
  Lowering(const Graph& graph, const plan::Plan& plan, const sharding::StepPrice& price)
      : price_(price) {
    require(plan.operators.size() == graph.nodes.size(), "a plan has a strategy for every node");
    program_.graph = graph;
    program_.mesh = plan.mesh;
    for (const OpShardSpec& strategy : plan.operators)
      program_.operators.push_back(without_idle_axes(strategy));
    sharding::decompose_normalized(program_.graph, program_.operators, program_.mesh);
    find_base_specs(graph, plan.stored);
  }

  Program run() && {
    for (const ValueId input : graph().inputs) program_.inputs.push_back(base_version(input));
    for (std::size_t id = 0; id < graph().nodes.size(); ++id) {
      append_operator(static_cast<graph::NodeId>(id));
    }
    for (const ValueId output : graph().outputs) {
      require(!base_specs_.at(output).is_partial(), "a model output is not partial");
      program_.outputs.push_back(base_version(output));
    }
    return std::move(program_);
  }

 private:
  const Graph& graph() const { return program_.graph; }

  void find_base_specs(const Graph& planned, const std::map<ValueId, TensorShardSpec>& stored) {
    for (const auto& [value, spec] : stored) {
      const graph::Value& tensor = graph().value(value);
      base_specs_[value] = is_shape_like(tensor) ? TensorShardSpec::replicated(tensor.shape.size())
                                                 : without_idle_axes(spec);
    }
    for (std::size_t id = planned.values.size(); id < graph().values.size(); ++id) {
      const graph::Value& added = graph().values[id];  // a number, axes
      if (added.constant)
        base_specs_[static_cast<ValueId>(id)] = TensorShardSpec::replicated(added.shape.size());
    }
    for (std::size_t id = 0; id < graph().nodes.size(); ++id) {
      const auto& outputs = graph().nodes[id].outputs;
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i] == graph::no_value) continue;
        base_specs_[outputs[i]] = program_.operators[id].outputs[i];
      }
    }
  }

  /// A mesh axis of size 1 splits nothing, and a collective over it would move nothing.
  TensorShardSpec without_idle_axes(TensorShardSpec spec) const {
    const auto is_idle = [this](int axis) { return program_.mesh.axis_size(axis) == 1; };
    for (std::vector<int>& axes : spec.dims) std::erase_if(axes, is_idle);
    std::erase_if(spec.partial, is_idle);
    if (!spec.is_partial()) spec.reduce = sharding::Reduce::sum;
    return spec;
  }

  OpShardSpec without_idle_axes(OpShardSpec strategy) const {
    for (auto* specs : {&strategy.inputs, &strategy.computed, &strategy.outputs}) {
      for (TensorShardSpec& spec : *specs) spec = without_idle_axes(std::move(spec));
    }
    for (std::size_t i = 0; i < strategy.computed.size(); ++i) {
      if (!strategy.computed[i].is_partial()) {
        strategy.reductions[i] = sharding::ReduceFunction::none;
      }
    }
    return strategy;
  }

  /// The operator behind the versions that it reads, and its reductions behind it.
  void append_operator(graph::NodeId id) {
    const Node& node = graph().node(id);
    const OpShardSpec& strategy = program_.operators[id];
    Instruction instruction{.node = id, .step = {}, .inputs = {}, .outputs = {}};
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const bool left_out = node.inputs[i] == graph::no_value;
      instruction.inputs.push_back(left_out ? -1 : version_of(node.inputs[i], strategy.inputs[i]));
    }
    std::vector<Instruction> reductions;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == graph::no_value) {
        instruction.outputs.push_back(-1);
        continue;
      }
      VersionId computed = base_version(node.outputs[i]);
      if (const auto step = cost::reduction_step(strategy, i)) {
        const VersionId reduced = computed;
        computed = add_version({node.outputs[i], strategy.computed[i]});
        reductions.push_back({graph::no_node, *step, {computed}, {reduced}});
      }
      instruction.outputs.push_back(computed);
    }
    program_.instructions.push_back(std::move(instruction));
    std::ranges::move(reductions, std::back_inserter(program_.instructions));
  }

  VersionId base_version(ValueId value) {
    const TensorShardSpec& spec = base_specs_.at(value);
    const auto [entry, is_new] = known_.try_emplace({value, spec}, 0);
    if (is_new) entry->second = add_version({value, spec, /*is_base=*/true});
    return entry->second;
  }

  /// The value in a spec, made from its base version on first use.
  VersionId version_of(ValueId value, const TensorShardSpec& spec) {
    VersionId version = base_version(value);
    const auto [entry, is_new] = known_.try_emplace({value, spec}, 0);
    if (!is_new) return entry->second;
    const graph::Value& tensor = graph().value(value);
    const sharding::Connection connection = sharding::connect(
        base_specs_.at(value), spec, tensor.shape, tensor.type, program_.mesh, price_);
    for (const ReshardStep& step : connection.steps) {
      const VersionId next = add_version({value, step.after});
      program_.instructions.push_back({graph::no_node, step, {version}, {next}});
      version = next;
    }
    return entry->second = version;
  }

  VersionId add_version(Version version) {
    program_.versions.push_back(std::move(version));
    return static_cast<VersionId>(program_.versions.size()) - 1;
  }

  const sharding::StepPrice& price_;
  std::map<ValueId, TensorShardSpec> base_specs_;
  Program program_;
  /// Versions that operators read or leave; those on the way between two are nobody else's.
  std::map<std::pair<ValueId, TensorShardSpec>, VersionId> known_;
};

}  // namespace

Program lower(const Graph& graph, const plan::Plan& plan, const sharding::StepPrice& price) {
  return Lowering(graph, plan, price).run();
}

std::vector<bundle::CollectiveTotal> collective_totals(const Program& program) {
  std::vector<bundle::CollectiveTotal> totals;
  for (const Instruction& instruction : program.instructions) {
    if (!instruction.is_collective()) continue;
    const sharding::ReshardStep& step = instruction.step;
    const Version& version = program.versions[instruction.inputs[0]];
    const graph::Value& value = program.graph.value(version.value);
    for (int rank = 0; rank < program.mesh.num_devices(); ++rank) {
      bundle::add_collective(totals,
                             {std::string(name_of(step.kind)), step.mesh_axes, 1,
                              payload_bytes(step, value.shape, value.type, program.mesh, rank)});
    }
  }
  return totals;
}

std::vector<plan::CollectiveUse> collective_uses(const Program& program,
                                                 const sharding::StepPrice& price) {
  std::map<std::pair<std::string_view, std::vector<int>>, plan::CollectiveUse> uses;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.node != graph::no_node) continue;
    const ReshardStep& step = instruction.step;
    const Version& version = program.versions[instruction.inputs[0]];
    const graph::Value& value = program.graph.value(version.value);
    plan::CollectiveUse& use = uses[{name_of(step.kind), step.mesh_axes}];
    ++use.times;
    use.seconds += price(step, value.shape, value.type);
    for (int rank = 0; rank < program.mesh.num_devices(); ++rank) {
      use.bytes += payload_bytes(step, value.shape, value.type, program.mesh, rank);
    }
  }
  std::vector<plan::CollectiveUse> result;
  for (auto& [key, use] : uses) {
    use.kind = key.first;
    use.mesh_axes = key.second;
    result.push_back(std::move(use));
  }
  return result;
}

}  // namespace autopar::program
