#include "sharding/discovery/rule_proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "sharding/decomposition.h"

namespace autopar::sharding {
namespace {

using graph::Graph;
using graph::Tensor;
using graph::ValueId;

/// One tensor on every rank.
using OnRanks = std::vector<Tensor>;

/// Runs one choice on every rank of a mesh.
class ChoiceRun {
 public:
  ChoiceRun(const ShardingRule& rule, const OpShardSpec& choice, const DeviceMesh& mesh,
            const OperatorRun& run, const ShardRunner& runner)
      : rule_(rule), choice_(choice), mesh_(mesh), run_(run), runner_(runner) {}

  std::string disproof() {
    std::map<ValueId, OnRanks> values;
    const graph::Node& node = run_.node();
    std::mt19937 random(11);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != graph::no_value)
        values[node.inputs[i]] = on_ranks(whole_input(node.inputs[i]), choice_.inputs[i], random);
    }
    const std::string refusal = run_all(values);
    if (!refusal.empty()) return refusal;
    for (std::size_t o = 0; o < run_.graph.outputs.size(); ++o) {
      for (int rank = 0; rank < mesh_.num_devices(); ++rank) {
        if (!is_right(o, rank, values.at(run_.graph.outputs[o])))
          return fmt::format("output {} is wrong on rank {}", o, rank);
      }
    }
    return {};
  }

 private:
  std::string run_all(std::map<ValueId, OnRanks>& values) const {
    if (!splits_normalized(rule_, choice_.factor_axes))
      return run_operator(run_.graph, run_.node(), rule_, choice_, values);
    const Decomposition parts = decompose(run_.graph, run_.node(), rule_, choice_, mesh_);
    std::map<ValueId, OnRanks> inside;
    for (std::size_t v = 0; v < parts.graph.values.size(); ++v) {
      const auto id = static_cast<ValueId>(v);
      if (v < parts.ports.size() && values.contains(parts.ports[v])) {
        inside[id] = values.at(parts.ports[v]);
      } else if (parts.graph.is_constant(id)) {
        inside[id] = OnRanks(mesh_.num_devices(), *parts.graph.value(id).constant);
      }
    }
    for (std::size_t n = 0; n < parts.graph.nodes.size(); ++n) {
      const graph::Node& node = parts.graph.nodes[n];
      const std::string refusal = run_operator(parts.graph, node, *sharding_rule(parts.graph, node),
                                               parts.strategies[n], inside);
      if (!refusal.empty()) return fmt::format("{}: {}", node.name, refusal);
    }
    for (std::size_t p = 0; p < parts.ports.size(); ++p)
      values[parts.ports[p]] = inside.at(static_cast<ValueId>(p));
    return {};
  }

  /// Adds the node's outputs to the values; all-reduced, where the choice says so.
  std::string run_operator(const Graph& graph, const graph::Node& node, const ShardingRule& rule,
                           const OpShardSpec& choice, std::map<ValueId, OnRanks>& values) const {
    for (int rank = 0; rank < mesh_.num_devices(); ++rank) {
      const auto outputs = runner_.run(shard_of(graph, node, rule, choice, rank, values), {});
      if (!outputs) return fmt::format("rank {} is refused", rank);
      auto output = outputs->begin();
      for (const ValueId id : node.outputs) {
        if (id != graph::no_value) values[id].push_back(*output++);
      }
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      if (choice.reductions[o] == ReduceFunction::none) continue;
      OnRanks& output = values.at(node.outputs[o]);
      const OnRanks parts = output;
      for (int rank = 0; rank < mesh_.num_devices(); ++rank)
        output[rank] =
            runner_.tensor(parts.front().type(), put_together(parts, choice.computed[o], rank));
    }
    return {};
  }

