// From graph, mesh and cost model to an assignment problem, in the way of Alpa (OSDI 22, section
// 4.2) with the memory of every time as a limit.
//
// Nodes:  an operator, its strategies priced with their reductions          add_operators
//         a model input or constant, the specs in which it may be stored,
//         free; one from another mesh, those in which it can be received    add_stored_tensors
//         the specs in which a tensor with several readers lies, a set, and
//         where memory matters which of them is as the tensor was made      add_sets
//         the memory of such a set at some times, or of the sums that an
//         operator reduces, where large                                     add_usage
//         the memory of each version by itself where there are too many
//         sets for that: it is the tensor as it was made, or left out, or a
//         copy                                                              add_each_version
// Edges:  producer and only reader, priced by connect                       connect_readers
//         producer and set: the price of making what the set has more       add_sets
//         set and reader: impossible where the set lacks what is read       add_sets
//         a node and its memory                                             add_usage
//         versions and producer, and set, or readers                        add_each_version
//         an output and the input that it follows in the next step          add_state
//
// Time:   0 is at rest, where weights alone count; operator i runs at time i+1. Weights count
//         always, inputs and outputs of operators from when they are made to their last reader,
//         copies between the operators that may read them. Values of one step alone (a sum before
//         its reduction, the only reader's copy) count where they are large. The bytes that packing
//         an arena wastes are left out; program::predict_peak_bytes counts them.

#include "search/plan_builder.h"

#include <algorithm>
#include <compare>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "graph/loop_body.h"
#include "graph/state.h"
#include "search/cost_tables.h"
#include "search/problem_parts.h"
#include "sharding/cross_mesh.h"

namespace autopar::search {

namespace {

using assignment::AssignmentProblem;
using assignment::Cost;
using assignment::impossible;
using graph::Graph;
using graph::NodeId;
using graph::Value;
using graph::ValueId;
using sharding::OpShardSpec;
using sharding::TensorShardSpec;

constexpr int no_hub = -1;

/// A search may be repeated with a lower limit, of at least this part of the one it was asked for.
constexpr std::int64_t lowest_limit_share = 2;

/// Smaller constants (and inputs) are not worth a choice: every rank has them whole.
constexpr std::int64_t smallest_split_bytes = 1024;

/// A value of one step alone is worth a node of the problem from this part of the limit on.
constexpr std::int64_t smallest_counted_share = 64;

/// A tensor that may be had in several versions, one for each spec in which it is read.
struct VersionedTensor {
  /// The memory of a version that is not as the tensor was made: bytes at times [first, end).
  struct Copy {
    int first;
    int end;
    std::int64_t bytes;
    auto operator<=>(const Copy&) const = default;
  };
  const Value& value;
  const std::vector<GraphUses::Reader>& readers;
  int producer;                         ///< the problem's node
  const SpecList* made;                 ///< by the producer's strategy
  std::vector<const SpecList*> read{};  ///< by reader and its strategy
  SpecList specs{};
  std::vector<Copy> copies{};  ///< by spec
};
using Copy = VersionedTensor::Copy;

std::int64_t whole_bytes(const Value& value) {
  return bytes_of(value.type, graph::num_elements(value.shape));
}

bool is_worth_counting(std::int64_t bytes, std::int64_t limit) {
  return bytes > limit / smallest_counted_share;
}

SpecList stored_specs(const Value& value, const sharding::DeviceMesh& mesh, const Pins& pins) {
  const bool is_packed = bits_of(value.type) % 8 != 0;
  const bool is_small = value.constant && whole_bytes(value) < smallest_split_bytes;
  SpecList whole{TensorShardSpec::replicated(value.shape.size())};
  if (is_packed) return pins.allowed(value.name, std::move(whole));
  auto all = sharding::enumerate_tensor_shard_specs(value.shape, mesh);
  auto allowed = pins.allowed(value.name, all);
  return is_small && allowed == all ? whole : allowed;
}

/// Throws the problems with the pins, all at once: of each the first operator that refuses it.
void check_pins(const Graph& graph, const sharding::DeviceMesh& mesh, const GraphUses& uses,
                const Pins& pins, StrategyTable& strategies, Problems& problems) {
  std::set<const Pin*> refused;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const Pin* pin = pins.pin_of(graph.nodes[id].name);
    if (pin == nullptr || refused.contains(pin)) continue;
    const bool is_possible = problems.collect([&] { strategies.of(static_cast<NodeId>(id)); });
    if (!is_possible) refused.insert(pin);
  }
  for (std::size_t id = 0; id < graph.values.size(); ++id)
    if (uses.producers[id] == graph::no_node)
      problems.collect([&] { stored_specs(graph.values[id], mesh, pins); });
  problems.throw_if_any();
}

std::string described_loop(const Graph& graph, const graph::Node& loop) {
  const graph::ExpectedRounds expected = graph::expected_rounds(graph, loop);
  return expected.is_known
             ? fmt::format("Loop '{}' of up to {} rounds", loop.name, expected.rounds)
             : fmt::format("Loop '{}', whose rounds the run alone counts, priced at {},", loop.name,
                           expected.rounds);
}

void add_operators(const Graph& graph, const GraphUses& uses, StrategyTable& strategies,
                   PlanProblem& built) {
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const graph::Node& node = graph.nodes[id];
    const auto& own = built.operators.emplace_back(strategies.of(static_cast<NodeId>(id)));
    if (!own->has_rule) {
      built.operators_without_rule.push_back(node.body ? described_loop(graph, node)
                                                       : qualified_op_type(node));
    }
    int last = static_cast<int>(id) + 1;
    for (const ValueId output : node.outputs) {
      if (output != graph::no_value) last = std::max(last, uses.last_use[output]);
    }
    add_node(built.problem, static_cast<int>(id) + 1, last + 1, own->output_bytes, own->costs);
  }
}

