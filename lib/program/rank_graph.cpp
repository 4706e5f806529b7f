#include "program/lowering.h"

#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/unique_names.h"
#include "sharding/sharding_rule.h"

namespace autopar::program {

namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;
using sharding::Range;
using sharding::ReshardStep;
using sharding::StepKind;

/// How a dimension is split over the ranks of a group.
using Splits = std::tuple<std::vector<int>, std::int64_t, std::vector<int>>;

/// A rank's graph in the making.
struct RankShard {
  const Program& program;
  int rank;
  int first_rank;
  Graph graph{};
  std::vector<ValueId> values{};  ///< by VersionId
  UniqueNames names{"#"};
  /// What repeats in every layer, and has an entry for each rank of a group.
  std::map<std::vector<int>, std::vector<int>> groups{};  ///< of this rank, by mesh axes
  std::map<Splits, std::vector<std::int64_t>> extents{};  ///< by rank of the group

  std::vector<Range> ranges_of(VersionId id, int of_rank) const {
    const Version& version = program.versions[id];
    return sharding::local_ranges(version.spec, program.graph.value(version.value).shape,
                                  program.mesh, of_rank);
  }

  ValueId value_of(VersionId id) const { return id < 0 ? graph::no_value : values[id]; }

  std::vector<ValueId> values_of(const std::vector<VersionId>& ids) const {
    std::vector<ValueId> result;
    for (const VersionId id : ids) result.push_back(value_of(id));
    return result;
  }
};

std::vector<std::int64_t> widened(const std::vector<int>& numbers) {
  return {numbers.begin(), numbers.end()};
}

void add_value(VersionId id, RankShard& shard) {
  const Version& version = shard.program.versions[id];
  const graph::Value& whole = shard.program.graph.value(version.value);
  const std::vector<Range> ranges = shard.ranges_of(id, shard.rank);
  graph::Value value{.name = whole.name, .type = whole.type, .shape = {}, .constant = {}};
  for (const Range& range : ranges) value.shape.push_back(range.size());
  if (!version.is_base) {
    value.name = shard.names.take(whole.name + "@" + to_string(version.spec));
  } else if (whole.constant) {
    value.constant = whole.constant->slice(ranges);
  }
  shard.values.push_back(shard.graph.add_value(std::move(value)));
}

/// Named after what it makes: "y/all-reduce".
Node step_node(const Instruction& instruction, const char* domain, RankShard& shard) {
  const ValueId made = shard.value_of(instruction.outputs[0]);
  const std::string name =
      fmt::format("{}/{}", shard.graph.value(made).name, name_of(instruction.step.kind));
  return {shard.names.take(name), "", domain, {shard.value_of(instruction.inputs[0])}, {made}, {}};
}

const std::vector<int>& group_of(const ReshardStep& step, RankShard& shard) {
  const auto [known, is_new] = shard.groups.try_emplace(step.mesh_axes);
  if (is_new) known->second = shard.program.mesh.group(shard.rank, step.mesh_axes);
  return known->second;
}

/// The extent that each rank of the step's group has of a dimension of a version.
const std::vector<std::int64_t>& extents(const ReshardStep& step, VersionId id, int dim,
                                         RankShard& shard) {
  const Version& version = shard.program.versions[id];
  const std::int64_t whole = shard.program.graph.value(version.value).shape[dim];
  const auto [known, is_new] =
      shard.extents.try_emplace({version.spec.dims[dim], whole, step.mesh_axes});
  if (is_new)
    for (const int member : group_of(step, shard))
      known->second.push_back(shard.ranges_of(id, member)[dim].size());
  return known->second;
}

void append_operator(const Instruction& instruction, RankShard& shard) {
  const Node& whole = shard.program.graph.node(instruction.node);
  const auto rule = sharding::rule_or_replicated(shard.program.graph, whole);
  sharding::LocalNode local{shard.graph, rule, whole, {}};
  local.node.inputs = shard.values_of(instruction.inputs);
  local.node.outputs = shard.values_of(instruction.outputs);
  if (rule.localize) {
    const auto& axes = shard.program.operators[instruction.node].factor_axes;
    local.factor_ranges = sharding::factor_ranges(rule, axes, shard.program.mesh, shard.rank);
  }
  append_local(std::move(local));
}

void append_slice(const Instruction& instruction, RankShard& shard) {
  const ReshardStep& step = instruction.step;
  const Range before = shard.ranges_of(instruction.inputs[0], shard.rank)[step.dim];
  const Range after = shard.ranges_of(instruction.outputs[0], shard.rank)[step.dim];
  Node node = step_node(instruction, "", shard);
  node.op_type = "Slice";
  const auto add_input = [&](const char* what, std::int64_t number) {
    node.inputs.push_back(
        shard.graph.add_constant(node.name + "/" + what, graph::Tensor::of_int64({1}, {{number}})));
  };
  add_input("starts", after.begin - before.begin);
  add_input("ends", after.end - before.begin);
  add_input("axes", step.dim);
  shard.graph.nodes.push_back(std::move(node));
}

/// Attributes as graph/onnx/collective_schemas.h lists them.
void append_collective(const Instruction& instruction, RankShard& shard) {
  const ReshardStep& step = instruction.step;
  const VersionId from = instruction.inputs[0];
  const VersionId to = instruction.outputs[0];
  const std::string reduce(name_of(step.reduce));
  const std::int64_t dim = step.dim;
  const std::int64_t index = shard.program.mesh.index_in_group(shard.rank, step.mesh_axes);
  std::vector<int> group = group_of(step, shard);
  for (int& member : group) member += shard.first_rank;
  Node node = step_node(instruction, graph::collective_domain, shard);
  switch (step.kind) {
    case StepKind::all_reduce:
      node.op_type = "AllReduce";
      node.attributes = {{"reduce", reduce}};
      break;
    case StepKind::all_gather:
      node.op_type = "AllGather";
      node.attributes = {{"dim", dim}, {"sizes", extents(step, from, step.dim, shard)}};
      break;
    case StepKind::reduce_scatter:
      node.op_type = "ReduceScatter";
      node.attributes = {
          {"reduce", reduce}, {"dim", dim}, {"sizes", extents(step, to, step.dim, shard)}};
      break;
    case StepKind::all_to_all:
      node.op_type = "AllToAll";
      node.attributes = {{"split_dim", std::int64_t{step.split_dim}},
                         {"concat_dim", dim},
                         {"split_sizes", extents(step, to, step.split_dim, shard)},
                         {"concat_sizes", extents(step, from, step.dim, shard)}};
      break;
    case StepKind::slice:
      throw InternalError("internal error: a slice is no collective");
  }
  node.attributes["mesh_axes"] = widened(step.mesh_axes);
  node.attributes["ranks"] = widened(group);
  node.attributes["rank"] = index;
  shard.graph.nodes.push_back(std::move(node));
}

}  // namespace

Graph rank_graph(const Program& program, int rank, int first_rank) {
  RankShard shard{program, rank, first_rank};
  Graph& graph = shard.graph;
  graph.name = program.graph.name;
  graph.opsets = program.graph.opsets;
  graph.opsets[graph::collective_domain] = 1;
  shard.names.insert_names(program.graph.values);
  shard.names.insert_names(program.graph.nodes);
  for (std::size_t id = 0; id < program.versions.size(); ++id) add_value(id, shard);
  for (const Instruction& instruction : program.instructions) {
    if (instruction.node != graph::no_node) {
      append_operator(instruction, shard);
    } else if (instruction.is_collective()) {
      append_collective(instruction, shard);
    } else {
      append_slice(instruction, shard);
    }
  }
  graph.inputs = shard.values_of(program.inputs);
  graph.outputs = shard.values_of(program.outputs);
  graph.states = program.graph.states;
  // Constants that `localize` replaced go. A collective stays even where this rank does without its
  // result.
  graph::remove_dead_nodes(graph);
  return std::move(graph);
}

}  // namespace autopar::program
