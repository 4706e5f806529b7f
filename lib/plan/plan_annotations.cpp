#include "plan/plan_annotations.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "sharding/shard_places.h"

namespace autopar::plan {
namespace {

using graph::ShardedTensor;
using sharding::ShardPlaces;
using sharding::TensorShardSpec;

ShardedTensor sharded_tensor(const std::string& name, const TensorShardSpec& spec,
                             const StagePlan& stage) {
  const ShardPlaces places = shard_places(spec, stage.plan.mesh);
  ShardedTensor tensor{.name = name, .dims = {}, .devices = {}};
  for (std::size_t d = 0; d < places.shards.size(); ++d)
    if (places.shards[d] > 1)
      tensor.dims.push_back({.axis = static_cast<std::int64_t>(d), .shards = places.shards[d]});
  tensor.devices.resize(std::accumulate(places.shards.begin(), places.shards.end(), std::size_t{1},
                                        std::multiplies<>()));
  for (std::size_t rank = 0; rank < places.shares.size(); ++rank) {
    std::size_t shard = 0;  // row-major
    for (std::size_t d = 0; d < places.shards.size(); ++d)
      shard = shard * static_cast<std::size_t>(places.shards[d]) +
              static_cast<std::size_t>(places.shares[rank][d]);
    tensor.devices[shard].push_back(stage.first_rank + static_cast<std::int64_t>(rank));
  }
  return tensor;
}

/// Annotates a node's inputs or outputs.
void add_tensors(const std::vector<graph::ValueId>& values,
                 const std::vector<TensorShardSpec>& specs, const char* property,
                 const StagePlan& stage, graph::AnnotatedNode& node) {
  std::map<graph::ValueId, std::set<TensorShardSpec>> distinct;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != graph::no_value)
      distinct[values[i]].insert(without_idle_axes(specs[i], stage.plan.mesh));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == graph::no_value) continue;
    const bool is_first = std::find(values.begin(), values.begin() + i, values[i]) ==
                          values.begin() + static_cast<std::ptrdiff_t>(i);
    const bool is_one = distinct[values[i]].size() == 1;
    const TensorShardSpec spec = without_idle_axes(specs[i], stage.plan.mesh);
    if (is_one && is_first)
      node.tensors.push_back(sharded_tensor(stage.stage.graph.value(values[i]).name, spec, stage));
    if (!is_one || spec.is_partial())
      node.properties[property + std::to_string(i)] = to_string(spec);
  }
}

void add_nodes(const StagePlan& stage, std::optional<int> number,
               graph::DeviceAnnotations& annotations) {
  const graph::Graph& graph = stage.stage.graph;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const graph::Node& node = graph.nodes[n];
    const sharding::OpShardSpec& strategy = stage.plan.operators[n];
    graph::AnnotatedNode& added = annotations.nodes.emplace_back(
        graph::AnnotatedNode{.name = node.name, .op_type = node.op_type, .stage = number});
    add_tensors(node.inputs, strategy.inputs, input_property, stage, added);
    add_tensors(node.outputs, strategy.outputs, output_property, stage, added);
  }
}

/// Where several stages have an input or weight, its spec is told if it is theirs all.
void add_stored(const PipelinePlan& plan, graph::DeviceAnnotations& annotations) {
  std::map<std::string, std::set<std::string>> specs;
  for (const StagePlan& stage : plan.stages)
    for (const auto& [id, spec] : stage.plan.stored) {
      const auto& received = stage.stage.received;
      if (std::ranges::find(received, id) == received.end())
        specs[stage.stage.graph.value(id).name].insert(
            to_string(without_idle_axes(spec, stage.plan.mesh)));
    }
  for (const auto& [name, texts] : specs)
    if (texts.size() == 1) annotations.stored[name][spec_property] = *texts.begin();
}

}  // namespace

graph::DeviceAnnotations annotations_of(const PipelinePlan& plan) {
  graph::DeviceAnnotations annotations{.configuration = "autopar",
                                       .num_devices = plan.num_devices()};
  std::vector<std::string> meshes;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const bool is_staged = plan.stages.size() > 1;
    add_nodes(plan.stages[s], is_staged ? std::optional(static_cast<int>(s)) : std::nullopt,
              annotations);
    meshes.push_back(to_string(plan.stages[s].plan.mesh));
  }
  annotations.properties[meshes_property] = fmt::format("{}", fmt::join(meshes, ","));
  add_stored(plan, annotations);
  return annotations;
}

}  // namespace autopar::plan
