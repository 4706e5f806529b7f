#include "program/split_batch.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <optional>

#include "base/problems.h"
#include "program/lowering.h"
#include "program/rank_graph.h"
#include "sharding/sharding_rule.h"

namespace autopar::program {

namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;
using sharding::OpShardSpec;
using sharding::ShardingRule;
using sharding::TensorShardSpec;

using BatchDims = std::vector<std::pair<ValueId, int>>;

/// Something is computed across the batch.
struct NoSuchCut : Error {
  using Error::Error;
};

/// Follows the batch from the inputs through all operators, on a mesh whose one axis is that of the
/// microbatches.
class BatchSplitter {
 public:
  BatchSplitter(const Graph& graph, int microbatches, const BatchDims& batched)
      : graph_(graph), producers_(graph::producers(graph)) {
    plan_.mesh = sharding::DeviceMesh({microbatches});
    begin(batched);
  }

  /// Adds the inputs that operators need cut along with those that are. A pass may have read such
  /// an input whole before, so that all begins anew with it, until none is found.
  BatchDims find_inputs(BatchDims batched) && {
    while (true) {
      begin(batched);
      std::exception_ptr refusal;
      try {
        choose_strategies();
        if (found_.empty()) require_no_collective(lowered());
      } catch (const NoSuchCut&) {
        refusal = std::current_exception();
      }
      if (found_.empty() && refusal) std::rethrow_exception(refusal);
      if (found_.empty()) return batched;
      batched.insert(batched.end(), found_.begin(), found_.end());
    }
  }

  SplitBatch run() && {
    choose_strategies();
    const Program program = lowered();
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
  void begin(const BatchDims& batched) {
    plan_.operators.clear();
    plan_.stored.clear();
    found_.clear();
    batch_dims_.assign(graph_.values.size(), -1);
    for (const auto& [input, dim] : batched) batch_dims_[input] = dim;
  }

  void choose_strategies() {
    for (const Node& node : graph_.nodes) append_strategy(node);
  }

  Program lowered() {
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (is_input(id) || graph_.is_constant(id)) plan_.stored.emplace(id, spec_of(id));
    }
    const sharding::StepPrice free = [](const auto&, const auto&, auto) { return 0.0; };
    return lower(graph_, plan_, free);
  }

  bool is_input(ValueId id) const {
    return std::ranges::find(graph_.inputs, id) != graph_.inputs.end();
  }

  int batch_dim(ValueId id) const { return batch_dims_[id]; }

  std::int64_t rows(ValueId id) const {
    return graph_.value(id).shape[batch_dim(id)] / plan_.mesh.num_devices();
  }

  TensorShardSpec spec_of(ValueId id) const {
    TensorShardSpec spec = TensorShardSpec::replicated(graph_.value(id).shape.size());
    if (batch_dim(id) >= 0) spec.dims[batch_dim(id)] = {0};
    return spec;
  }

  /// The factor of the rule that the batch is.
  std::optional<int> batch_factor(const Node& node, const ShardingRule& rule) const {
    std::optional<int> factor;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId input = node.inputs[i];
      if (input == graph::no_value || graph_.is_constant(input) || batch_dim(input) < 0) continue;
      const auto& factors = rule.inputs[i][batch_dim(input)];
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
    if (factor && rule.factors[*factor].kind == sharding::FactorKind::normalized) return false;
    for (OpShardSpec& choice : choices_of(graph_, node, rule, plan_.mesh)) {
      if (!splits_alone(choice, factor)) continue;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != graph::no_value && !is_had_as(node.inputs[i], choice.inputs[i]))
          return false;
      }
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i] != graph::no_value) cut_as(node.outputs[i], choice.outputs[i]);
      }
      plan_.operators[id] = std::move(choice);
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

  /// Whether the value is cut so, or can be: constants are cut as they are read, and so are inputs
  /// that were whole so far, and values computed from these that are too large to be folded (a
  /// mask), by cutting their operators.
  bool is_had_as(ValueId value, const TensorShardSpec& spec) {
    if (graph_.is_constant(value)) {
      cut_as(value, spec);
      return true;
    }
    if (spec == spec_of(value)) return true;
    if (batch_dim(value) < 0 && is_input(value)) {
      cut_as(value, spec);
      found_.emplace_back(value, batch_dim(value));
      return true;
    }
    const graph::NodeId producer = producers_[value];
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
    if (split != spec.dims.end()) batch_dims_[id] = static_cast<int>(split - spec.dims.begin());
  }

  [[noreturn]] void refuse(const Node& node) const {
    throw NoSuchCut(fmt::format(
        "--microbatches: '{}' ({}) computes across the batch, or cannot be cut so; give "
        "--microbatches 1, or name the inputs that have the batch with --batch NAME, or --batch "
        "NAME=1 where it is in dimension 1",
        node.name, qualified_op_type(node)));
  }

  /// Microbatches know nothing of each other.
  void require_no_collective(const Program& program) const {
    for (const Instruction& instruction : program.instructions) {
      if (!instruction.is_collective()) continue;
      const Version& read = program.versions[instruction.inputs[0]];
      throw NoSuchCut(
          fmt::format("--microbatches: '{}' is read both by rows and whole; give --microbatches 1",
                      program.graph.value(read.value).name));
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
  BatchDims found_;              ///< inputs that operators need cut, beside those given
  plan::Plan plan_;
};

/// The inputs that have the batch, beginning with these.
BatchDims follow(const Graph& graph, const BatchDims& seeds, std::int64_t rows) {
  return BatchSplitter(graph, static_cast<int>(rows), seeds).find_inputs(seeds);
}

[[noreturn]] void fail_unnamed(const std::string& text) {
  fail("--batch {}: the model has no such input", text);
}

/// "x" or "x=1".
std::pair<ValueId, int> named_batch(const Graph& graph, const std::string& text) {
  const auto find = [&](std::string_view name) {
    return std::ranges::find_if(graph.inputs,
                                [&](ValueId id) { return graph.value(id).name == name; });
  };
  auto found = find(text);
  int dim = 0;
  const std::size_t equals = text.rfind('=');
  if (found == graph.inputs.end() && equals != std::string::npos) {
    found = find(std::string_view(text).substr(0, equals));
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + equals + 1, end, dim);
    if (error != std::errc() || rest != end || dim < 0)
      fail("--batch {}: give an input, or INPUT=DIMENSION such as {}=1", text,
           text.substr(0, equals));
  }
  if (found == graph.inputs.end()) fail_unnamed(text);
  const auto rank = std::ssize(graph.value(*found).shape);
  if (rank == 0) fail("--batch {}: a scalar has no batch", text);
  if (dim >= rank) fail("--batch {}: the input has {} dimensions, numbered from 0", text, rank);
  return {*found, dim};
}

