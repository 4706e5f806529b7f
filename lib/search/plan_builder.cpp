// From graph, mesh and cost model to an assignment problem.
//
// Nodes:  an operator, its strategies priced with their reductions          add_operators
//         a model input or constant, the ways in which it may lie, free     add_stored_tensors
//         a version of a tensor that several operators read: left out, the
//         tensor as it is, or made from it                                  add_versions
// Edges:  producer and only reader, priced by connect                       add_edge_to_only_reader
//         producer and version: the price of making it                      add_versions
//         version and reader: impossible where the reader needs it and
//         it is left out                                                    add_versions
//
// Time:   0 is at rest, where weights alone count; operator i runs at time i+1. Weights count
//         always, inputs and outputs of operators from when they are made to their last reader.

#include "search/plan_builder.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

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

Cost picoseconds(double seconds) { return std::llround(seconds / seconds_per_cost); }

class Builder {
 public:
  Builder(const Graph& graph, const cost::CostModel& cost, const SearchOptions& options)
      : graph_(graph),
        cost_(cost),
        options_(options),
        price_(cost.step_price()),
        horizon_(static_cast<int>(graph.nodes.size()) + 1),
        producers_(graph::producers(graph)) {
    find_readers();
  }

  PlanProblem build() && {
    check_pins();
    add_operators();
    add_stored_tensors();
    for (std::size_t id = 0; id < graph_.values.size(); ++id) add_edges(static_cast<ValueId>(id));
    set_limits();
    return std::move(built_);
  }

 private:
  struct Reader {
    NodeId node;
    std::size_t input;
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

  // Pins

  static bool matches(const Pin& pin, const std::string& name) {
    if (pin.name == name) return true;
    const bool is_glob = pin.name.find_first_of("*?[") != std::string::npos;
    return is_glob && fnmatch(pin.name.c_str(), name.c_str(), 0) == 0;
  }

  void check_pins() {
    for (const Pin& pin : options_.pins) {
      const bool names_operator = std::ranges::any_of(
          graph_.nodes, [&](const graph::Node& node) { return matches(pin, node.name); });
      names_operators_.push_back(names_operator);
      if (!names_operator && stored_pin_names(pin).empty()) {
        fail("--strategy pins '{}', but the model has no operator, input or weight of that name",
             pin.name);
      }
    }
  }

  std::vector<std::string> stored_pin_names(const Pin& pin) const {
    std::vector<std::string> names;
    for (std::size_t id = 0; id < graph_.values.size(); ++id) {
      if (producers_[id] == graph::no_node && matches(pin, graph_.values[id].name)) {
        names.push_back(graph_.values[id].name);
      }
    }
    return names;
  }

  /// The last pin that matches counts. A glob means operators where it matches any.
  const Pin* pin_of_operator(const std::string& name) const {
    const Pin* found = nullptr;
    for (const Pin& pin : options_.pins) {
      if (matches(pin, name)) found = &pin;
    }
    return found;
  }

  const Pin* pin_of_stored(const std::string& name) const {
    const Pin* found = nullptr;
    for (std::size_t i = 0; i < options_.pins.size(); ++i) {
      const Pin& pin = options_.pins[i];
      const bool is_for_it = pin.name == name || (!names_operators_[i] && matches(pin, name));
      if (is_for_it) found = &pin;
    }
    return found;
  }

  void apply_pin(const Pin& pin, const std::string& name, std::vector<OpShardSpec>& choices) const {
    std::vector<OpShardSpec> allowed;
    for (const OpShardSpec& choice : choices) {
      if ((!pin.inputs || *pin.inputs == choice.inputs) &&
          (!pin.outputs || *pin.outputs == choice.outputs) &&
          (!pin.reductions || *pin.reductions == choice.reductions)) {
        allowed.push_back(choice);
      }
    }
    if (allowed.empty()) {
      std::string possible;
      for (std::size_t i = 0; i < choices.size() && i < 8; ++i) {
        possible += (i == 0 ? "" : "; ") + to_string(choices[i]);
      }
      fail("--strategy pins operator '{}' to {}, which it cannot take on mesh {}: possible are {}",
           name, describe(pin), to_string(cost_.mesh()), possible);
    }
    choices = std::move(allowed);
  }

  static std::string describe(const Pin& pin) {
    const auto join = [](const auto& list, auto text) {
      std::string result;
      for (const auto& item : list) result += (result.empty() ? "" : ",") + std::string(text(item));
      return result;
    };
    const auto spec_text = [](const TensorShardSpec& spec) { return to_string(spec); };
    std::string text;
    if (pin.inputs) text += "inputs " + join(*pin.inputs, spec_text) + " ";
    if (pin.outputs) text += "outputs " + join(*pin.outputs, spec_text) + " ";
    if (pin.reductions) {
      text += "reductions " +
              join(*pin.reductions, [](sharding::ReduceFunction f) { return name_of(f); }) + " ";
    }
    if (!text.empty()) text.pop_back();
    return text;
  }

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

