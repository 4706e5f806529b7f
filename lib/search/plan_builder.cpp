// From graph, mesh and cost model to an assignment problem.
//
// Nodes:  an operator, its strategies priced with their reductions          add_operators
//         a model input or constant, the ways in which it may lie, free;
//         one from another mesh, the ways in which it may land              add_stored_tensors
//         the specs in which a tensor with several readers lies, a set, and
//         where memory matters which of them is as the tensor was made      add_sets
//         what such a set takes at some times, or the sums that an operator
//         reduces, where large                                              add_usage
//         the memory of each version by itself where there are too many
//         sets for that: it is the tensor as it was made, or left out, or a
//         copy                                                              add_each_version
// Edges:  producer and only reader, priced by connect                       add_edges
//         producer and set: the price of making what the set has more       add_sets
//         set and reader: impossible where the set lacks what is read       add_sets
//         what a node takes, and the node                                   add_usage
//         versions and producer, and set, or readers                        add_each_version
//         an output and the input that it follows in the next step          add_states
//
// Time:   0 is at rest, where weights alone count; operator i runs at time i+1. Weights count
//         always, inputs and outputs of operators from when they are made to their last reader,
//         copies between the operators that may read them. What lives within one step (a sum
//         before its reduction, the only reader's copy) counts where it is large. What packing
//         wastes is left out: program::predict_peak_bytes knows.
//
// Operators and tensors that are alike share strategies and tables of costs: a model of many layers
// is priced once a layer.

#include "search/plan_builder.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "assignment/saturating.h"
#include "base/error.h"
#include "graph/loop_body.h"
#include "graph/state.h"
#include "search/tensor_versions.h"
#include "sharding/connect.h"
#include "sharding/cross_mesh.h"

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

/// A search may be repeated with a lower limit, of at least this part of the one it was asked for.
constexpr std::int64_t lowest_limit_share = 2;

std::int64_t whole_bytes(const Value& value) {
  return bytes_of(value.type, graph::num_elements(value.shape));
}

std::size_t index(std::int32_t id) { return static_cast<std::size_t>(id); }

class Builder {
 public:
  Builder(const Graph& graph, const cost::CostModel& cost, const SearchOptions& options,
          std::span<const ValueId> received)
      : graph_(graph),
        cost_(cost),
        memory_(options.memory),
        received_(received.begin(), received.end()),
        pins_(options.pins, graph, problems_),
        strategies_(graph, cost, pins_, options.keep_partial),
        price_(cost.step_price()),
        horizon_(static_cast<int>(graph.nodes.size()) + 1),
        producers_(graph::producers(graph)) {
    find_readers();
  }

  PlanProblem build() && {
    check_pins();
    add_operators();
    for (std::size_t id = 0; id < graph_.nodes.size(); ++id)
      add_inner_values(static_cast<NodeId>(id));
    add_stored_tensors();
    for (std::size_t id = 0; id < graph_.values.size(); ++id) add_edges(static_cast<ValueId>(id));
    for (const graph::State& state : graph_.states) add_state(state);
    set_limits();
    add_versions();
    return std::move(built_);
  }

 private:
  struct Reader {
    NodeId node;
    std::size_t input;
  };
  /// Tables are shared by tensors of one kind.
  using Kind = std::pair<Shape, graph::DataType>;
  static constexpr int no_hub = -1;
  /// What a version takes that is not as the tensor was made: bytes at times [first, end).
  struct Copy {
    int first;
    int end;
    std::int64_t bytes;
    auto operator<=>(const Copy&) const = default;
  };
  /// A tensor that is had in several versions.
  struct Versions {
    ValueId value;
    int producer;                       ///< the problem's node
    const SpecList* made;               ///< by the producer's strategy
    std::vector<const SpecList*> read;  ///< by reader and its strategy
    SpecList specs;
    std::vector<Copy> copies;  ///< by spec
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
    for (const graph::State& state : graph_.states)
      last_use_[index(graph_.inputs[state.input])] = horizon_ - 1;
    for (std::size_t id = graph_.nodes.size(); id-- > 0;) keep_for_readers(graph_.nodes[id]);
  }

