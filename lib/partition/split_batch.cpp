#include "partition/split_batch.h"

#include <algorithm>
#include <optional>

#include "graph/error.h"
#include "partition/lowering.h"
#include "partition/rank_graph.h"
#include "sharding/sharding_rule.h"

namespace autopar::partition {

namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;
using sharding::OpShardSpec;
using sharding::ShardingRule;
using sharding::TensorShardSpec;

/// Follows the batch from the inputs through all operators, on a mesh whose one axis is that of the
/// microbatches.
class BatchSplitter {
 public:
  BatchSplitter(const Graph& graph, int microbatches, std::vector<ValueId> batched)
      : graph_(graph), producers_(graph::producers(graph)), batch_dims_(graph.values.size(), -1) {
    plan_.mesh = sharding::DeviceMesh({microbatches});
    for (const ValueId input : batched) batch_dims_[static_cast<std::size_t>(input)] = 0;
  }

  SplitBatch run() && {
    for (const Node& node : graph_.nodes) append_strategy(node);
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      const bool is_input = std::ranges::find(graph_.inputs, id) != graph_.inputs.end();
      if (is_input || graph_.is_constant(id)) plan_.stored.emplace(id, spec_of(id));
    }
    const sharding::StepPrice free = [](const auto&, const auto&, auto) { return 0.0; };
    const Program program = lower(graph_, plan_, free);
    require_no_collective(program);
    SplitBatch result{rank_graph(program, 0), {}};
    for (int i = 1; i < plan_.mesh.num_devices(); ++i) {
      require_alike(result.microbatch, rank_graph(program, i));
    }
    for (const auto* ports : {&graph_.inputs, &graph_.outputs}) {
      for (const ValueId id : *ports) {
        if (batch_dim(id) >= 0) result.ports[graph_.value(id).name] = {batch_dim(id), rows(id)};
      }
    }
    return result;
  }

 private:
  int batch_dim(ValueId id) const { return batch_dims_[static_cast<std::size_t>(id)]; }

  std::int64_t rows(ValueId id) const {
    return graph_.value(id).shape[static_cast<std::size_t>(batch_dim(id))] /
           plan_.mesh.num_devices();
  }

  TensorShardSpec spec_of(ValueId id) const {
    TensorShardSpec spec = TensorShardSpec::replicated(graph_.value(id).shape.size());
    if (batch_dim(id) >= 0) spec.dims[static_cast<std::size_t>(batch_dim(id))] = {0};
    return spec;
  }

