#include "program/rank_graph.h"

#include <string>
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
using sharding::Shape;
using sharding::StepKind;

class RankGraph {
 public:
  RankGraph(const Program& program, int rank, int first_rank)
      : program_(program), graph_(program.graph), rank_(rank), first_rank_(first_rank) {
    shard_.name = graph_.name;
    shard_.opsets = graph_.opsets;
    shard_.opsets[graph::collective_domain] = 1;
    names_.insert_names(graph_.values);
    names_.insert_names(graph_.nodes);
  }

  Graph build() && {
    for (std::size_t id = 0; id < program_.versions.size(); ++id) add_value(id);
    for (const Instruction& instruction : program_.instructions) {
      if (instruction.node != graph::no_node) {
        append_operator(instruction);
      } else if (instruction.is_collective()) {
        append_collective(instruction);
      } else {
        append_slice(instruction);
      }
    }
    for (const VersionId input : program_.inputs) shard_.inputs.push_back(value_of(input));
    for (const VersionId output : program_.outputs) shard_.outputs.push_back(value_of(output));
    shard_.states = graph_.states;
    // Constants that `localize` replaced go. A collective stays even where this rank does without
    // its result.
    graph::remove_dead_nodes(shard_);
    return std::move(shard_);
  }

 private:
  void add_value(VersionId id) {
    const Version& version = program_.versions[id];
    const graph::Value& whole = graph_.value(version.value);
    const std::vector<Range> ranges = ranges_of(id, rank_);
    graph::Value value{.name = whole.name, .type = whole.type, .shape = {}, .constant = {}};
    for (const Range& range : ranges) value.shape.push_back(range.size());
    if (!version.is_base) {
      value.name = names_.take(whole.name + "@" + to_string(version.spec));
    } else if (whole.constant) {
      value.constant = whole.constant->slice(ranges);
    }
    values_.push_back(shard_.add_value(std::move(value)));
  }

  void append_operator(const Instruction& instruction) {
    const Node& whole = graph_.node(instruction.node);
    const auto rule = sharding::rule_or_replicated(graph_, whole);
    sharding::LocalNode local{shard_, rule, whole, {}};
    local.node.inputs = values_of(instruction.inputs);
    local.node.outputs = values_of(instruction.outputs);
    if (rule.localize) {
      const auto& axes = program_.operators[instruction.node].factor_axes;
      local.factor_ranges = sharding::factor_ranges(rule, axes, program_.mesh, rank_);
    }
    append_local(std::move(local));
  }

  void append_slice(const Instruction& instruction) {
    const ReshardStep& step = instruction.step;
    const Range before = ranges_of(instruction.inputs[0], rank_)[step.dim];
    const Range after = ranges_of(instruction.outputs[0], rank_)[step.dim];
    Node node = step_node(instruction, "");
    node.op_type = "Slice";
    const auto add_input = [&](const char* what, std::int64_t number) {
      node.inputs.push_back(
          shard_.add_constant(node.name + "/" + what, graph::Tensor::of_int64({1}, {{number}})));
    };
    add_input("starts", after.begin - before.begin);
    add_input("ends", after.end - before.begin);
    add_input("axes", step.dim);
    shard_.nodes.push_back(std::move(node));
  }

  /// Attributes as graph/collective_schemas.h lists them.
  void append_collective(const Instruction& instruction) {
    const ReshardStep& step = instruction.step;
    const VersionId from = instruction.inputs[0];
    const VersionId to = instruction.outputs[0];
    const std::string reduce(name_of(step.reduce));
    const std::int64_t dim = step.dim;
    const std::int64_t index = program_.mesh.index_in_group(rank_, step.mesh_axes);
    std::vector<int> group = program_.mesh.group(rank_, step.mesh_axes);
    for (int& member : group) member += first_rank_;
    Node node = step_node(instruction, graph::collective_domain);
    switch (step.kind) {
      case StepKind::all_reduce:
        node.op_type = "AllReduce";
        node.attributes = {{"reduce", reduce}};
        break;
      case StepKind::all_gather:
        node.op_type = "AllGather";
        node.attributes = {{"dim", dim}, {"sizes", extents(step, from, step.dim)}};
        break;
      case StepKind::reduce_scatter:
        node.op_type = "ReduceScatter";
        node.attributes = {{"reduce", reduce},
                           {"dim", dim},
                           {"sizes", extents(step, to, step.dim)},
                           {"rank", index}};
        break;
      case StepKind::all_to_all:
        node.op_type = "AllToAll";
        node.attributes = {{"split_dim", std::int64_t{step.split_dim}},
                           {"concat_dim", dim},
                           {"split_sizes", extents(step, to, step.split_dim)},
                           {"concat_sizes", extents(step, from, step.dim)},
                           {"rank", index}};
        break;
      case StepKind::slice:
        throw InternalError("internal error: a slice is no collective");
    }
    node.attributes["mesh_axes"] = widened(step.mesh_axes);
    node.attributes["ranks"] = widened(group);
    shard_.nodes.push_back(std::move(node));
  }

  /// Named after what it makes: "y/all-reduce".
  Node step_node(const Instruction& instruction, const char* domain) {
    const ValueId made = value_of(instruction.outputs[0]);
    const std::string name =
        fmt::format("{}/{}", shard_.value(made).name, name_of(instruction.step.kind));
    return {names_.take(name), "", domain, {value_of(instruction.inputs[0])}, {made}, {}};
  }

  /// The extent that each rank of the step's group has of a dimension of a version.
  std::vector<std::int64_t> extents(const ReshardStep& step, VersionId id, int dim) const {
    std::vector<std::int64_t> result;
    for (const int member : program_.mesh.group(rank_, step.mesh_axes)) {
      result.push_back(ranges_of(id, member)[dim].size());
    }
    return result;
  }

  std::vector<Range> ranges_of(VersionId id, int rank) const {
    const Version& version = program_.versions[id];
    return sharding::local_ranges(version.spec, graph_.value(version.value).shape, program_.mesh,
                                  rank);
  }

  ValueId value_of(VersionId id) const { return id < 0 ? graph::no_value : values_[id]; }

  std::vector<ValueId> values_of(const std::vector<VersionId>& ids) const {
    std::vector<ValueId> result;
    for (const VersionId id : ids) result.push_back(value_of(id));
    return result;
  }

  static std::vector<std::int64_t> widened(const std::vector<int>& numbers) {
    return {numbers.begin(), numbers.end()};
  }

  const Program& program_;
  const Graph& graph_;
  int rank_;
  int first_rank_;
  Graph shard_;
  std::vector<ValueId> values_;  ///< by VersionId
  UniqueNames names_{"#"};
};

}  // namespace

Graph rank_graph(const Program& program, int rank, int first_rank) {
  return RankGraph(program, rank, first_rank).build();
}

}  // namespace autopar::program