  /// Who reads what takes no memory of its own reads what that is made of.
  void keep_for_readers(const graph::Node& node) {
    int last = 0;
    for (const ValueId output : node.outputs)
      if (output != graph::no_value && !cost_.takes_memory(graph_.value(output)))
        last = std::max(last, last_use_[index(output)]);
    for (const ValueId input : node.inputs)
      if (input != graph::no_value)
        last_use_[index(input)] = std::max(last_use_[index(input)], last);
  }

  // Nodes

  int add_node(int first, int end) {
    assignment::AssignmentProblem::Node node;
    node.first = first;
    node.end = end;
    built_.problem.nodes.push_back(std::move(node));
    return static_cast<int>(built_.problem.nodes.size()) - 1;
  }

  void add_strategy(int node, assignment::Cost cost, std::int64_t usage) {
    auto& entry = built_.problem.nodes[index(node)];
    entry.costs.push_back(cost);
    entry.usages.push_back(usage);
  }

  std::string described_loop(const graph::Node& loop) const {
    const graph::ExpectedRounds expected = graph::expected_rounds(graph_, loop);
    return expected.is_known
               ? fmt::format("Loop '{}' of up to {} rounds", loop.name, expected.rounds)
               : fmt::format("Loop '{}', whose rounds the run alone counts, priced at {},",
                             loop.name, expected.rounds);
  }

  /// What is wrong with the pins, all at once: of each the first operator that refuses it.
  void check_pins() {
    std::set<const Pin*> refused;
    for (std::size_t id = 0; id < graph_.nodes.size(); ++id) {
      const Pin* pin = pins_.pin_of(graph_.nodes[id].name);
      if (pin == nullptr || refused.contains(pin)) continue;
      const bool is_possible = problems_.collect([&] { strategies_.of(static_cast<NodeId>(id)); });
      if (!is_possible) refused.insert(pin);
    }
    for (std::size_t id = 0; id < graph_.values.size(); ++id)
      if (producers_[id] == graph::no_node)
        problems_.collect([&] { stored_specs(graph_.values[id]); });
    problems_.throw_if_any();
  }

  void add_operators() {
    for (std::size_t id = 0; id < graph_.nodes.size(); ++id) {
      const graph::Node& node = graph_.nodes[id];
      const auto& strategies =
          built_.operators.emplace_back(strategies_.of(static_cast<NodeId>(id)));
      if (!strategies->has_rule) {
        built_.operators_without_rule.push_back(node.body ? described_loop(node)
                                                          : qualified_op_type(node));
      }
      int last = static_cast<int>(id) + 1;
      for (const ValueId output : node.outputs) {
        if (output != graph::no_value) last = std::max(last, last_use_[index(output)]);
      }
      auto& added = built_.problem.nodes[index(add_node(static_cast<int>(id) + 1, last + 1))];
      added.costs = strategies->costs;
      added.usages = strategies->output_bytes;
    }
  }

  /// What lives for the operator's own step: partial values that are reduced at once, and what lies
  /// between the operators that it is decomposed into.
  void add_inner_values(NodeId op) {
    const std::vector<std::int64_t>& bytes = built_.operators[index(op)]->inner_bytes;
    if (is_worth_counting(std::ranges::max(bytes))) add_usage(op, op + 1, op + 2, bytes);
  }

  /// What a node takes by its strategy at times [first, end), beside its own usage.
  void add_usage(int node, int first, int end, const std::vector<std::int64_t>& bytes) {
    const std::set<std::int64_t> amounts(bytes.begin(), bytes.end());
    const int usage = add_node(first, end);
    std::vector<assignment::Cost> costs;
    for (const std::int64_t amount : amounts) add_strategy(usage, 0, amount);
    for (const std::int64_t needed : bytes) {
      for (const std::int64_t amount : amounts) {
        costs.push_back(needed == amount ? 0 : assignment::impossible);
      }
    }
    add_edge(node, usage, std::move(costs));
  }

  /// Most of what lives within a step alone is not.
  bool is_worth_counting(std::int64_t bytes) const {
    return bytes > limit() / smallest_counted_share;
  }

