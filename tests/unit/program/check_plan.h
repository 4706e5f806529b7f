#pragma once

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "cost/cost_model.h"
#include "program/lowering.h"
#include "program/memory_prediction.h"
#include "program/pipeline_program.h"
#include "unit/program/run_ranks.h"

namespace autopar {

inline std::string text_of(const graph::Graph& graph, const plan::Plan& plan) {
  std::string text;
  for (const auto& [value, spec] : plan.stored) {
    text += fmt::format("{} {} {}\n", graph.value(value).name,
                        graph::to_string(graph.value(value).shape), to_string(spec));
  }
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    text += graph.nodes[id].name + "(";
    for (const graph::ValueId input : graph.nodes[id].inputs) text += graph.value(input).name + " ";
    text += ") " + graph::to_string(graph.value(graph.nodes[id].outputs[0]).shape) + "  " +
            to_string(plan.operators[id]) + "\n";
  }
  return text;
}

/// Largest difference, in units of the whole tensor's largest value (or of 1).
inline double error_of(const graph::Tensor& whole, const std::vector<graph::Range>& ranges,
                       const graph::Tensor& local) {
  const graph::Tensor share = whole.slice(ranges).contiguous_copy();
  REQUIRE(local.shape() == share.shape());
  double largest = 1;
  for (const float value : whole.values<float>()) {
    largest = std::max(largest, static_cast<double>(std::fabs(value)));
  }
  double error = 0;
  for (std::size_t i = 0; i < share.values<float>().size(); ++i) {
    const double difference = share.values<float>()[i] - local.values<float>()[i];
    if (!(std::fabs(difference) <= error)) error = std::fabs(difference);  // NaN as well
  }
  return error / largest;
}

/// Runs the plan's shards on these inputs, and the whole graph. Compares the outputs, what is
/// counted of communication with what is predicted, and arenas with their bounds.
inline void check_plan(const graph::Graph& graph, const plan::Plan& plan,
                       const std::vector<graph::Tensor>& inputs,
                       const cost::DeviceModel& device = cost::load_device_model("cpu")) {
  INFO(text_of(graph, plan));
  const sharding::DeviceMesh& mesh = plan.mesh;
  const cost::CostModel cost(device, mesh);
  const program::Program program = program::lower(graph, plan, cost);
  std::vector<graph::Graph> shards;
  std::vector<std::vector<graph::Tensor>> local_inputs;
  for (int rank = 0; rank < mesh.num_devices(); ++rank) {
    shards.push_back(program::rank_graph(program, rank));
    graph::check_invariants(shards.back());
    auto& local = local_inputs.emplace_back();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto& spec = plan.spec_of(graph, graph.inputs[i]);
      local.push_back(inputs[i].slice(sharding::local_ranges(spec, inputs[i].shape(), mesh, rank)));
    }
  }
  const std::vector<RankResult> ranks = run_ranks(shards, local_inputs);
  const RankResult whole = run_graph(graph, inputs, nullptr);

  std::int64_t peak = 0;
  for (const graph::Graph& shard : shards) {
    peak = std::max(peak, program::predict_memory(shard).peak_bytes);
  }
  CHECK(program::predict_peak_bytes(graph::whole_stage(graph), plan, device) == peak);

  std::vector<bundle::CollectiveTotal> counted;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const auto& total : ranks[rank].counted) bundle::add_collective(counted, total);
    const auto predicted = program::predict_memory(shards[rank]);
    CHECK(ranks[rank].arena_bytes <= predicted.peak_bytes - predicted.weight_bytes);
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      const auto ranges =
          sharding::local_ranges(plan.spec_of(graph, graph.outputs[i]), whole.outputs[i].shape(),
                                 mesh, static_cast<int>(rank));
      INFO("rank " << rank << ", output " << graph.value(graph.outputs[i]).name);
      CHECK(error_of(whole.outputs[i], ranges, ranks[rank].outputs[i]) < 1e-4);
    }
  }
  CHECK(bundle::to_json(counted) == bundle::to_json(program::collective_totals(program)));
}

}  // namespace autopar