  /// The factor of the rule that the batch is.
  std::optional<int> batch_factor(const Node& node, const ShardingRule& rule) const {
    std::optional<int> factor;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (input == graph::no_value || graph_.is_constant(input) || batch_dim(input) < 0) continue;
      const auto& factors = rule.inputs[i][static_cast<std::size_t>(batch_dim(input))];
      if (factors.empty() || (factor && *factor != factors.front())) refuse(node);
      factor = factors.front();
    }
    return factor;
  }

  static std::vector<OpShardSpec> choices_of(const Graph& graph, const Node& node,
                                             const ShardingRule& rule,
                                             const sharding::DeviceMesh& mesh) {
    return sharding::enumerate_op_shard_specs(rule, mesh, sharding::input_shapes(graph, node),
                                              sharding::output_shapes(graph, node));
  }

  ShardingRule rule_of(const Node& node) const {
    const auto known = sharding::sharding_rule(graph_, node);
    return known ? *known : sharding::replicated_rule(graph_, node);
  }

  void append_strategy(const Node& node) {
    const ShardingRule rule = rule_of(node);
    plan_.operators.emplace_back();
    if (!decide(static_cast<graph::NodeId>(plan_.operators.size()) - 1, rule,
                batch_factor(node, rule)))
      refuse(node);
  }

  /// Splits the operator along the factor, or not at all, with all that it reads.
  bool decide(graph::NodeId id, const ShardingRule& rule, std::optional<int> factor) {
    const Node& node = graph_.node(id);
    if (factor &&
        rule.factors[static_cast<std::size_t>(*factor)].kind == sharding::FactorKind::normalized)
      return false;
    for (OpShardSpec& choice : choices_of(graph_, node, rule, plan_.mesh)) {
      if (!splits_alone(choice, factor)) continue;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != graph::no_value && !is_had_as(node.inputs[i], choice.inputs[i]))
          return false;
      }
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i] != graph::no_value) cut_as(node.outputs[i], choice.outputs[i]);
      }
      plan_.operators[static_cast<std::size_t>(id)] = std::move(choice);
      return true;
    }
    return false;
  }

  static bool splits_alone(const OpShardSpec& choice, std::optional<int> factor) {
    for (std::size_t f = 0; f < choice.factor_axes.size(); ++f) {
      if (choice.factor_axes[f].empty() == (factor == static_cast<int>(f))) return false;
    }
    return std::ranges::none_of(choice.computed, &TensorShardSpec::is_partial);
  }

  /// Whether the value is cut so, or can be: constants are cut as they are read, and so is what is
  /// computed of constants alone and too large to be folded (a mask), by cutting its operators.
  bool is_had_as(ValueId value, const TensorShardSpec& spec) {
    if (graph_.is_constant(value)) {
      cut_as(value, spec);
      return true;
    }
    if (spec == spec_of(value)) return true;
    const graph::NodeId producer = producers_[static_cast<std::size_t>(value)];
    if (batch_dim(value) >= 0 || producer == graph::no_node) return false;
    const Node& node = graph_.node(producer);
    const ShardingRule rule = rule_of(node);
    if (batch_factor(node, rule)) return false;
    const auto output =
        static_cast<std::size_t>(std::ranges::find(node.outputs, value) - node.outputs.begin());
    const auto dim = static_cast<std::size_t>(
        std::ranges::find_if(spec.dims, [](const auto& axes) { return !axes.empty(); }) -
        spec.dims.begin());
    const std::vector<int>& factors = rule.outputs[output][dim];
    return !factors.empty() && decide(producer, rule, factors.front()) && spec == spec_of(value);
  }

  void cut_as(ValueId id, const TensorShardSpec& spec) {
    const auto split =
        std::ranges::find_if(spec.dims, [](const auto& axes) { return !axes.empty(); });
    if (split != spec.dims.end())
      batch_dims_[static_cast<std::size_t>(id)] = static_cast<int>(split - spec.dims.begin());
  }

  [[noreturn]] void refuse(const Node& node) const {
    fail(
        "--microbatches {}: '{}' ({}) computes across the batch, or cannot be cut so; give "
        "--microbatches 1, or name the batched inputs with --batch",
        plan_.mesh.num_devices(), node.name, qualified_op_type(node));
  }

  /// Microbatches know nothing of each other.
  void require_no_collective(const Program& program) const {
    for (const Instruction& instruction : program.instructions) {
      if (!instruction.is_collective()) continue;
      const Version& read = program.versions[static_cast<std::size_t>(instruction.inputs[0])];
      fail("--microbatches {}: '{}' is read both by rows and whole; give --microbatches 1",
           plan_.mesh.num_devices(), program.graph.value(read.value).name);
    }
  }

  /// One graph serves all microbatches.
  void require_alike(const Graph& first, const Graph& other) const {
    const auto is_alike = [](const graph::Value& a, const graph::Value& b) {
      if (a.shape != b.shape || a.constant.has_value() != b.constant.has_value()) return false;
      if (!a.constant || !a.constant->has_data() || a.constant->data() == b.constant->data())
        return true;
      const graph::Tensor left = a.constant->contiguous_copy();
      const graph::Tensor right = b.constant->contiguous_copy();
      return std::ranges::equal(left.bytes(), right.bytes());
    };
    for (std::size_t v = 0; v < first.values.size(); ++v) {
      if (v < other.values.size() && is_alike(first.values[v], other.values[v])) continue;
      fail(
          "--microbatches {}: '{}' differs from one part of the batch to another; give "
          "--microbatches 1",
          plan_.mesh.num_devices(), first.values[v].name);
    }
  }

  const Graph& graph_;
  const std::vector<graph::NodeId> producers_;
  std::vector<int> batch_dims_;  ///< by value; -1 where it is not cut
  search::Plan plan_;
};