  void add_stored_tensors() {
    for (std::size_t id = 0; id < graph_.values.size(); ++id) {
      const auto value_id = static_cast<ValueId>(id);
      if (producers_[id] != graph::no_node) continue;
      const Value& value = graph_.value(value_id);
      const bool is_weight = value.constant.has_value();
      PlanProblem::Stored stored;
      stored.specs = received_.contains(value_id)
                         ? sharding::receive_specs(value.shape, cost_.mesh())
                         : stored_specs(value);
      stored.node = is_weight ? add_node(0, horizon_) : add_node(1, last_use_[id] + 1);
      for (const TensorShardSpec& spec : stored.specs) {
        add_strategy(stored.node, 0,
                     is_weight ? bytes_of(value.type, graph::num_elements(largest_local_shape(
                                                          spec, value.shape, cost_.mesh())))
                               : arena_bytes(value, spec, cost_));
      }
      if (is_weight) {
        const auto least = std::ranges::min(built_.problem.nodes.back().usages);
        const std::int64_t bytes = whole_bytes(value);
        fair_limit_ += std::max<std::int64_t>(bytes * 5 / 4 / cost_.mesh().num_devices(), least);
      }
      built_.stored.emplace(value_id, std::move(stored));
    }
  }

  SpecList stored_specs(const Value& value) const {
    const std::int64_t bytes = whole_bytes(value);
    const bool is_packed = bits_of(value.type) % 8 != 0;
    const bool is_small = value.constant && bytes < smallest_split_bytes;
    SpecList whole{TensorShardSpec::replicated(value.shape.size())};
    if (is_packed) return pins_.allowed(value.name, std::move(whole));
    auto all = sharding::enumerate_tensor_shard_specs(value.shape, cost_.mesh());
    auto allowed = pins_.allowed(value.name, all);
    return is_small && allowed == all ? whole : allowed;
  }

  // Edges

  void add_edges(ValueId id) {
    const std::vector<Reader>& readers = readers_[index(id)];
    if (readers.empty()) return;
    const Value& value = graph_.value(id);
    const auto [producer, made] = source_of(id);
    // A weight that is stored in pieces and gathered for its only reader may be worth counting.
    if (readers.size() == 1 && !is_worth_counting(whole_bytes(value))) {
      add_edge(producer, readers.front().node,
               connecting_table(value, made, specs_read(readers.front())));
      return;
    }
    Versions tensor{id, producer, made, {}, {}, {}};
    for (const Reader& reader : readers) tensor.read.push_back(specs_read(reader));
    tensor.specs = search::specs_read(tensor.read);
    for (const TensorShardSpec& spec : tensor.specs) tensor.copies.push_back(copy_of(tensor, spec));
    tensors_.push_back(std::move(tensor));
  }

  /// Where a value comes from, the problem's node, and its spec by that node's strategy.
  std::pair<int, const SpecList*> source_of(ValueId id) {
    const NodeId producer = producers_[index(id)];
    if (producer == graph::no_node) {
      const PlanProblem::Stored& stored = built_.stored.at(id);
      return {stored.node, shared(stored.specs)};
    }
    const auto& outputs = graph_.node(producer).outputs;
    const auto output = std::ranges::find(outputs, id) - outputs.begin();
    return {producer, specs_made(producer, static_cast<std::size_t>(output))};
  }

  /// Each rank's shard of the output follows its shard of the input: both have one spec, which does
  /// not split the dimension in which the output is longer.
  void add_state(const graph::State& state) {
    const ValueId output = graph_.outputs[state.output];
    const ValueId input = graph_.inputs[state.input];
    if (output == input) return;
    const auto [producer, made] = source_of(output);
    const auto [follower, stored] = source_of(input);
    const auto growth = graph::growth_of(graph_.value(output).name, graph_.value(output).shape,
                                         graph_.value(input).name, graph_.value(input).shape);
    std::vector<assignment::Cost> table;
    for (const TensorShardSpec& from : *made)
      for (const TensorShardSpec& to : *stored) {
        const bool fits = from == to && (!growth || from.dims[index(growth->dim)].empty());
        table.push_back(fits ? 0 : assignment::impossible);
      }
    add_edge(producer, follower, std::move(table));
  }

