#include "partition/rank_graph.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/error.h"
#include "sharding/sharding_rule.h"

namespace autopar::partition {

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
  RankGraph(const Graph& graph, const search::Plan& plan, const Program& program, int rank)
      : graph_(graph), plan_(plan), program_(program), rank_(rank) {
    shard_.name = graph.name;
    shard_.opsets = graph.opsets;
    shard_.opsets[graph::collective_domain] = 1;
  }

  Graph build() && {
    add_values();
    for (const Instruction& instruction : program_.instructions) {
      if (instruction.node == graph::no_node) {
        append_step(instruction);
      } else {
        append_operator(instruction);
      }
    }
    for (const VersionId input : program_.inputs) shard_.inputs.push_back(value_of(input));
    for (const VersionId output : program_.outputs) shard_.outputs.push_back(value_of(output));
    // No collective is ever dead: the program has only steps that some operator reads.
    graph::remove_dead_nodes(shard_);
    return std::move(shard_);
  }

 private:
  /// One value a version. The first version of a tensor, its base, keeps the tensor's name.
  void add_values() {
    std::set<ValueId> named;
    for (const Version& version : program_.versions) {
      const graph::Value& whole = graph_.value(version.value);
      const std::vector<Range> ranges =
          sharding::local_ranges(version.spec, whole.shape, plan_.mesh, rank_);
      const bool is_base = version.spec == plan_.spec_of(graph_, version.value) &&
                           named.insert(version.value).second;
      graph::Value value{.name = is_base ? whole.name : whole.name + "@" + to_string(version.spec),
                         .type = whole.type,
                         .shape = {},
                         .constant = std::nullopt};
      for (const Range& range : ranges) value.shape.push_back(range.size());
      if (is_base && whole.constant) value.constant = whole.constant->slice(ranges);
      if (!is_base) value.name = unique(value.name);
      values_.push_back(shard_.add_value(std::move(value)));
    }
  }

  ValueId value_of(VersionId version) const {
    return version < 0 ? graph::no_value : values_[static_cast<std::size_t>(version)];
  }

  const Shape& local_shape(VersionId version) const {
    return shard_.value(value_of(version)).shape;
  }

  void append_operator(const Instruction& instruction) {
    const Node& whole = graph_.node(instruction.node);
    sharding::LocalNode local{shard_, whole, {}};
    for (std::size_t i = 0; i < whole.inputs.size(); ++i) {
      local.node.inputs[i] = value_of(instruction.inputs[i]);
    }
    for (std::size_t i = 0; i < whole.outputs.size(); ++i) {
      local.node.outputs[i] = value_of(instruction.outputs[i]);
    }
    const auto rule = sharding::sharding_rule(graph_, whole);
    if (!rule || !rule->localize) {
      shard_.nodes.push_back(std::move(local.node));
      return;
    }
    const auto& strategy = plan_.operators[static_cast<std::size_t>(instruction.node)];
    local.factor_ranges = sharding::factor_ranges(*rule, strategy, plan_.mesh, rank_);
    rule->localize(local);
  }

  void append_step(const Instruction& instruction) {
    const VersionId from = instruction.inputs[0];
    const VersionId to = instruction.outputs[0];
    if (instruction.step.kind == StepKind::slice) {
      append_slice(instruction.step, from, to);
      return;
    }
    Node node;
    node.name = shard_.value(value_of(to)).name + "/" + std::string(name_of(instruction.step.kind));
    node.domain = graph::collective_domain;
    node.inputs = {value_of(from)};
    node.outputs = {value_of(to)};
    describe_collective(node, instruction.step, from, to);
    shard_.nodes.push_back(std::move(node));
  }

  void append_slice(const ReshardStep& step, VersionId from, VersionId to) {
    const Shape& whole = graph_.value(program_.versions[static_cast<std::size_t>(to)].value).shape;
    const auto dim = static_cast<std::size_t>(step.dim);
    const Range before = sharding::local_ranges(step.before, whole, plan_.mesh, rank_)[dim];
    const Range after = sharding::local_ranges(step.after, whole, plan_.mesh, rank_)[dim];
    const std::string name = shard_.value(value_of(to)).name + "/slice";
    const auto constant = [&](const char* what, std::int64_t number) {
      return shard_.add_constant(name + "/" + what, graph::Tensor::of_int64({1}, {{number}}));
    };
    // A share that is empty because the dimension ends before it begins at the end.
    const std::int64_t begin = std::min(after.begin, before.end) - before.begin;
    Node node;
    node.name = name;
    node.op_type = "Slice";
    node.inputs = {value_of(from), constant("starts", begin),
                   constant("ends", begin + after.size()), constant("axes", step.dim)};
    node.outputs = {value_of(to)};
    shard_.nodes.push_back(std::move(node));
  }

  void describe_collective(Node& node, const ReshardStep& step, VersionId from, VersionId to) {
    const std::vector<int> group = plan_.mesh.group(rank_, step.mesh_axes);
    node.attributes["mesh_axes"] = widened(step.mesh_axes);
    node.attributes["ranks"] = widened(group);
    const std::int64_t index = plan_.mesh.index_in_group(rank_, step.mesh_axes);
    switch (step.kind) {
      case StepKind::all_reduce:
        node.op_type = "AllReduce";
        node.attributes["reduce"] = std::string(name_of(step.reduce));
        break;
      case StepKind::all_gather:
        node.op_type = "AllGather";
        node.attributes["dim"] = std::int64_t{step.dim};
        node.attributes["sizes"] = extents(group, from, step.dim);
        break;
      case StepKind::reduce_scatter:
        node.op_type = "ReduceScatter";
        node.attributes["reduce"] = std::string(name_of(step.reduce));
        node.attributes["dim"] = std::int64_t{step.dim};
        node.attributes["sizes"] = extents(group, to, step.dim);
        node.attributes["rank"] = index;
        break;
      case StepKind::all_to_all:
        node.op_type = "AllToAll";
        node.attributes["split_dim"] = std::int64_t{step.split_dim};
        node.attributes["concat_dim"] = std::int64_t{step.dim};
        node.attributes["split_sizes"] = extents(group, to, step.split_dim);
        node.attributes["concat_sizes"] = extents(group, from, step.dim);
        node.attributes["rank"] = index;
        break;
      case StepKind::slice:
        throw InternalError("a slice is no collective");
    }
  }

  /// The extent of a dimension of a version on each rank of a group.
  std::vector<std::int64_t> extents(const std::vector<int>& group, VersionId id, int dim) const {
    const Version& version = program_.versions[static_cast<std::size_t>(id)];
    const Shape& whole = graph_.value(version.value).shape;
    std::vector<std::int64_t> result;
    for (const int member : group) {
      const Shape local = sharding::local_shape(version.spec, whole, plan_.mesh, member);
      result.push_back(local[static_cast<std::size_t>(dim)]);
    }
    return result;
  }

  static std::vector<std::int64_t> widened(const std::vector<int>& numbers) {
    return {numbers.begin(), numbers.end()};
  }

  /// Two chains may pass through the same spec of one tensor.
  std::string unique(const std::string& name) {
    const int copies = names_[name]++;
    return copies == 0 ? name : name + "#" + std::to_string(copies);
  }

  const Graph& graph_;
  const search::Plan& plan_;
  const Program& program_;
  int rank_;
  Graph shard_;
  std::vector<ValueId> values_;  ///< by VersionId
  std::map<std::string, int> names_;
};

}  // namespace

Graph rank_graph(const Graph& graph, const search::Plan& plan, const Program& program, int rank) {
  return RankGraph(graph, plan, program, rank).build();
}

}  // namespace autopar::partition
