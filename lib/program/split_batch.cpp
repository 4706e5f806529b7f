#include "program/split_batch.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <optional>

#include "base/problems.h"
#include "program/lowering.h"
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

/// Whether both have the same elements; of one type and shape.
bool has_same_bytes(const graph::Tensor& a, const graph::Tensor& b) {
  const graph::Tensor left = a.contiguous_copy();
  const graph::Tensor right = b.contiguous_copy();
  return std::ranges::equal(left.bytes(), right.bytes());
}

/// The batch followed from the inputs through the operators so far, on a mesh whose one axis is
/// that of the microbatches.
struct Cut {
  const Graph& graph;
  std::vector<graph::NodeId> producers;
  plan::Plan plan;
  std::vector<int> dims;  ///< by value: the one that is cut; -1 where it is whole
  BatchDims found{};      ///< inputs that operators need cut, beside those given
};

TensorShardSpec spec_of(const Cut& cut, ValueId id) {
  TensorShardSpec spec = TensorShardSpec::replicated(cut.graph.value(id).shape.size());
  if (cut.dims[id] >= 0) spec.dims[cut.dims[id]] = {0};
  return spec;
}

/// The dimension that is split; -1 for none.
int split_dim(const TensorShardSpec& spec) {
  const auto found =
      std::ranges::find_if(spec.dims, [](const auto& axes) { return !axes.empty(); });
  return found == spec.dims.end() ? -1 : static_cast<int>(found - spec.dims.begin());
}

[[noreturn]] void refuse(const Node& node) {
  throw NoSuchCut(
      fmt::format("'{}' ({}) computes across the batch, or cannot be cut so", node.name,
                  qualified_op_type(node)),
      "give --microbatches 1, or name the inputs that have the batch with --batch NAME, or --batch "
      "NAME=1 where it is in dimension 1");
}

/// The factor of the rule that the batch is.
std::optional<int> batch_factor(const Cut& cut, const Node& node, const ShardingRule& rule) {
  std::optional<int> factor;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId input = node.inputs[i];
    if (input == graph::no_value || cut.graph.is_constant(input) || cut.dims[input] < 0) continue;
    const auto& factors = rule.inputs[i][cut.dims[input]];
    if (factors.empty() || (factor && *factor != factors.front())) refuse(node);
    factor = factors.front();
  }
  return factor;
}

bool splits_alone(const OpShardSpec& choice, std::optional<int> factor) {
  for (std::size_t f = 0; f < choice.factor_axes.size(); ++f) {
    if (choice.factor_axes[f].empty() == (factor == static_cast<int>(f))) return false;
  }
  return std::ranges::none_of(choice.computed, &TensorShardSpec::is_partial);
}

bool is_had_as(Cut& cut, ValueId value, const TensorShardSpec& spec);

/// Splits the operator along the factor, or not at all, with all that it reads.
bool decide(Cut& cut, graph::NodeId id, const ShardingRule& rule, std::optional<int> factor) {
  const Node& node = cut.graph.node(id);
  if (factor && rule.factors[*factor].kind == sharding::FactorKind::normalized) return false;
  for (OpShardSpec& choice :
       sharding::enumerate_op_shard_specs(cut.graph, node, rule, cut.plan.mesh)) {
    if (!splits_alone(choice, factor)) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != graph::no_value && !is_had_as(cut, node.inputs[i], choice.inputs[i]))
        return false;
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const int dim = split_dim(choice.outputs[i]);
      if (node.outputs[i] != graph::no_value && dim >= 0) cut.dims[node.outputs[i]] = dim;
    }
    cut.plan.operators[id] = std::move(choice);
    return true;
  }
  return false;
}

/// Whether the value is cut so, or can be: constants are cut as they are read, and so are inputs
/// that were whole so far, and values computed from these that are too large to be folded (a mask),
/// by cutting their operators.
bool is_had_as(Cut& cut, ValueId value, const TensorShardSpec& spec) {
  const Graph& graph = cut.graph;
  const int dim = split_dim(spec);
  if (graph.is_constant(value)) {
    if (dim >= 0) cut.dims[value] = dim;
    return true;
  }
  if (spec == spec_of(cut, value)) return true;
  if (cut.dims[value] >= 0) return false;
  const graph::NodeId producer = cut.producers[value];
  if (producer == graph::no_node) {
    cut.dims[value] = dim;
    cut.found.emplace_back(value, dim);
    return true;
  }
  const Node& node = graph.node(producer);
  const ShardingRule rule = sharding::rule_or_replicated(graph, node);
  if (batch_factor(cut, node, rule)) return false;
  const auto output = std::ranges::find(node.outputs, value) - node.outputs.begin();
  const std::vector<int>& factors = rule.outputs[output][dim];
  return !factors.empty() && decide(cut, producer, rule, factors.front()) &&
         spec == spec_of(cut, value);
}