  /// Copies decide nothing where even the most that may be alive stays within the limits.
  void add_versions() {
    const std::vector<int> full_before = full_times_before();
    for (const Versions& tensor : tensors_) {
      const std::vector<Reader>& readers = readers_[index(tensor.value)];
      const bool may_matter = full_before[index(readers.front().node) + 1] <
                              full_before[index(readers.back().node) + 2];
      const TensorVersions& counted =
          versions_of(tensor, may_matter ? kinds_of(tensor.copies) : std::vector<int>{});
      if (!counted.sets.empty()) {
        const int hub = add_sets(tensor, counted);
        if (may_matter) add_copies(tensor, counted, hub);
        continue;
      }
      const TensorVersions& versions = versions_of(tensor, {});
      const int hub = versions.sets.empty() ? no_hub : add_sets(tensor, versions);
      if (hub == no_hub || may_matter) add_each_version(tensor, versions, hub);
    }
  }

  const TensorVersions& versions_of(const Versions& tensor, const std::vector<int>& kinds) {
    const auto [entry, is_new] = versions_.try_emplace({tensor.read, kinds});
    if (is_new) entry->second = tensor_versions(tensor.read, kinds);
    return entry->second;
  }

  /// The same for tensors whose copies differ in the same way.
  static std::vector<int> kinds_of(const std::vector<Copy>& copies) {
    const std::set<Copy> distinct(copies.begin(), copies.end());
    std::vector<int> kinds;
    for (const Copy& copy : copies) {
      kinds.push_back(static_cast<int>(std::distance(distinct.begin(), distinct.find(copy))));
    }
    return kinds;
  }

  /// Returns the node that chooses among them.
  int add_sets(const Versions& tensor, const TensorVersions& versions) {
    const int hub = add_node(0, 0);
    for (std::size_t set = 0; set < versions.sets.size(); ++set) add_strategy(hub, 0, 0);
    add_edge(tensor.producer, hub, making_table(graph_.value(tensor.value), tensor.made, versions));
    for (std::size_t k = 0; k < tensor.read.size(); ++k) {
      const Reader& reader = readers_[index(tensor.value)][k];
      add_edge(hub, reader.node, reading_table(versions, tensor.read[k]));
    }
    return hub;
  }

  /// What a set's copies take, at times that several versions may share.
  void add_copies(const Versions& tensor, const TensorVersions& versions, int hub) {
    std::map<std::pair<int, int>, std::vector<std::int64_t>> usages;  // by times and set
    for (std::size_t v = 0; v < tensor.copies.size(); ++v) {
      const Copy& copy = tensor.copies[v];
      auto& bytes = usages[{copy.first, copy.end}];
      bytes.resize(versions.sets.size(), 0);
      for (std::size_t set = 0; set < bytes.size(); ++set) {
        if (versions.is_in(v, set)) bytes[set] += copy.bytes;
      }
    }
    const std::set<Copy> kinds(tensor.copies.begin(), tensor.copies.end());
    for (std::size_t set = 0; set < versions.sets.size(); ++set) {
      if (versions.sets[set].made == TensorVersions::no_kind) continue;
      const Copy& made = *std::next(kinds.begin(), versions.sets[set].made);
      usages.at({made.first, made.end})[set] -= made.bytes;
    }
    if (usages.size() == 1) {
      const auto& [times, bytes] = *usages.begin();
      auto& node = built_.problem.nodes[index(hub)];
      std::tie(node.first, node.end) = times;
      node.usages = bytes;
      return;
    }
    for (const auto& [times, bytes] : usages) add_usage(hub, times.first, times.second, bytes);
  }