/// Weights of the file are the same; only what was folded may follow from the batch.
constexpr std::int64_t most_compared_bytes = 1 << 20;

/// Integers may tell shapes: then each is the same, or grows as the batch does.
bool is_same_or_grows(const graph::Tensor& a, const graph::Tensor& b, std::int64_t batch,
                      std::int64_t other_batch) {
  if (a.type() != b.type() || a.shape() != b.shape()) return a.type() == b.type();
  if (!a.has_data() || a.size_bytes() > most_compared_bytes) return true;
  const graph::Tensor left = a.contiguous_copy();
  const graph::Tensor right = b.contiguous_copy();
  if (a.type() != graph::DataType::int64) return std::ranges::equal(left.bytes(), right.bytes());
  const auto numbers = left.values<std::int64_t>();
  const auto others = right.values<std::int64_t>();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != others[i] && numbers[i] * other_batch != others[i] * batch) return false;
  }
  return true;
}

}  // namespace

bool differ_in_batch_alone(const Graph& graph, const Graph& other, std::int64_t batch,
                           std::int64_t other_batch) {
  if (graph.nodes.size() != other.nodes.size() || graph.values.size() != other.values.size())
    return false;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (graph.nodes[n].op_type != other.nodes[n].op_type ||
        graph.nodes[n].inputs != other.nodes[n].inputs)
      return false;
  }
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const auto& a = graph.values[v].constant;
    const auto& b = other.values[v].constant;
    if (a.has_value() != b.has_value()) return false;
    if (a && !is_same_or_grows(*a, *b, batch, other_batch)) return false;
  }
  return true;
}

std::vector<ValueId> batched_inputs(const Graph& graph, const std::vector<std::string>& batched) {
  std::vector<ValueId> inputs;
  for (const std::string& name : batched) {
    const auto found = std::ranges::find_if(
        graph.inputs, [&](ValueId id) { return graph.value(id).name == name; });
    if (found == graph.inputs.end()) fail("--batch {}: the model has no such input", name);
    if (graph.value(*found).shape.empty()) fail("--batch {}: a scalar has no batch", name);
    inputs.push_back(*found);
    const std::int64_t batch = graph.value(inputs.front()).shape.front();
    if (graph.value(*found).shape.front() != batch) {
      fail("--batch {}: it has {} rows, but '{}' has {}; microbatches cut inputs of as many rows",
           name, graph.value(*found).shape.front(), graph.value(inputs.front()).name, batch);
    }
  }
  if (!inputs.empty()) return inputs;
  for (const ValueId input : graph.inputs) {
    const graph::Shape& shape = graph.value(input).shape;
    if (shape.empty()) continue;
    if (inputs.empty() || shape.front() == graph.value(inputs.front()).shape.front())
      inputs.push_back(input);
  }
  return inputs;
}

SplitBatch split_batch(const Graph& graph, int microbatches,
                       const std::vector<std::string>& batched) {
  if (microbatches < 1) fail("--microbatches {}: give at least 1", microbatches);
  const std::vector<ValueId> inputs = batched_inputs(graph, batched);
  if (inputs.empty()) fail("--microbatches {}: the model has no batched input", microbatches);
  for (const ValueId input : inputs) {
    const graph::Value& value = graph.value(input);
    if (value.shape.front() % microbatches != 0 || value.shape.front() == 0) {
      fail("--microbatches {}: input '{}' has a batch of {}; give a divisor of it", microbatches,
           value.name, value.shape.front());
    }
  }
  if (microbatches == 1) {
    SplitBatch whole{graph, {}};
    return whole;
  }
  return BatchSplitter(graph, microbatches, inputs).run();
}

}  // namespace autopar::partition
