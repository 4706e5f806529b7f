// From graph, mesh and cost model to an assignment problem, in the way of Alpa (OSDI 22, section
// 4.2) with the memory of every time as a limit.
//
// Nodes:  an operator, its strategies priced with their reductions          add_operators
//         a model input or constant, the specs in which it may be stored,
//         free; one from another mesh, those in which it can be received    add_stored_tensors
//         the specs in which a tensor with several readers lies, a set, and
//         where memory matters which of them is as the tensor was made;
//         else, too, the spec from which each reader has its own copy       add_ways
//         the memory of such a set at some times, or of the sums that an
//         operator reduces, where large                                     add_usage
//         the memory of each version by itself where there are too many
//         sets for that: it is the tensor as it was made, or left out, or a
//         copy                                                              add_each_version
// Edges:  producer and only reader, priced by connect                       connect_readers
//         producer and set: the price of making what the set has more       add_ways
//         set and reader: impossible where the set lacks what is read; the
//         price of a reader's own copy                                      add_ways
//         producer and reader: the price of what that one alone may read    add_shared_ways
//         a node and its memory                                             add_usage
//         versions and producer, and set, or readers                        add_each_version
//         an output and the input that it follows in the next step          add_state
//
// Several profiles make one problem: their operators first, profile by profile, and each weight
// once; states of one name are joined by an edge (join_states).
//
// Time:   0 is at rest, where weights alone count; operator i runs at time i+1, so that each
//         profile has a run of times of its own. Weights count always, inputs and outputs of
//         operators from when they are made to their last reader, copies between the operators that
//         may read them. Values of one step alone (a sum before its reduction, the only reader's
//         copy) count where they are large. The bytes that packing an arena wastes are left out;
//         program::predict_peak_bytes counts them.

#include "search/plan_builder.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "graph/loop_body.h"
#include "graph/state.h"
#include "search/fair_limit.h"
#include "search/joined_weights.h"
#include "search/part_context.h"
#include "search/stored_ways.h"
#include "search/versioned_tensors.h"

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

/// Throws the problems with the pins, all at once: of each the first operator that refuses it.
void check_pins(PartContext& context, Problems& problems) {
  const Graph& graph = context.graph;
  std::set<const Pin*> refused;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const Pin* pin = context.pins.pin_of(graph.nodes[id].name);
    if (pin == nullptr || refused.contains(pin)) continue;
    const bool is_possible =
        problems.collect([&] { context.strategies.of(static_cast<NodeId>(id)); });
    if (!is_possible) refused.insert(pin);
  }
  for (std::size_t id = 0; id < graph.values.size(); ++id)
    if (context.uses.producers[id] == graph::no_node &&
        context.pins.pin_of_tensor(graph.values[id].name) != nullptr)
      problems.collect([&] { stored_specs(graph.values[id], context); });
  problems.throw_if_any();
}

std::string described_loop(const Graph& graph, const graph::Node& loop) {
  const graph::ExpectedRounds expected = graph::expected_rounds(graph, loop);
  return expected.is_known
             ? fmt::format("Loop '{}' of up to {} rounds", loop.name, expected.rounds)
             : fmt::format("Loop '{}', whose rounds the run alone counts, priced at {},", loop.name,
                           expected.rounds);
}

void add_operators(PartContext& context, PlanProblem& built) {
  const Graph& graph = context.graph;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const graph::Node& node = graph.nodes[id];
    const auto& own = built.operators.emplace_back(context.strategies.of(static_cast<NodeId>(id)));
    const int time = context.uses.time_of(static_cast<NodeId>(id));
    int last = time;
    for (const ValueId output : node.outputs) {
      if (output != graph::no_value) last = std::max(last, context.uses.last_use[output]);
    }
    add_node(built.problem, time, last + 1, own->output_bytes, own->costs);
  }
}

/// Those of a profile that no earlier one has: each operator of the model once.
void add_operators_without_rule(const Graph& graph, const PlanProblem::Part& part,
                                std::set<std::string>& known, PlanProblem& built) {
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const graph::Node& node = graph.nodes[id];
    if (built.operators[part.first_node + id]->has_rule || !known.insert(node.name).second)
      continue;
    built.operators_without_rule.push_back(node.body ? described_loop(graph, node)
                                                     : qualified_op_type(node));
  }
}

/// Adds the memory within an operator's own step: of partial values that are reduced at once, and
/// of those between the parts that it is decomposed into.
void add_inner_values(const PlanProblem::Part& part, std::int64_t limit, PlanProblem& built) {
  for (int op = part.first_node; op < part.end_node; ++op) {
    const std::vector<std::int64_t>& bytes = built.operators[op]->inner_bytes;
    if (is_worth_counting(std::ranges::max(bytes), limit))
      add_usage(built.problem, op, op + 1, op + 2, bytes);
  }
}