  /// Where there are too many sets a node for each version, with what it takes; with its price,
  /// where there is no hub.
  void add_each_version(const Versions& tensor, const TensorVersions& versions, int hub) {
    const Value& value = graph_.value(tensor.value);
    for (std::size_t v = 0; v < tensor.specs.size(); ++v) {
      const int copy = add_node(tensor.copies[v].first, tensor.copies[v].end);
      add_strategy(copy, 0, 0);  // the tensor as it was made
      add_strategy(copy, 0, 0);  // left out
      add_strategy(copy, 0, tensor.copies[v].bytes);
      std::vector<assignment::Cost> making;
      for (const TensorShardSpec& from : *tensor.made) {
        making.push_back(from == tensor.specs[v] ? 0 : assignment::impossible);
        making.push_back(0);
        making.push_back(hub == no_hub ? connect_cost(value, from, tensor.specs[v]) : 0);
      }
      add_edge(tensor.producer, copy, std::move(making));
      if (hub != no_hub) {
        std::vector<assignment::Cost> having;
        for (std::size_t set = 0; set < versions.sets.size(); ++set) {
          having.insert(having.end(), {0, versions.is_in(v, set) ? assignment::impossible : 0, 0});
        }
        add_edge(hub, copy, std::move(having));
        continue;
      }
      for (std::size_t k = 0; k < tensor.read.size(); ++k) {
        std::vector<assignment::Cost> reading;
        for (const TensorShardSpec& spec : *tensor.read[k]) {
          reading.insert(reading.end(),
                         {0, spec == tensor.specs[v] ? assignment::impossible : 0, 0});
        }
        add_edge(readers_[index(tensor.value)][k].node, copy, std::move(reading));
      }
    }
  }

  /// Alive from the first operator that may read the version to behind the last one.
  Copy copy_of(const Versions& tensor, const TensorShardSpec& spec) const {
    Copy copy{horizon_, 0, arena_bytes(graph_.value(tensor.value), spec, cost_)};
    for (std::size_t k = 0; k < tensor.read.size(); ++k) {
      const SpecList& read = *tensor.read[k];
      if (std::ranges::find(read, spec) == read.end()) continue;
      const Reader& reader = readers_[index(tensor.value)][k];
      copy.first = std::min(copy.first, reader.node + 1);
      copy.end = std::max(copy.end, reader.node + 2);
    }
    return copy;
  }

  /// By time, how many before it may be over their limit.
  std::vector<int> full_times_before() const {
    std::vector<assignment::WideCost> most(index(horizon_) + 1, 0);  // changes from time to time
    const auto add = [&](int first, int end, std::int64_t bytes) {
      most[index(first)] += bytes;
      most[index(end)] -= bytes;
    };
    for (const auto& node : built_.problem.nodes) {
      add(node.first, node.end, std::ranges::max(node.usages));
    }
    for (const Versions& tensor : tensors_) {
      for (const Copy& copy : tensor.copies) add(copy.first, copy.end, copy.bytes);
    }
    std::inclusive_scan(most.begin(), most.end(), most.begin());
    std::vector<int> full_before(index(horizon_) + 1, 0);
    for (std::size_t t = 0; t < index(horizon_); ++t) {
      const bool is_full = most[t] > built_.problem.usage_limits[t] / lowest_limit_share;
      full_before[t + 1] = full_before[t] + (is_full ? 1 : 0);
    }
    return full_before;
  }

  void add_edge(int a, int b, assignment::CostTable costs) {
    const bool matters =
        std::ranges::any_of(costs, [](assignment::Cost cost) { return cost != 0; });
    if (matters) built_.problem.edges.push_back({a, b, std::move(costs)});
  }

  // Tables, each made once

  const SpecList* shared(SpecList specs) { return &*spec_lists_.insert(std::move(specs)).first; }

  template <typename SpecOf>
  const SpecList* shared(NodeId node, std::size_t tensor, bool is_input, SpecOf spec_of) {
    const OperatorStrategies* strategies = built_.operators[index(node)].get();
    const SpecList*& list = lists_[{strategies, tensor, is_input}];
    if (list) return list;
    SpecList specs;
    for (const OpShardSpec& choice : strategies->choices) specs.push_back(spec_of(choice));
    return list = shared(std::move(specs));
  }
  const SpecList* specs_read(const Reader& reader) {
    return shared(reader.node, reader.input, true,
                  [&](const OpShardSpec& choice) { return choice.inputs[reader.input]; });
  }
  const SpecList* specs_made(NodeId node, std::size_t output) {
    return shared(node, output, false,
                  [&](const OpShardSpec& choice) { return choice.outputs[output]; });
  }