Cut begin_cut(const Graph& graph, int microbatches, const BatchDims& batched) {
  Cut cut{graph, graph::producers(graph), {}, std::vector<int>(graph.values.size(), -1)};
  cut.plan.mesh = sharding::DeviceMesh({microbatches});
  for (const auto& [input, dim] : batched) cut.dims[input] = dim;
  return cut;
}

/// Throws NoSuchCut where an operator computes across the batch.
void cut_operators(Cut& cut) {
  for (const Node& node : cut.graph.nodes) {
    const ShardingRule rule = sharding::rule_or_replicated(cut.graph, node);
    const auto id = static_cast<graph::NodeId>(cut.plan.operators.size());
    cut.plan.operators.emplace_back();
    if (!decide(cut, id, rule, batch_factor(cut, node, rule))) refuse(node);
  }
}

/// Microbatches know nothing of each other: throws NoSuchCut where the program has a collective.
Program lower_without_collectives(Cut& cut) {
  for (std::size_t v = 0; v < cut.graph.values.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    if (cut.producers[id] == graph::no_node) cut.plan.stored.emplace(id, spec_of(cut, id));
  }
  // On any device a slice is the cheapest chain where one leads there.
  const cost::CostModel cost(cost::load_device_model("cpu"), cut.plan.mesh);
  Program program = lower(cut.graph, cut.plan, cost);
  for (const Instruction& instruction : program.instructions) {
    if (!instruction.is_collective()) continue;
    throw NoSuchCut(
        fmt::format("'{}' is read both by rows and whole", program.value_of(instruction).name),
        "give --microbatches 1");
  }
  return program;
}

/// The inputs that have the batch, beginning with these. A pass may have read an input whole before
/// an operator needs it cut, so that all begins anew with it, until none is found.
BatchDims follow(const Graph& graph, BatchDims batched, std::int64_t rows) {
  while (true) {
    Cut cut = begin_cut(graph, static_cast<int>(rows), batched);
    try {
      cut_operators(cut);
      if (cut.found.empty()) lower_without_collectives(cut);
    } catch (const NoSuchCut&) {
      if (cut.found.empty()) throw;
    }
    if (cut.found.empty()) return batched;
    batched.insert(batched.end(), cut.found.begin(), cut.found.end());
  }
}

/// One graph serves all microbatches.
void require_alike(const Graph& first, const Graph& other) {
  const auto is_alike = [](const graph::Value& a, const graph::Value& b) {
    if (a.shape != b.shape || a.constant.has_value() != b.constant.has_value()) return false;
    return !a.constant || !a.constant->has_data() || a.constant->data() == b.constant->data() ||
           has_same_bytes(*a.constant, *b.constant);
  };
  for (std::size_t v = 0; v < first.values.size(); ++v) {
    if (v < other.values.size() && is_alike(first.values[v], other.values[v])) continue;
    throw NoSuchCut(
        fmt::format("'{}' differs from one part of the batch to another", first.values[v].name),
        "give --microbatches 1");
  }
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
  if (a.type() != graph::DataType::int64) return has_same_bytes(a, b);
  return std::ranges::equal(a.to_int64s(), b.to_int64s(), [&](auto number, auto other) {
    return number == other || number * other_batch == other * batch;
  });
}

}  // namespace

bool differ_in_batch_alone(const Graph& graph, const Graph& other, std::int64_t batch,
                           std::int64_t other_batch) {
  const auto computes_alike = [](const Node& a, const Node& b) {
    return a.op_type == b.op_type && a.inputs == b.inputs;
  };
  const auto is_alike = [&](const graph::Value& a, const graph::Value& b) {
    if (!a.constant || !b.constant) return !a.constant && !b.constant;
    return is_same_or_grows(*a.constant, *b.constant, batch, other_batch);
  };
  return std::ranges::equal(graph.nodes, other.nodes, computes_alike) &&
         std::ranges::equal(graph.values, other.values, is_alike);
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
  Cut cut = begin_cut(graph, microbatches, batch.dims);
  cut_operators(cut);
  const Program program = lower_without_collectives(cut);
  SplitBatch result{rank_graph(program, 0), {}};
  for (int i = 1; i < microbatches; ++i) require_alike(result.microbatch, rank_graph(program, i));
  for (const auto* ports : {&graph.inputs, &graph.outputs}) {
    for (const ValueId id : *ports) {
      const int dim = cut.dims[id];
      const graph::Value& value = graph.value(id);
      if (dim >= 0) result.ports[value.name] = {dim, value.shape[dim] / microbatches};
    }
  }
  return result;
}

}  // namespace autopar::program