std::int64_t extent_of(const Graph& graph, const std::pair<ValueId, int>& batched) {
  return graph.value(batched.first).shape[batched.second];
}

BatchInputs named_inputs(const Graph& graph, const std::vector<std::string>& named) {
  BatchInputs batch;
  Problems problems;
  for (const std::string& text : named) {
    problems.collect([&] {
      batch.dims.push_back(named_batch(graph, text));
      const std::int64_t rows = extent_of(graph, batch.dims.back());
      if (batch.dims.size() == 1) batch.rows = rows;
      if (rows != batch.rows)
        fail("--batch {}: it has {} rows, but '{}' has {}; microbatches cut inputs of as many rows",
             text, rows, graph.value(batch.dims.front().first).name, batch.rows);
    });
  }
  problems.throw_if_any();
  return batch;
}

/// Adds the inputs that nothing needs cut, where they have as many rows and can be cut.
void add_separate_inputs(const Graph& graph, BatchInputs& batch) {
  for (const ValueId input : graph.inputs) {
    const graph::Shape& shape = graph.value(input).shape;
    const bool has_rows = !shape.empty() && shape.front() == batch.rows;
    if (!has_rows ||
        std::ranges::find(batch.dims, input, &BatchDims::value_type::first) != batch.dims.end())
      continue;
    BatchDims more = batch.dims;
    more.emplace_back(input, 0);
    try {
      batch.dims = follow(graph, more, batch.rows);
    } catch (const NoSuchCut&) {
      continue;  // it is the same for all microbatches
    }
  }
}

/// The batch in the first dimension of the first input that has one, or in the first that can be
/// cut.
BatchInputs default_batch(const Graph& graph) {
  const auto first = std::ranges::find_if(
      graph.inputs, [&](ValueId id) { return !graph.value(id).shape.empty(); });
  if (first == graph.inputs.end()) fail("--microbatches: the model has no batched input");
  std::exception_ptr refusal;
  for (int dim = 0; dim < std::ssize(graph.value(*first).shape); ++dim) {
    BatchInputs batch{{{*first, dim}}, extent_of(graph, {*first, dim})};
    if (batch.rows < 2) continue;
    try {
      batch.dims = follow(graph, batch.dims, batch.rows);
      add_separate_inputs(graph, batch);
      return batch;
    } catch (const NoSuchCut&) {
      if (!refusal) refusal = std::current_exception();
    }
  }
  if (refusal) std::rethrow_exception(refusal);
  return {{{*first, 0}}, extent_of(graph, {*first, 0})};
}

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

BatchInputs find_batch(const Graph& graph, const std::vector<std::string>& named) {
  if (named.empty()) return default_batch(graph);
  BatchInputs batch = named_inputs(graph, named);
  if (batch.rows > 1) batch.dims = follow(graph, batch.dims, batch.rows);
  return batch;
}

void check_batch_names(const std::vector<std::string>& named,
                       const std::vector<std::string>& inputs) {
  Problems problems;
  for (const std::string& text : named) {
    const auto is_named = [&](const std::string& input) {
      return text == input || text.substr(0, text.rfind('=')) == input;
    };
    if (std::ranges::none_of(inputs, is_named)) problems.collect([&] { fail_unnamed(text); });
  }
  problems.throw_if_any();
}

SplitBatch split_batch(const Graph& graph, int microbatches, const BatchInputs& batch) {
  if (microbatches < 1) fail("--microbatches {}: give at least 1", microbatches);
  if (microbatches == 1) return {graph, {}};
  for (const auto& batched : batch.dims) {
    const std::int64_t rows = extent_of(graph, batched);
    if (rows % microbatches != 0 || rows == 0)
      fail("--microbatches {}: input '{}' has a batch of {}; give a divisor of it", microbatches,
           graph.value(batched.first).name, rows);
  }
  return BatchSplitter(graph, microbatches, batch.dims).run();
}

}  // namespace autopar::program