  void add_operators() {
    for (std::size_t id = 0; id < graph_.nodes.size(); ++id) {
      const graph::Node& node = graph_.nodes[id];
      auto rule = sharding::sharding_rule(graph_, node);
      if (!rule) {
        built_.operators_without_rule.push_back(qualified_op_type(node));
        rule = sharding::replicated_rule(graph_, node);
      }
      auto choices = sharding::enumerate_op_shard_specs(*rule, cost_.mesh(),
                                                        sharding::input_shapes(graph_, node),
                                                        sharding::output_shapes(graph_, node));
      if (const Pin* pin = pin_of_operator(node.name)) apply_pin(*pin, node.name, choices);

      int last = static_cast<int>(id) + 1;
      for (const ValueId output : node.outputs) {
        if (output != graph::no_value) last = std::max(last, last_use_[index(output)]);
      }
      const int added = add_node(static_cast<int>(id) + 1, last + 1);
      for (const OpShardSpec& choice : choices) {
        const double seconds = cost_.operator_seconds(graph_, node, *rule, choice) +
                               cost_.reduction_seconds(graph_, node, choice);
        add_strategy(added, picoseconds(seconds), output_bytes(node, choice));
      }
      built_.operators.push_back(std::move(choices));
    }
  }

  /// What a strategy leaves in memory, the partial values that it reduces included.
  std::int64_t output_bytes(const graph::Node& node, const OpShardSpec& choice) const {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == graph::no_value) continue;
      const Value& value = graph_.value(node.outputs[i]);
      bytes += local_bytes(value, choice.outputs[i]);
      if (choice.reductions[i] != sharding::ReduceFunction::none) {
        bytes += local_bytes(value, choice.computed[i]);
      }
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
        add_strategy(stored.node, 0, local_bytes(value, spec));
      }
      if (is_weight) {
        const auto least = std::ranges::min(built_.problem.nodes.back().usages);
        const std::int64_t bytes = bytes_of(value.type, graph::num_elements(value.shape));
        fair_limit_ += std::max<std::int64_t>(bytes * 5 / 4 / cost_.mesh().num_devices(), least);
      }
      built_.stored.emplace(value_id, std::move(stored));
    }
  }

  std::vector<TensorShardSpec> stored_specs(const Value& value) const {
    const TensorShardSpec whole = TensorShardSpec::replicated(value.shape.size());
    const std::int64_t bytes = bytes_of(value.type, graph::num_elements(value.shape));
    const bool packed = bits_of(value.type) % 8 != 0;
    const Pin* pin = pin_of_stored(value.name);
    if (!pin || !pin->outputs) {
      if (packed || (value.constant && bytes < smallest_split_bytes)) return {whole};
      return sharding::enumerate_tensor_shard_specs(value.shape, cost_.mesh());
    }
    const auto possible = packed
                              ? std::vector<TensorShardSpec>{whole}
                              : sharding::enumerate_tensor_shard_specs(value.shape, cost_.mesh());
    if (pin->outputs->size() != 1 ||
        std::ranges::find(possible, pin->outputs->front()) == possible.end()) {
      std::string texts;
      for (const TensorShardSpec& spec : possible) texts += " " + to_string(spec);
      fail("--strategy pins tensor '{}' to {}, but on mesh {} it can only be{}", value.name,
           describe(*pin), to_string(cost_.mesh()), texts);
    }
    return {pin->outputs->front()};
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
    if (readers.size() == 1) {
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
    std::set<TensorShardSpec> versions;
    for (const Reader& reader : readers) {
      for (const TensorShardSpec& spec : specs_read(reader)) versions.insert(spec);
    }
    for (const TensorShardSpec& version : versions) {
      const int node = add_node(std::max(1, built_.problem.nodes[index(producer)].first),
                                last_use_[index(value)] + 1);
      add_strategy(node, 0, 0);
      add_strategy(node, 0, 0);
      add_strategy(node, 0, local_bytes(graph_.value(value), version));

      AssignmentProblem::Edge making{producer, node, {}};
      for (const TensorShardSpec& from : made) {
        const bool same = from == version;
        making.costs.push_back(0);
        making.costs.push_back(same ? 0 : impossible);
        making.costs.push_back(same ? impossible : connect_cost(value, from, version));
      }
      add_edge(std::move(making));

      for (const Reader& reader : readers) {
        const std::vector<TensorShardSpec> read = specs_read(reader);
        if (std::ranges::find(read, version) == read.end()) continue;
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
          sharding::connect(from, to, value.shape, value.type, cost_.mesh(), price_).seconds);
    }
    return entry->second;
  }

  void set_limits() {
    const std::int64_t capacity = cost_.device().memory_bytes;
    std::vector<std::int64_t>& limits = built_.problem.usage_limits;
    switch (options_.memory.kind) {
      case MemoryPolicy::Kind::fair:
        limits.assign(index(horizon_), capacity);
        limits[0] = std::min(fair_limit_, capacity);
        break;
      case MemoryPolicy::Kind::device:
        limits.assign(index(horizon_), capacity);
        break;
      case MemoryPolicy::Kind::bytes:
        limits.assign(index(horizon_), options_.memory.bytes);
        break;
    }
  }

  const Graph& graph_;
  const cost::CostModel& cost_;
  const SearchOptions& options_;
  sharding::StepPrice price_;
  int horizon_;  ///< one past the last time
  std::vector<NodeId> producers_;
  std::vector<bool> names_operators_;  ///< by pin
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