/// Adds the memory within an operator's own step: of partial values that are reduced at once, and
/// of those between the parts that it is decomposed into.
void add_inner_values(std::int64_t limit, PlanProblem& built) {
  for (std::size_t id = 0; id < built.operators.size(); ++id) {
    const std::vector<std::int64_t>& bytes = built.operators[id]->inner_bytes;
    const auto op = static_cast<int>(id);
    if (is_worth_counting(std::ranges::max(bytes), limit))
      add_usage(built.problem, op, op + 1, op + 2, bytes);
  }
}

/// Returns the bytes of weights that a rank may have under MemoryPolicy::Kind::fair.
std::int64_t add_stored_tensors(const Graph& graph, const cost::CostModel& cost,
                                const GraphUses& uses, const Pins& pins,
                                const std::set<ValueId>& received, PlanProblem& built) {
  const sharding::DeviceMesh& mesh = cost.mesh();
  std::int64_t fair_limit = 0;
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const auto value_id = static_cast<ValueId>(id);
    if (uses.producers[id] != graph::no_node) continue;
    const Value& value = graph.value(value_id);
    const bool is_weight = value.constant.has_value();
    PlanProblem::Stored stored;
    stored.specs = received.contains(value_id) ? sharding::receive_specs(value.shape, mesh)
                                               : stored_specs(value, mesh, pins);
    std::vector<std::int64_t> usages;
    for (const TensorShardSpec& spec : stored.specs) {
      const graph::Shape local = largest_local_shape(spec, value.shape, mesh);
      usages.push_back(is_weight ? bytes_of(value.type, graph::num_elements(local))
                                 : arena_bytes(value, spec, cost));
    }
    if (is_weight)
      fair_limit += fair_share(whole_bytes(value), mesh.num_devices(), std::ranges::min(usages));
    stored.node = add_node(built.problem, is_weight ? 0 : 1,
                           is_weight ? uses.horizon : uses.last_use[id] + 1, std::move(usages));
    built.stored.emplace(value_id, std::move(stored));
  }
  return fair_limit;
}

/// The problem's node that a value comes from, and the value's spec by that node's strategy.
std::pair<int, const SpecList*> source_of(const Graph& graph, const GraphUses& uses, ValueId id,
                                          const PlanProblem& built, CostTables& tables) {
  const NodeId producer = uses.producers[id];
  if (producer == graph::no_node) {
    const PlanProblem::Stored& stored = built.stored.at(id);
    return {stored.node, tables.shared(stored.specs)};
  }
  const auto& outputs = graph.node(producer).outputs;
  const auto output = std::ranges::find(outputs, id) - outputs.begin();
  return {producer, tables.specs(*built.operators[producer], static_cast<std::size_t>(output),
                                 &OpShardSpec::outputs)};
}

void find_copies(const cost::CostModel& cost, int horizon, VersionedTensor& tensor) {
  tensor.specs = specs_read(tensor.read);
  for (const TensorShardSpec& spec : tensor.specs) {
    // Alive from the first operator that may read the version to behind the last one.
    Copy copy{horizon, 0, arena_bytes(tensor.value, spec, cost)};
    for (std::size_t k = 0; k < tensor.read.size(); ++k) {
      const SpecList& list = *tensor.read[k];
      if (std::ranges::find(list, spec) == list.end()) continue;
      const NodeId reader = tensor.readers[k].node;
      copy.first = std::min(copy.first, reader + 1);
      copy.end = std::max(copy.end, reader + 2);
    }
    tensor.copies.push_back(copy);
  }
}

