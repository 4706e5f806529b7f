// From graph, mesh and cost model to an assignment problem.
//
// Nodes:  an operator, its strategies priced with their reductions          add_operators
//         a model input or constant, the ways in which it may lie, free     add_stored_tensors
//         a version of a tensor that several operators read: left out, the
//         tensor as it is, or made from it                                  add_versions
//         the sums that an operator reduces, where large add_sums_before_reduction
// Edges:  producer and only reader, priced by connect                       add_edge_to_only_reader
//         producer and version: the price of making it                      add_versions
//         version and reader: impossible where the reader needs it and
//         it is left out                                                    add_versions
//         operator and the sums that it reduces add_sums_before_reduction
//
// Time:   0 is at rest, where weights alone count; operator i runs at time i+1. Weights count
//         always, inputs and outputs of operators from when they are made to their last reader,
//         versions between the operators that may read them. What lives within one step (a sum
//         before its reduction, the only reader's version) counts where it is large. What packing
//         wastes is left out: SearchOptions::peak_bytes knows.

#include "search/plan_builder.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "graph/arena.h"
#include "graph/error.h"
#include "sharding/connect.h"

namespace autopar::search {

namespace {

using graph::Graph;
using graph::NodeId;
using graph::Shape;
using graph::Value;
using graph::ValueId;
using sharding::OpShardSpec;
using sharding::TensorShardSpec;

/// Smaller constants (and inputs) are not worth a choice: every rank has them whole.
constexpr std::int64_t smallest_split_bytes = 1024;

/// What lives within a step is worth a node of the problem from this part of the limit on.
constexpr std::int64_t smallest_counted_share = 64;

/// Sums of costs stay inside 64 bits.
constexpr double most_seconds = 1e4;

Cost picoseconds(double seconds, std::string_view of) {
  if (!(seconds <= most_seconds)) {
    fail(
        "{} is predicted to take {:.3g} s: the rates of the device, or the shapes, are not "
        "plausible",
        of, seconds);
  }
  return std::llround(seconds / seconds_per_cost);
}

std::int64_t whole_bytes(const Value& value) {
  return bytes_of(value.type, graph::num_elements(value.shape));
}

class Builder {
 public:
  Builder(const Graph& graph, const cost::CostModel& cost, const SearchOptions& options)
      : graph_(graph),
        cost_(cost),
        memory_(options.memory),
        pins_(options.pins, graph),
        price_(cost.step_price()),
        horizon_(static_cast<int>(graph.nodes.size()) + 1),
        producers_(graph::producers(graph)) {
    find_readers();
  }

  PlanProblem build() && {
    add_operators();
    for (std::size_t id = 0; id < graph_.nodes.size(); ++id) {
      add_sums_before_reduction(static_cast<NodeId>(id));
    }
    add_stored_tensors();
    for (std::size_t id = 0; id < graph_.values.size(); ++id) add_edges(static_cast<ValueId>(id));
    set_limits();
    return std::move(built_);
  }

 private:
  struct Reader {
    NodeId node;
    std::size_t input;
    friend bool operator==(const Reader&, const Reader&) = default;
  };

