#include "partition/lowering.h"

#include <map>
#include <utility>

#include "cost/cost_model.h"
#include "graph/error.h"

namespace autopar::partition {

namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;
using sharding::ReshardStep;
using sharding::TensorShardSpec;

class Lowering {
 public:
  Lowering(const Graph& graph, const search::Plan& plan, const sharding::StepPrice& price)
      : graph_(graph), plan_(plan), price_(price) {}

  Program run() && {
    for (const ValueId input : graph_.inputs) program_.inputs.push_back(base_version(input));
    for (std::size_t id = 0; id < graph_.nodes.size(); ++id) {
      append_operator(static_cast<graph::NodeId>(id));
    }
    for (const ValueId output : graph_.outputs) {
      const VersionId version = base_version(output);
      require(!program_.versions[static_cast<std::size_t>(version)].spec.is_partial(),
              "a model output is not partial");
      program_.outputs.push_back(version);
    }
    return std::move(program_);
  }

 private:
  void append_operator(graph::NodeId id) {
    const Node& node = graph_.node(id);
    const sharding::OpShardSpec& strategy = plan_.operators[static_cast<std::size_t>(id)];
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
      const auto step = cost::reduction_step(strategy, i);
      const VersionId final = base_version(node.outputs[i]);
      if (!step) {
        instruction.outputs.push_back(final);
        continue;
      }
      const VersionId partial = add_version({node.outputs[i], strategy.computed[i]});
      instruction.outputs.push_back(partial);
      reductions.push_back({graph::no_node, *step, {partial}, {final}});
    }
    program_.instructions.push_back(std::move(instruction));
    for (Instruction& reduction : reductions) program_.instructions.push_back(std::move(reduction));
  }

  /// The value as its producer leaves it, or as it is stored.
  VersionId base_version(ValueId value) {
    return find_or_add({value, plan_.spec_of(graph_, value)}).first;
  }

  /// The value in a spec; the chain of steps from the base version is appended on first use, so
  /// that each version is paid for as the search priced it.
  VersionId version_of(ValueId value, const TensorShardSpec& spec) {
    const VersionId base = base_version(value);
    const auto [version, is_new] = find_or_add({value, spec});
    if (!is_new) return version;
    const graph::Value& tensor = graph_.value(value);
    const auto& base_spec = program_.versions[static_cast<std::size_t>(base)].spec;
    const sharding::Connection connection =
        sharding::connect(base_spec, spec, tensor.shape, tensor.type, plan_.mesh, price_);
    VersionId from = base;
    for (std::size_t i = 0; i < connection.steps.size(); ++i) {
      const ReshardStep& step = connection.steps[i];
      const bool last = i + 1 == connection.steps.size();
      const VersionId to = last ? version : add_version({value, step.after});
      program_.instructions.push_back({graph::no_node, step, {from}, {to}});
      from = to;
    }
    return version;
  }

  std::pair<VersionId, bool> find_or_add(const Version& version) {
    const auto [entry, is_new] = known_.try_emplace({version.value, version.spec}, 0);
    if (is_new) entry->second = add_version(version);
    return {entry->second, is_new};
  }

  VersionId add_version(Version version) {
    program_.versions.push_back(std::move(version));
    return static_cast<VersionId>(program_.versions.size()) - 1;
  }

  const Graph& graph_;
  const search::Plan& plan_;
  const sharding::StepPrice& price_;
  Program program_;
  std::map<std::pair<ValueId, TensorShardSpec>, VersionId> known_;
};

}  // namespace

Program lower(const Graph& graph, const search::Plan& plan, const sharding::StepPrice& price) {
  return Lowering(graph, plan, price).run();
}

std::vector<bundle::CollectiveTotal> collective_totals(const Graph& graph,
                                                       const sharding::DeviceMesh& mesh,
                                                       const Program& program) {
  std::vector<bundle::CollectiveTotal> totals;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.node != graph::no_node || instruction.step.kind == sharding::StepKind::slice) {
      continue;
    }
    const Version& version = program.versions[static_cast<std::size_t>(instruction.inputs[0])];
    const graph::Value& value = graph.value(version.value);
    for (int rank = 0; rank < mesh.num_devices(); ++rank) {
      bundle::add_collective(
          totals, {std::string(name_of(instruction.step.kind)), instruction.step.mesh_axes, 1,
                   sharding::payload_bytes(instruction.step, value.shape, value.type, mesh, rank)});
    }
  }
  return totals;
}

}  // namespace autopar::partition