/// Adds an edge for each value of one reader, and returns those of several. A large weight that is
/// stored in pieces and gathered for its only reader is among these: its copy counts.
std::vector<VersionedTensor> connect_readers(const Graph& graph, const cost::CostModel& cost,
                                             const GraphUses& uses, std::int64_t limit,
                                             CostTables& tables, PlanProblem& built) {
  std::vector<VersionedTensor> versioned;
  for (std::size_t v = 0; v < graph.values.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    if (uses.readers[v].empty()) continue;
    const auto [producer, made] = source_of(graph, uses, id, built, tables);
    VersionedTensor tensor{graph.value(id), uses.readers[v], producer, made};
    for (const auto& [reader, input] : tensor.readers)
      tensor.read.push_back(tables.specs(*built.operators[reader], input, &OpShardSpec::inputs));
    if (tensor.read.size() == 1 && !is_worth_counting(whole_bytes(tensor.value), limit)) {
      add_edge(built.problem, producer, tensor.readers.front().node,
               tables.connecting(tensor.value, made, tensor.read.front()));
    } else {
      find_copies(cost, uses.horizon, tensor);
      versioned.push_back(std::move(tensor));
    }
  }
  return versioned;
}

/// Copies' kinds as numbers, the same for tensors whose copies differ in the same way.
std::vector<int> kinds_of(const std::vector<Copy>& copies) {
  const std::set<Copy> distinct(copies.begin(), copies.end());
  std::vector<int> kinds;
  for (const Copy& copy : copies) {
    kinds.push_back(static_cast<int>(std::distance(distinct.begin(), distinct.find(copy))));
  }
  return kinds;
}

/// By time, how many times before it may exceed their limit.
std::vector<int> full_times_before(const AssignmentProblem& problem,
                                   const std::vector<VersionedTensor>& tensors) {
  const auto horizon = static_cast<int>(problem.usage_limits.size());
  std::vector<assignment::WideCost> most(horizon + 1, 0);  // changes from time to time
  const auto add = [&](int first, int end, std::int64_t bytes) {
    most[first] += bytes;
    most[end] -= bytes;
  };
  for (const auto& node : problem.nodes) add(node.first, node.end, std::ranges::max(node.usages));
  for (const VersionedTensor& tensor : tensors) {
    for (const Copy& copy : tensor.copies) add(copy.first, copy.end, copy.bytes);
  }
  std::inclusive_scan(most.begin(), most.end(), most.begin());
  std::vector<int> full_before(horizon + 1, 0);
  for (int t = 0; t < horizon; ++t) {
    const bool is_full = most[t] > problem.usage_limits[t] / lowest_limit_share;
    full_before[t + 1] = full_before[t] + (is_full ? 1 : 0);
  }
  return full_before;
}

/// Returns the node that chooses among the sets.
int add_sets(const VersionedTensor& tensor, const TensorVersions& versions, CostTables& tables,
             AssignmentProblem& problem) {
  const int hub = add_node(problem, 0, 0, std::vector<std::int64_t>(versions.sets.size(), 0));
  add_edge(problem, tensor.producer, hub, tables.making(tensor.value, tensor.made, versions));
  for (std::size_t k = 0; k < tensor.read.size(); ++k)
    add_edge(problem, hub, tensor.readers[k].node, tables.reading(versions, tensor.read[k]));
  return hub;
}

/// Adds the memory of a set's copies, at times that several versions may share.
void add_copies(const VersionedTensor& tensor, const TensorVersions& versions, int hub,
                AssignmentProblem& problem) {
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
    AssignmentProblem::Node& node = problem.nodes[hub];
    std::tie(node.first, node.end) = times;
    node.usages = bytes;
    return;
  }
  for (const auto& [times, bytes] : usages)
    add_usage(problem, hub, times.first, times.second, bytes);
}

/// Where there are too many sets, a node for each version with its memory. Without a hub it has the
/// version's price, too.
void add_each_version(const VersionedTensor& tensor, const TensorVersions& versions, int hub,
                      CostTables& tables, AssignmentProblem& problem) {
  for (std::size_t v = 0; v < tensor.specs.size(); ++v) {
    // As the tensor was made, left out, or a copy.
    const auto& [first, end, bytes] = tensor.copies[v];
    const int copy = add_node(problem, first, end, {0, 0, bytes});
    const TensorShardSpec& to = tensor.specs[v];
    std::vector<Cost> making;
    for (const TensorShardSpec& from : *tensor.made) {
      const Cost price = hub == no_hub ? tables.connect_cost(tensor.value, from, to) : 0;
      making.insert(making.end(), {from == to ? 0 : impossible, 0, price});
    }
    add_edge(problem, tensor.producer, copy, std::move(making));
    if (hub != no_hub) {
      std::vector<Cost> having;
      for (std::size_t set = 0; set < versions.sets.size(); ++set) {
        having.insert(having.end(), {0, versions.is_in(v, set) ? impossible : 0, 0});
      }
      add_edge(problem, hub, copy, std::move(having));
      continue;
    }
    for (std::size_t k = 0; k < tensor.read.size(); ++k) {
      std::vector<Cost> reading;
      for (const TensorShardSpec& spec : *tensor.read[k]) {
        reading.insert(reading.end(), {0, spec == to ? impossible : 0, 0});
      }
      add_edge(problem, tensor.readers[k].node, copy, std::move(reading));
    }
  }
}

