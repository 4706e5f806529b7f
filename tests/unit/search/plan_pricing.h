#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cost/cost_model.h"
#include "graph/graph.h"
#include "plan/plan.h"
#include "search/search_plan.h"

namespace autopar {

inline cost::CostModel model_of(const std::string& mesh) {
  return {cost::load_device_model("h200"), sharding::DeviceMesh::parse(mesh)};
}

inline search::SearchOptions within(const std::string& memory) {
  search::SearchOptions options;
  options.memory = search::MemoryPolicy::parse(memory);
  return options;
}

/// The places that the search considers: constants under 1 KiB are whole everywhere.
inline std::vector<sharding::TensorShardSpec> places_of(const graph::Value& value,
                                                        const sharding::DeviceMesh& mesh) {
  if (value.constant && value.constant->size_bytes() < 1024) {
    return {sharding::TensorShardSpec::replicated(value.shape.size())};
  }
  return sharding::enumerate_tensor_shard_specs(value.shape, mesh);
}

/// A plan's seconds as the design defines them, without the assignment problem: operators, their
/// reductions, and each version of a tensor that operators read made once from the base version.
inline double price_of(const graph::Graph& graph, const cost::CostModel& cost,
                       const plan::Plan& plan) {
  double seconds = 0;
  std::set<std::pair<graph::ValueId, sharding::TensorShardSpec>> made;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const graph::Node& node = graph.nodes[id];
    const sharding::OpShardSpec& strategy = plan.operators[id];
    seconds += cost.operator_seconds(graph, node, *sharding::sharding_rule(graph, node), strategy) +
               cost.reduction_seconds(graph, node, *sharding::sharding_rule(graph, node), strategy);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const graph::ValueId input = node.inputs[i];
      if (input == graph::no_value || !made.emplace(input, strategy.inputs[i]).second) continue;
      const graph::Value& value = graph.value(input);
      seconds += connect(plan.spec_of(graph, input), strategy.inputs[i], value.shape, value.type,
                         plan.mesh, cost.step_price(cost.order_of(value)))
                     .seconds;
    }
  }
  return seconds;
}

/// Bytes of the constants on the first rank, whose shares are the largest.
inline std::int64_t weight_bytes_of(const graph::Graph& graph, const plan::Plan& plan) {
  std::int64_t bytes = 0;
  for (const auto& [id, spec] : plan.stored) {
    const graph::Value& value = graph.value(id);
    if (!value.constant) continue;
    bytes +=
        bytes_of(value.type,
                 graph::num_elements(sharding::largest_local_shape(spec, value.shape, plan.mesh)));
  }
  return bytes;
}

/// Whether every operator gets its inputs, and no model output is partial.
inline bool can_run(const graph::Graph& graph, const plan::Plan& plan) {
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const auto& inputs = graph.nodes[id].inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == graph::no_value) continue;
      if (!can_connect(plan.spec_of(graph, inputs[i]), plan.operators[id].inputs[i])) return false;
    }
  }
  return std::ranges::none_of(graph.outputs, [&](graph::ValueId output) {
    return plan.spec_of(graph, output).is_partial();
  });
}

/// All that a rule allows: what search::partial_uses leaves out is here.
inline sharding::PartialUse every_partial_value(const sharding::ShardingRule& rule) {
  sharding::PartialUse partial;
  for (std::size_t group = 0; group < rule.linear.size(); ++group) partial.groups.push_back(group);
  partial.kept.assign(rule.outputs.size(), true);
  return partial;
}

/// Visits every plan that can run: each strategy of each operator, partial inputs and outputs too,
/// each place of each stored tensor. `places` gives a stored tensor's.
inline void for_each_plan(
    const graph::Graph& graph, const sharding::DeviceMesh& mesh,
    const std::function<std::vector<sharding::TensorShardSpec>(const graph::Value&)>& places,
    const std::function<void(const plan::Plan&)>& visit) {
  std::vector<std::vector<sharding::OpShardSpec>> strategies;
  for (const graph::Node& node : graph.nodes) {
    const auto rule = sharding::sharding_rule(graph, node);
    strategies.push_back(sharding::enumerate_op_shard_specs(
        *rule, mesh, sharding::input_shapes(graph, node), sharding::output_shapes(graph, node),
        every_partial_value(*rule)));
  }
  std::vector<graph::ValueId> stored;
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const auto value = static_cast<graph::ValueId>(id);
    const bool is_input = std::ranges::find(graph.inputs, value) != graph.inputs.end();
    if (is_input || graph.is_constant(value)) stored.push_back(value);
  }
  plan::Plan plan;
  plan.mesh = mesh;
  plan.operators.resize(graph.nodes.size());
  const std::function<void(std::size_t)> choose = [&](std::size_t i) {
    if (i < stored.size()) {
      for (const auto& spec : places(graph.value(stored[i]))) {
        plan.stored[stored[i]] = spec;
        choose(i + 1);
      }
    } else if (i < stored.size() + strategies.size()) {
      for (const auto& strategy : strategies[i - stored.size()]) {
        plan.operators[i - stored.size()] = strategy;
        choose(i + 1);
      }
    } else if (can_run(graph, plan)) {
      visit(plan);
    }
  };
  choose(0);
}

/// Finds by brute force the least price of all plans whose weights on the first rank take at most
/// `weight_limit` bytes.
inline double least_price(const graph::Graph& graph, const cost::CostModel& cost,
                          std::int64_t weight_limit) {
  double least = std::numeric_limits<double>::infinity();
  for_each_plan(
      graph, cost.mesh(), [&](const graph::Value& v) { return places_of(v, cost.mesh()); },
      [&](const plan::Plan& plan) {
        if (weight_bytes_of(graph, plan) > weight_limit) return;
        least = std::min(least, price_of(graph, cost, plan));
      });
  return least;
}

}  // namespace autopar