/// The stored tensors of all profiles while they are added.
struct StoredTensors {
  std::vector<std::map<ValueId, int>> weights;  ///< as join_weights numbers them
  int horizon = 0;                              ///< one past the last time
  FairLimit fair;                               ///< of each weight once
  StoredWaysTable ways;
  std::map<int, std::size_t> added{};  ///< by weight, its index in PlanProblem::stored
};

void add_stored_tensors(const PartContext& context, std::size_t part, StoredTensors& tensors,
                        PlanProblem& built) {
  const GraphUses& uses = context.uses;
  for (std::size_t id = 0; id < context.graph.values.size(); ++id) {
    const auto value_id = static_cast<ValueId>(id);
    if (uses.producers[id] != graph::no_node) continue;
    const Value& value = context.graph.value(value_id);
    const bool is_weight = value.constant.has_value();
    std::size_t index = built.stored.size();
    if (is_weight) {
      const auto [known, is_new] =
          tensors.added.try_emplace(tensors.weights[part].at(value_id), index);
      index = known->second;
    }
    built.parts[part].stored.emplace(value_id, index);
    if (index < built.stored.size()) continue;
    const auto ways = tensors.ways.of(part, value_id);
    if (is_weight) tensors.fair.add(whole_bytes(value), ways->bytes_without_pins, ways->bytes);
    const int node = add_node(built.problem, is_weight ? 0 : uses.first_time(),
                              is_weight ? tensors.horizon : uses.last_use[id] + 1, ways->bytes);
    built.stored.push_back({node, ways->specs});
  }
}

/// Each rank's shard of the output follows its shard of the input: both have one spec, which does
/// not split the dimension in which the output is longer.
void add_state(PartContext& context, std::size_t part, const graph::State& state,
               PlanProblem& built) {
  const Graph& graph = context.graph;
  const ValueId output = graph.outputs[state.output];
  const ValueId input = graph.inputs[state.input];
  if (output == input) return;
  const auto [producer, made] = source_of(context, built, part, output);
  const auto [follower, stored] = source_of(context, built, part, input);
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

/// Whether what lies so in one profile lies so in another: a dimension of two extents is not split.
bool is_shared(const TensorShardSpec& from, const graph::Shape& shape, const TensorShardSpec& to,
               const graph::Shape& other) {
  if (from != to) return false;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] != other[d] && !from.dims[d].empty()) return false;
  return true;
}

/// A state is the same tensor in all profiles, though its extents may differ: it lies one way.
void join_states(const std::deque<PartContext>& contexts, std::size_t part, PlanProblem& built) {
  const auto input_of = [](const Graph& graph, const graph::State& state) {
    return graph.inputs[state.input];
  };
  const Graph& first = contexts.front().graph;
  const Graph& other = contexts[part].graph;
  for (const graph::State& state : first.states) {
    const ValueId input = input_of(first, state);
    const auto same = std::ranges::find_if(other.states, [&](const graph::State& each) {
      return other.value(input_of(other, each)).name == first.value(input).name;
    });
    if (same == other.states.end()) continue;
    const ValueId follower = input_of(other, *same);
    const PlanProblem::Stored& from = built.stored_of(input);
    const PlanProblem::Stored& to = built.stored_of(follower, part);
    std::vector<Cost> table;
    for (const TensorShardSpec& a : from.specs)
      for (const TensorShardSpec& b : to.specs)
        table.push_back(is_shared(a, first.value(input).shape, b, other.value(follower).shape)
                            ? 0
                            : impossible);
    add_edge(built.problem, from.node, to.node, std::move(table));
  }
}

/// A graph as a part of a problem.
struct PartGraph {
  const Graph& graph;
  std::span<const ValueId> received;
  const cost::CostModel& cost;
  double weight;
  std::vector<Pin> pins;
  Neighbourhood near{};
  Symmetry symmetry{};
  Copies copies = Copies::priced;
};

/// Nodes that were added since the last call are the part's.
void mark_nodes(int part, PlanProblem& built) {
  built.part_of.resize(built.problem.nodes.size(), part);
}