/// Adds the nodes and edges that choose each tensor's versions. Copies are counted where the most
/// that may be alive at some time exceeds the limits, which must be set.
void add_versions(const std::vector<VersionedTensor>& tensors, CostTables& tables,
                  AssignmentProblem& problem) {
  const std::vector<int> full_before = full_times_before(problem, tensors);
  for (const VersionedTensor& tensor : tensors) {
    const bool may_matter =
        full_before[tensor.readers.front().node + 1] < full_before[tensor.readers.back().node + 2];
    const TensorVersions& counted =
        tables.versions(tensor.read, may_matter ? kinds_of(tensor.copies) : std::vector<int>{});
    if (!counted.sets.empty()) {
      const int hub = add_sets(tensor, counted, tables, problem);
      if (may_matter) add_copies(tensor, counted, hub, problem);
      continue;
    }
    const TensorVersions& versions = tables.versions(tensor.read, {});
    const int hub = versions.sets.empty() ? no_hub : add_sets(tensor, versions, tables, problem);
    if (hub == no_hub || may_matter) add_each_version(tensor, versions, hub, tables, problem);
  }
}

/// Each rank's shard of the output follows its shard of the input: both have one spec, which does
/// not split the dimension in which the output is longer.
void add_state(const Graph& graph, const GraphUses& uses, const graph::State& state,
               CostTables& tables, PlanProblem& built) {
  const ValueId output = graph.outputs[state.output];
  const ValueId input = graph.inputs[state.input];
  if (output == input) return;
  const auto [producer, made] = source_of(graph, uses, output, built, tables);
  const auto [follower, stored] = source_of(graph, uses, input, built, tables);
  const auto growth = graph::growth_of(graph.value(output).name, graph.value(output).shape,
                                       graph.value(input).name, graph.value(input).shape);
  std::vector<Cost> table;
  for (const TensorShardSpec& from : *made)
    for (const TensorShardSpec& to : *stored) {
      const bool fits = from == to && (!growth || from.dims[growth->dim].empty());
      table.push_back(fits ? 0 : impossible);
    }
  add_edge(built.problem, producer, follower, std::move(table));
}

}  // namespace

PlanProblem build_plan_problem(const Graph& graph, const cost::CostModel& cost,
                               const SearchOptions& options, std::span<const ValueId> received) {
  Problems problems;
  const Pins pins(options.pins, graph, &problems);
  StrategyTable strategies(graph, cost, pins, options.keep_partial);
  const GraphUses uses = find_uses(graph, cost);
  check_pins(graph, cost.mesh(), uses, pins, strategies, problems);

  const std::int64_t limit = limit_of(options.memory, cost.device());
  PlanProblem built;
  CostTables tables(cost);
  add_operators(graph, uses, strategies, built);
  add_inner_values(limit, built);
  const std::int64_t fair_limit = add_stored_tensors(
      graph, cost, uses, pins, std::set<ValueId>(received.begin(), received.end()), built);
  const std::vector<VersionedTensor> versioned =
      connect_readers(graph, cost, uses, limit, tables, built);
  for (const graph::State& state : graph.states) add_state(graph, uses, state, tables, built);
  built.problem.usage_limits.assign(uses.horizon, limit);
  if (options.memory.kind == MemoryPolicy::Kind::fair)
    built.problem.usage_limits.front() = std::min(fair_limit, limit);
  add_versions(versioned, tables, built.problem);
  return built;
}

plan::Plan decode(const PlanProblem& built, const std::vector<int>& choice,
                  const cost::CostModel& cost) {
  plan::Plan plan;
  plan.mesh = cost.mesh();
  plan.device = cost.device().name;
  for (std::size_t id = 0; id < built.operators.size(); ++id)
    plan.operators.push_back(built.operators[id]->choices[choice[id]]);
  for (const auto& [value, stored] : built.stored)
    plan.stored.emplace(value, stored.specs[choice[stored.node]]);
  return plan;
}

}  // namespace autopar::search