  void find_readers() {
    readers_.resize(graph_.values.size());
    last_use_.assign(graph_.values.size(), 0);
    for (std::size_t id = 0; id < graph_.nodes.size(); ++id) {
      const auto& inputs = graph_.nodes[id].inputs;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] == graph::no_value) continue;
        readers_[index(inputs[i])].push_back({static_cast<NodeId>(id), i});
        last_use_[index(inputs[i])] = static_cast<int>(id) + 1;
      }
    }
    for (const ValueId output : graph_.outputs) last_use_[index(output)] = horizon_ - 1;
  }

  static std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }

  // Nodes

  int add_node(int first, int end) {
    AssignmentProblem::Node node;
    node.first = first;
    node.end = end;
    built_.problem.nodes.push_back(std::move(node));
    return static_cast<int>(built_.problem.nodes.size()) - 1;
  }

  void add_strategy(int node, Cost cost, std::int64_t usage) {
    auto& entry = built_.problem.nodes[index(node)];
    entry.costs.push_back(cost);
    entry.usages.push_back(usage);
  }

  std::int64_t local_bytes(const Value& value, const TensorShardSpec& spec) const {
    return bytes_of(value.type, graph::num_elements(sharding::largest_local_shape(spec, value.shape,
                                                                                  cost_.mesh())));
  }

  std::int64_t arena_bytes(const Value& value, const TensorShardSpec& spec) const {
    return graph::with_arena_slack(local_bytes(value, spec));
  }

  void add_operators() {
    for (std::size_t id = 0; id < graph_.nodes.size(); ++id) {
      const graph::Node& node = graph_.nodes[id];
      auto rule = sharding::sharding_rule(graph_, node);
      if (!rule) {
        built_.operators_without_rule.push_back(qualified_op_type(node));
        rule = sharding::replicated_rule(graph_, node);
      }
      auto choices =
          pins_.allowed(node.name, sharding::enumerate_op_shard_specs(
                                       *rule, cost_.mesh(), sharding::input_shapes(graph_, node),
                                       sharding::output_shapes(graph_, node)));

      int last = static_cast<int>(id) + 1;
      for (const ValueId output : node.outputs) {
        if (output != graph::no_value) last = std::max(last, last_use_[index(output)]);
      }
      const int added = add_node(static_cast<int>(id) + 1, last + 1);
      for (const OpShardSpec& choice : choices) {
        const double seconds = cost_.operator_seconds(graph_, node, *rule, choice) +
                               cost_.reduction_seconds(graph_, node, choice);
        add_strategy(added, picoseconds(seconds, node.name), output_bytes(node, choice));
      }
      built_.operators.push_back(std::move(choices));
    }
  }

  /// Partial values that are reduced at once live for the operator's own step.
  void add_sums_before_reduction(NodeId op) {
    const graph::Node& node = graph_.node(op);
    const std::vector<OpShardSpec>& choices = built_.operators[index(op)];
    std::vector<std::int64_t> bytes(choices.size(), 0);
    for (std::size_t s = 0; s < choices.size(); ++s) {
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        if (choices[s].reductions[i] == sharding::ReduceFunction::none) continue;
        bytes[s] += arena_bytes(graph_.value(node.outputs[i]), choices[s].computed[i]);
      }
    }
    const std::set<std::int64_t> amounts(bytes.begin(), bytes.end());
    if (!is_worth_counting(*amounts.rbegin())) return;
    const int sums = add_node(op + 1, op + 2);
    AssignmentProblem::Edge edge{op, sums, {}};
    for (const std::int64_t amount : amounts) add_strategy(sums, 0, amount);
    for (const std::int64_t needed : bytes) {
      for (const std::int64_t amount : amounts) {
        edge.costs.push_back(needed == amount ? 0 : impossible);
      }
    }
    add_edge(std::move(edge));
  }

  /// Most of what lives within a step alone is not.
  bool is_worth_counting(std::int64_t bytes) const {
    return bytes > limit() / smallest_counted_share;
  }

  /// What a strategy leaves in memory.
  std::int64_t output_bytes(const graph::Node& node, const OpShardSpec& choice) const {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == graph::no_value) continue;
      bytes += arena_bytes(graph_.value(node.outputs[i]), choice.outputs[i]);
    }
    return bytes;
  }

  void add_stored_tensors() {
    for (std::size_t id = 0; id < graph_.values.size(); ++id) {
      const auto value_id = static_cast<ValueId>(id);
      if (producers_[id] != graph::no_node) continue;
      const Value& value = graph_.value(value_id);
      const bool is_weight = value.constant.has_value();
      PlanProblem::Stored stored;
      stored.specs = stored_specs(value);
      stored.node = is_weight ? add_node(0, horizon_) : add_node(1, last_use_[id] + 1);
      for (const TensorShardSpec& spec : stored.specs) {
        add_strategy(stored.node, 0,
                     is_weight ? local_bytes(value, spec) : arena_bytes(value, spec));
      }
      if (is_weight) {
        const auto least = std::ranges::min(built_.problem.nodes.back().usages);
        const std::int64_t bytes = whole_bytes(value);
        fair_limit_ += std::max<std::int64_t>(bytes * 5 / 4 / cost_.mesh().num_devices(), least);
      }
      built_.stored.emplace(value_id, std::move(stored));
    }
  }

  std::vector<TensorShardSpec> stored_specs(const Value& value) const {
    const std::int64_t bytes = whole_bytes(value);
    const bool is_packed = bits_of(value.type) % 8 != 0;
    const bool is_small = value.constant && bytes < smallest_split_bytes;
    std::vector<TensorShardSpec> whole{TensorShardSpec::replicated(value.shape.size())};
    if (is_packed) return pins_.allowed(value.name, std::move(whole));
    auto all = sharding::enumerate_tensor_shard_specs(value.shape, cost_.mesh());
    auto allowed = pins_.allowed(value.name, all);
    return is_small && allowed == all ? whole : allowed;
  }

  // Edges

  void add_edges(ValueId value) {
    const std::vector<Reader>& readers = readers_[index(value)];
    if (readers.empty()) return;
    std::vector<TensorShardSpec> made;  // by strategy of the producer
    int producer = 0;
    if (const NodeId node = producers_[index(value)]; node != graph::no_node) {
      producer = node;
      const auto& outputs = graph_.node(node).outputs;
      const auto output =
          static_cast<std::size_t>(std::ranges::find(outputs, value) - outputs.begin());
      for (const OpShardSpec& choice : built_.operators[index(node)]) {
        made.push_back(choice.outputs[output]);
      }
    } else {
      const PlanProblem::Stored& stored = built_.stored.at(value);
      producer = stored.node;
      made = stored.specs;
    }
    // A weight that is stored in pieces and gathered for its only reader may be worth counting.
    if (readers.size() == 1 && !is_worth_counting(whole_bytes(graph_.value(value)))) {
      add_edge_to_only_reader(value, producer, made, readers.front());
    } else {
      add_versions(value, producer, made, readers);
    }
  }

  std::vector<TensorShardSpec> specs_read(const Reader& reader) const {
    std::vector<TensorShardSpec> specs;
    for (const OpShardSpec& choice : built_.operators[index(reader.node)]) {
      specs.push_back(choice.inputs[reader.input]);
    }
    return specs;
  }

  void add_edge_to_only_reader(ValueId value, int producer,
                               const std::vector<TensorShardSpec>& made, const Reader& reader) {
    AssignmentProblem::Edge edge{producer, reader.node, {}};
    const std::vector<TensorShardSpec> read = specs_read(reader);
    for (const TensorShardSpec& from : made) {
      for (const TensorShardSpec& to : read) edge.costs.push_back(connect_cost(value, from, to));
    }
    add_edge(std::move(edge));
  }

  /// A version is left out (strategy 0), the tensor as it is (1), or made from it (2).
  void add_versions(ValueId value, int producer, const std::vector<TensorShardSpec>& made,
                    const std::vector<Reader>& readers) {
    std::map<TensorShardSpec, std::vector<Reader>> versions;  // and who may read them
    for (const Reader& reader : readers) {
      for (const TensorShardSpec& spec : specs_read(reader)) {
        auto& of_version = versions[spec];
        if (of_version.empty() || of_version.back() != reader) of_version.push_back(reader);
      }
    }
    for (const auto& [version, its_readers] : versions) {
      const int node = add_node(its_readers.front().node + 1, its_readers.back().node + 2);
      add_strategy(node, 0, 0);
      add_strategy(node, 0, 0);
      add_strategy(node, 0, arena_bytes(graph_.value(value), version));

      AssignmentProblem::Edge making{producer, node, {}};
      for (const TensorShardSpec& from : made) {
        const bool same = from == version;
        making.costs.push_back(0);
        making.costs.push_back(same ? 0 : impossible);
        making.costs.push_back(same ? impossible : connect_cost(value, from, version));
      }
      add_edge(std::move(making));

      for (const Reader& reader : its_readers) {
        const std::vector<TensorShardSpec> read = specs_read(reader);
        AssignmentProblem::Edge reading{node, reader.node, {}};
        for (const TensorShardSpec& spec : read) {
          reading.costs.push_back(spec == version ? impossible : 0);
        }
        reading.costs.resize(3 * read.size(), 0);
        add_edge(std::move(reading));
      }
    }
  }

  void add_edge(AssignmentProblem::Edge edge) {
    const bool matters = std::ranges::any_of(edge.costs, [](Cost cost) { return cost != 0; });
    if (matters) built_.problem.edges.push_back(std::move(edge));
  }

  Cost connect_cost(ValueId id, const TensorShardSpec& from, const TensorShardSpec& to) {
    if (from == to) return 0;
    const Value& value = graph_.value(id);
    const auto [entry, is_new] =
        connect_costs_.try_emplace({from, to, value.shape, value.type}, Cost{0});
    if (is_new) {
      entry->second = picoseconds(
          sharding::connect(from, to, value.shape, value.type, cost_.mesh(), price_).seconds,
          value.name);
    }
    return entry->second;
  }

  /// Of weights and activations together.
  std::int64_t limit() const {
    return memory_.kind == MemoryPolicy::Kind::bytes ? memory_.bytes : cost_.device().memory_bytes;
  }

  void set_limits() {
    std::vector<std::int64_t>& limits = built_.problem.usage_limits;
    limits.assign(index(horizon_), limit());
    if (memory_.kind == MemoryPolicy::Kind::fair) limits[0] = std::min(fair_limit_, limit());
  }

  const Graph& graph_;
  const cost::CostModel& cost_;
  const MemoryPolicy memory_;
  const Pins pins_;
  sharding::StepPrice price_;
  int horizon_;  ///< one past the last time
  std::vector<NodeId> producers_;
  std::vector<std::vector<Reader>> readers_;
  std::vector<int> last_use_;
  std::int64_t fair_limit_ = 0;
  PlanProblem built_;
  std::map<std::tuple<TensorShardSpec, TensorShardSpec, Shape, graph::DataType>, Cost>
      connect_costs_;
};

}  // namespace

PlanProblem build_plan_problem(const Graph& graph, const cost::CostModel& cost,
                               const SearchOptions& options) {
  return Builder(graph, cost, options).build();
}

}  // namespace autopar::search
