#include "sharding/rule_proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "graph/error.h"

namespace autopar::sharding {
namespace {

using graph::Graph;
using graph::Tensor;
using graph::ValueId;

/// Runs one choice on every rank of a mesh.
class ChoiceRun {
 public:
  ChoiceRun(const ShardingRule& rule, const OpShardSpec& choice, const DeviceMesh& mesh,
            const OperatorRun& run, const ShardRunner& runner)
      : rule_(rule), choice_(choice), mesh_(mesh), run_(run), runner_(runner) {}

  std::string disproof() {
    make_parts();
    for (int rank = 0; rank < mesh_.num_devices(); ++rank) {
      auto outputs = outputs_of(rank);
      if (!outputs) return fmt::format("rank {} is refused", rank);
      outputs_.push_back(std::move(*outputs));
    }
    for (std::size_t o = 0; o < run_.graph.outputs.size(); ++o) {
      for (int rank = 0; rank < mesh_.num_devices(); ++rank) {
        if (!is_right(o, rank)) return fmt::format("output {} is wrong on rank {}", o, rank);
      }
    }
    return {};
  }

 private:
  const TensorShardSpec& spec_of_input(ValueId id) const {
    const auto& inputs = run_.node().inputs;
    return choice_.inputs[static_cast<std::size_t>(std::ranges::find(inputs, id) - inputs.begin())];
  }

  std::size_t output_of(ValueId id) const {
    const auto& outputs = run_.node().outputs;
    return static_cast<std::size_t>(std::ranges::find(outputs, id) - outputs.begin());
  }

  /// Partial inputs become random parts that sum to the whole.
  void make_parts() {
    std::mt19937 random(11);
    for (std::size_t i = 0; i < run_.inputs.size(); ++i) {
      const auto type = run_.inputs[i].type();
      auto& parts = parts_.emplace_back();
      const int count = mesh_.group_size(spec_of_input(run_.graph.inputs[i]).partial);
      if (count == 1) {
        parts.push_back(run_.inputs[i]);
        continue;
      }
      Numbers rest = runner_.numbers(run_.inputs[i]);
      for (int part = 1; part < count; ++part) {
        parts.push_back(runner_.random(type, rest.shape, -2, 2, random));
        const Numbers taken = runner_.numbers(parts.back());
        for (std::size_t n = 0; n < taken.values.size(); ++n) rest.values[n] -= taken.values[n];
      }
      parts.push_back(runner_.tensor(type, rest));
    }
  }

  /// The rank's graph, as partition::rank_graph writes it.
  Graph shard_of(int rank) const {
    Graph shard = run_.graph;
    shard.nodes.clear();
    const graph::Node& node = run_.node();
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == graph::no_value) continue;
      graph::Value& value = shard.value(node.inputs[i]);
      const Shape whole = run_.graph.value(node.inputs[i]).shape;
      const auto ranges = local_ranges(choice_.inputs[i], whole, mesh_, rank);
      value.shape = local_shape(choice_.inputs[i], whole, mesh_, rank);
      if (run_.graph.is_constant(node.inputs[i])) {
        value.constant = run_.graph.value(node.inputs[i]).constant->slice(ranges).contiguous_copy();
      }
    }
    for (std::size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] == graph::no_value) continue;
      shard.value(node.outputs[o]).shape =
          local_shape(choice_.computed[o], run_.graph.value(node.outputs[o]).shape, mesh_, rank);
    }
    LocalNode local{shard, node, factor_ranges(rule_, choice_, mesh_, rank)};
    if (rule_.localize) {
      rule_.localize(local);
    } else {
      shard.nodes.push_back(node);
    }
    return shard;
  }

  std::optional<std::vector<Numbers>> outputs_of(int rank) const {
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < run_.inputs.size(); ++i) {
      const TensorShardSpec& spec = spec_of_input(run_.graph.inputs[i]);
      const auto part = static_cast<std::size_t>(mesh_.index_in_group(rank, spec.partial));
      inputs.push_back(
          parts_[i][part].slice(local_ranges(spec, run_.inputs[i].shape(), mesh_, rank)));
    }
    const auto tensors = runner_.run(shard_of(rank), inputs);
    if (!tensors) return std::nullopt;
    std::vector<Numbers> outputs;
    for (const Tensor& tensor : *tensors) outputs.push_back(runner_.numbers(tensor));
    return outputs;
  }

  bool is_right(std::size_t output, int rank) const {
    const ValueId id = run_.graph.outputs[output];
    const TensorShardSpec& spec = choice_.computed[output_of(id)];
    std::vector<Numbers> parts;
    for (const int member : mesh_.group(rank, spec.partial)) {
      parts.push_back(outputs_[static_cast<std::size_t>(member)][output]);
    }
    const graph::Value& value = run_.graph.value(id);
    const auto ranges = local_ranges(spec, value.shape, mesh_, rank);
    return agree(cut(run_.outputs[output], ranges), reduced(parts, spec.reduce), value.type);
  }

  const ShardingRule& rule_;
  const OpShardSpec& choice_;
  const DeviceMesh& mesh_;
  const OperatorRun& run_;
  const ShardRunner& runner_;
  std::vector<std::vector<Tensor>> parts_;     ///< by graph input, by part
  std::vector<std::vector<Numbers>> outputs_;  ///< by rank
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
    const bool is_fixed = std::ranges::any_of(rule.linear[g], [&](int input) {
      return run.graph.is_constant(run.node().inputs[static_cast<std::size_t>(input)]);
    });
    if (!is_fixed) partial.groups.push_back(g);
  }
  partial.kept.assign(run.node().outputs.size(), true);
  partial.reduces_later = false;
  std::vector<OpShardSpec> choices =
      enumerate_op_shard_specs(rule, mesh, input_shapes(run.graph, run.node()),
                               output_shapes(run.graph, run.node()), partial);
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