PlanProblem build(std::vector<PartGraph> graphs, const SearchOptions& options,
                  CountedMemory counted) {
  Problems problems;
  std::deque<PartContext> contexts;
  PlanProblem built;
  std::vector<const Graph*> alone;
  int first_node = 0;
  for (PartGraph& each : graphs) {
    contexts.emplace_back(each.graph, each.received, each.cost, each.weight, std::move(each.pins),
                          each.near, each.symmetry, options.keep_partial, first_node, problems);
    check_pins(contexts.back(), problems);
    const int end_node = first_node + static_cast<int>(each.graph.nodes.size());
    built.parts.push_back({each.weight, first_node, end_node, {}});
    alone.push_back(&each.graph);
    first_node = end_node;
  }
  StoredTensors tensors{join_weights(alone), first_node + 1,
                        FairLimit(graphs.front().cost.mesh().num_devices()),
                        StoredWaysTable(contexts)};

  // Phase by phase: the problem's first nodes are all the operators.
  const std::int64_t capacity = limit_of(options.memory, graphs.front().cost.device());
  const std::int64_t limit =
      counted == CountedMemory::over_time ? capacity : std::numeric_limits<std::int64_t>::max();
  const std::size_t count = contexts.size();
  std::set<std::string> without_rule;
  const auto for_each_part = [&](const auto& add) {
    for (std::size_t p = 0; p < count; ++p) {
      add(p);
      mark_nodes(static_cast<int>(p), built);
    }
  };
  for_each_part([&](std::size_t p) { add_operators(contexts[p], built); });
  for (std::size_t p = 0; p < count; ++p)
    add_operators_without_rule(contexts[p].graph, built.parts[p], without_rule, built);
  for_each_part([&](std::size_t p) { add_inner_values(built.parts[p], limit, built); });
  for_each_part([&](std::size_t p) { add_stored_tensors(contexts[p], p, tensors, built); });
  for (const auto& [weight, index] : tensors.added)
    built.part_of[built.stored[index].node] = PlanProblem::of_all;
  std::vector<std::vector<VersionedTensor>> versioned(count);
  for_each_part(
      [&](std::size_t p) { versioned[p] = connect_readers(contexts[p], limit, p, built); });
  for (std::size_t p = 0; p < count; ++p)
    for (const graph::State& state : contexts[p].graph.states)
      add_state(contexts[p], p, state, built);
  for (std::size_t p = 1; p < count; ++p) join_states(contexts, p, built);
  built.problem.usage_limits.assign(tensors.horizon, limit);
  built.problem.usage_limits.front() = options.memory.kind == MemoryPolicy::Kind::fair
                                           ? std::min(tensors.fair.bytes(), capacity)
                                           : capacity;
  for_each_part([&](std::size_t p) {
    add_versions(versioned[p], graphs[p].copies, contexts[p].tables, built.problem);
  });
  return built;
}

}  // namespace

PlanProblem build_plan_problem(std::span<const Profile> profiles, const SearchOptions& options,
                               CountedMemory counted) {
  require(!profiles.empty(), "a search has a profile");
  std::vector<std::vector<Pin>> pins = pins_by_profile(options.pins, profiles);
  std::vector<PartGraph> graphs;
  for (std::size_t p = 0; p < profiles.size(); ++p) {
    const Profile& each = profiles[p];
    graphs.push_back({each.stage->graph, each.stage->received, *each.cost, each.weight,
                      std::move(pins[p]), each.near, each.symmetry, each.copies});
  }
  return build(std::move(graphs), options, counted);
}

PlanProblem build_plan_problem(const Graph& graph, const cost::CostModel& cost,
                               const SearchOptions& options, std::span<const ValueId> received) {
  return build({{graph, received, cost, 1, options.pins}}, options, CountedMemory::over_time);
}

plan::Plan decode(const PlanProblem& built, const std::vector<int>& choice,
                  const cost::CostModel& cost, std::size_t part) {
  const auto& [weight, first_node, end_node, stored] = built.parts[part];
  plan::Plan plan;
  plan.mesh = cost.mesh();
  plan.device = cost.device().name;
  for (int op = first_node; op < end_node; ++op)
    plan.operators.push_back(built.operators[op]->choices[choice[op]]);
  for (const auto& [value, index] : stored) {
    const PlanProblem::Stored& tensor = built.stored[index];
    plan.stored.emplace(value, tensor.specs[choice[tensor.node]]);
  }
  return plan;
}

std::vector<double> seconds_by_part(const PlanProblem& built, const std::vector<int>& choice) {
  const AssignmentProblem& problem = built.problem;
  std::vector<Cost> costs(built.parts.size(), 0);
  const auto part_of = [&](int a, int b) {
    return built.part_of[built.part_of[a] == PlanProblem::of_all ? b : a];
  };
  for (std::size_t n = 0; n < problem.nodes.size(); ++n)  // where weights lie costs nothing
    if (built.part_of[n] != PlanProblem::of_all)
      costs[built.part_of[n]] += problem.nodes[n].costs[choice[n]];
  for (const auto& edge : problem.edges)
    costs[part_of(edge.a, edge.b)] +=
        assignment::pair_cost(problem, edge, edge.a, choice[edge.a], choice[edge.b]);
  std::vector<double> seconds;
  for (std::size_t p = 0; p < costs.size(); ++p)
    seconds.push_back(in_seconds(costs[p]) / built.parts[p].weight);
  return seconds;
}

std::int64_t weight_bytes_of_others(const PlanProblem& built, const std::vector<int>& choice,
                                    std::size_t part) {
  std::set<std::size_t> own;
  for (const auto& [value, index] : built.parts[part].stored) own.insert(index);
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < built.stored.size(); ++i) {
    const int node = built.stored[i].node;
    if (built.part_of[node] == PlanProblem::of_all && !own.contains(i))
      bytes += built.problem.nodes[node].usages[choice[node]];
  }
  return bytes;
}

}  // namespace autopar::search