  /// The rank's graph, as program::rank_graph writes it, of nothing but constants.
  Graph shard_of(const Graph& graph, const graph::Node& node, const ShardingRule& rule,
                 const OpShardSpec& choice, int rank,
                 const std::map<ValueId, OnRanks>& values) const {
    Graph shard = graph;
    shard.nodes.clear();
    shard.inputs.clear();
    shard.outputs.clear();
    for (const ValueId input : node.inputs) {
      if (input == graph::no_value) continue;
      const Tensor& share = values.at(input)[rank];
      shard.value(input).shape = share.shape();
      shard.value(input).constant = share.contiguous_copy();
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] == graph::no_value) continue;
      shard.outputs.push_back(node.outputs[o]);
      shard.value(node.outputs[o]).shape =
          local_shape(choice.computed[o], graph.value(node.outputs[o]).shape, mesh_, rank);
    }
    append_local({shard, rule, node, factor_ranges(rule, choice.factor_axes, mesh_, rank)});
    return shard;
  }

  const Tensor& whole_input(ValueId id) const {
    const auto input = std::ranges::find(run_.graph.inputs, id);
    return input == run_.graph.inputs.end() ? *run_.graph.value(id).constant
                                            : run_.inputs[input - run_.graph.inputs.begin()];
  }

  /// Each rank's share. Partial inputs become random parts that sum to the whole.
  OnRanks on_ranks(const Tensor& whole, const TensorShardSpec& spec, std::mt19937& random) const {
    std::vector<Tensor> parts;
    const int count = mesh_.group_size(spec.partial);
    if (count == 1) {
      parts.push_back(whole);
    } else {
      Numbers rest = runner_.numbers(whole);
      for (int part = 1; part < count; ++part) {
        parts.push_back(runner_.random(whole.type(), rest.shape, -2, 2, random));
        const Numbers taken = runner_.numbers(parts.back());
        for (std::size_t n = 0; n < taken.values.size(); ++n) rest.values[n] -= taken.values[n];
      }
      parts.push_back(runner_.tensor(whole.type(), rest));
    }
    OnRanks shares;
    for (int rank = 0; rank < mesh_.num_devices(); ++rank) {
      const Tensor& part = parts[mesh_.index_in_group(rank, spec.partial)];
      shares.push_back(part.slice(local_ranges(spec, whole.shape(), mesh_, rank)));
    }
    return shares;
  }

  /// What the rank has once partial values are reduced.
  Numbers put_together(const OnRanks& tensors, const TensorShardSpec& spec, int rank) const {
    std::vector<Numbers> parts;
    for (const int member : mesh_.group(rank, spec.partial))
      parts.push_back(runner_.numbers(tensors[member]));
    return reduced(parts, spec.reduce);
  }

  bool is_right(std::size_t output, int rank, const OnRanks& found) const {
    const ValueId id = run_.graph.outputs[output];
    const TensorShardSpec& spec = choice_.computed[place_of(id, run_.node().outputs)];
    const graph::Value& value = run_.graph.value(id);
    const auto ranges = local_ranges(spec, value.shape, mesh_, rank);
    return agree(cut(run_.outputs[output], ranges), put_together(found, spec, rank), value.type);
  }

  const ShardingRule& rule_;
  const OpShardSpec& choice_;
  const DeviceMesh& mesh_;
  const OperatorRun& run_;
  const ShardRunner& runner_;
};

}  // namespace

std::optional<OperatorRun> run_whole(const Graph& graph, std::vector<Tensor> inputs,
                                     const ShardRunner& runner) {
  const auto outputs = runner.run(graph, inputs);
  if (!outputs) return std::nullopt;
  OperatorRun run{graph, std::move(inputs), {}};
  for (const Tensor& output : *outputs) run.outputs.push_back(runner.numbers(output));
  return run;
}

std::vector<OpShardSpec> all_choices(const ShardingRule& rule, const OperatorRun& run,
                                     const DeviceMesh& mesh) {
  PartialUse partial;
  for (std::size_t g = 0; g < rule.linear.size(); ++g) {
    const bool is_fixed = std::ranges::any_of(
        rule.linear[g], [&](int input) { return run.graph.is_constant(run.node().inputs[input]); });
    if (!is_fixed) partial.groups.push_back(g);
  }
  partial.kept.assign(run.node().outputs.size(), true);
  partial.reduces_later = false;
  std::vector<OpShardSpec> choices =
      enumerate_op_shard_specs(run.graph, run.node(), rule, mesh, partial);
  // Reductions are connect's business, which has tests of its own.
  std::erase_if(choices,
                [](const OpShardSpec& choice) { return choice.outputs != choice.computed; });
  return choices;
}

std::string disproof(const ShardingRule& rule, const OpShardSpec& choice, const DeviceMesh& mesh,
                     const OperatorRun& run, const ShardRunner& runner) {
  return ChoiceRun(rule, choice, mesh, run, runner).disproof();
}

}  // namespace autopar::sharding