  assignment::CostTable connecting_table(const Value& value, const SpecList* made,
                                         const SpecList* read) {
    assignment::CostTable& table = connecting_[{made, read, {value.shape, value.type}}];
    if (!table.empty()) return table;
    std::vector<assignment::Cost> costs;
    for (const TensorShardSpec& from : *made) {
      for (const TensorShardSpec& to : *read) costs.push_back(connect_cost(value, from, to));
    }
    return table = std::move(costs);
  }

  assignment::CostTable making_table(const Value& value, const SpecList* made,
                                     const TensorVersions& versions) {
    assignment::CostTable& table = making_[{made, &versions, {value.shape, value.type}}];
    if (!table.empty()) return table;
    std::vector<assignment::Cost> costs;
    for (const TensorShardSpec& from : *made) {
      std::vector<assignment::Cost> each;
      for (const TensorShardSpec& to : versions.specs) {
        each.push_back(connect_cost(value, from, to));
      }
      for (std::size_t set = 0; set < versions.sets.size(); ++set) {
        assignment::Cost sum = versions.can_make(from, set) ? 0 : assignment::impossible;
        for (std::size_t v = 0; v < each.size(); ++v) {
          if (versions.is_in(v, set)) sum = assignment::plus(sum, each[v]);
        }
        costs.push_back(sum);
      }
    }
    return table = std::move(costs);
  }

  assignment::CostTable reading_table(const TensorVersions& versions, const SpecList* read) {
    assignment::CostTable& table = reading_[{&versions, read}];
    if (!table.empty()) return table;
    std::vector<assignment::Cost> costs;
    for (std::size_t set = 0; set < versions.sets.size(); ++set) {
      for (const TensorShardSpec& spec : *read) {
        costs.push_back(versions.is_in(versions.index_of(spec), set) ? 0 : assignment::impossible);
      }
    }
    return table = std::move(costs);
  }

  assignment::Cost connect_cost(const Value& value, const TensorShardSpec& from,
                                const TensorShardSpec& to) {
    if (from == to) return 0;
    if (!can_connect(from, to)) return assignment::impossible;
    const auto [entry, is_new] = connection_seconds_.try_emplace({from, {value.shape, value.type}});
    if (is_new) {
      entry->second =
          sharding::connection_seconds(from, value.shape, value.type, cost_.mesh(), price_);
    }
    const auto found = entry->second.find(to);
    require(found != entry->second.end(), "a chain of steps leads to every spec that is read");
    return picoseconds(found->second, value.name);
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
  const std::set<ValueId> received_;
  Problems problems_;  ///< with pins
  const Pins pins_;
  StrategyTable strategies_;
  sharding::StepPrice price_;
  int horizon_;  ///< one past the last time
  std::vector<NodeId> producers_;
  std::vector<std::vector<Reader>> readers_;
  std::vector<int> last_use_;
  std::int64_t fair_limit_ = 0;
  PlanProblem built_;
  std::vector<Versions> tensors_;

  std::set<SpecList> spec_lists_;
  std::map<std::tuple<const OperatorStrategies*, std::size_t, bool>, const SpecList*> lists_;
  std::map<std::pair<std::vector<const SpecList*>, std::vector<int>>, TensorVersions> versions_;
  std::map<std::pair<TensorShardSpec, Kind>, std::map<TensorShardSpec, double>> connection_seconds_;
  std::map<std::tuple<const SpecList*, const SpecList*, Kind>, assignment::CostTable> connecting_;
  std::map<std::tuple<const SpecList*, const TensorVersions*, Kind>, assignment::CostTable> making_;
  std::map<std::pair<const TensorVersions*, const SpecList*>, assignment::CostTable> reading_;
};

}  // namespace

PlanProblem build_plan_problem(const Graph& graph, const cost::CostModel& cost,
                               const SearchOptions& options, std::span<const ValueId> received) {
  return Builder(graph, cost, options, received).build();
}

}  // namespace autopar::search
