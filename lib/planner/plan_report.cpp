#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "plan/operator_groups.h"
#include "planner/device_fit.h"
#include "planner/find_plan.h"
#include "planner/summary.h"
#include "planner/write_bundle.h"
#include "program/memory_prediction.h"
#include "program/pipeline_program.h"
#include "runtime/run_bytes.h"

namespace autopar::planner {

namespace {

using graph::Graph;
using plan::OperatorGroup;

constexpr std::size_t most_buffers = 4;
constexpr std::size_t most_cheap_types = 8;
constexpr std::size_t widest_strategy = 40;

std::string memory_text(const plan::Prediction& predicted, const program::MemoryPeak& peak) {
  std::string text = fmt::format(
      "memory of the fullest rank, {}:\n"
      "  {} of weights, {} of values alive at the peak, {} kept for packing them\n",
      in_bytes(predicted.peak_bytes), in_bytes(peak.weight_bytes), in_bytes(peak.activation_bytes),
      in_bytes(peak.reserve_bytes));
  if (peak.node.empty()) return text;
  text += fmt::format("  the peak is where {} {} runs; the largest values then:\n", peak.op_type,
                      peak.node);
  for (const auto& buffer : peak.largest) {
    text += fmt::format("  {:>12}  {} {}\n", in_bytes(buffer.bytes), fmt::join(buffer.shape, "x"),
                        buffer.name);
  }
  return text;
}

std::string output_shape(const Graph& graph, const graph::Node& node) {
  for (const graph::ValueId output : node.outputs) {
    if (output != graph::no_value)
      return fmt::format("{}", fmt::join(graph.value(output).shape, "x"));
  }
  return "";
}

/// Operators that are no rows of the table, by type, most frequent first.
std::string cheap_text(const Graph& graph, const std::vector<OperatorGroup>& groups) {
  std::map<std::string, std::size_t> counts;
  double seconds = 0;
  std::size_t all = 0;
  for (const OperatorGroup& group : groups) {
    if (group.is_major) continue;
    counts[qualified_op_type(graph.node(group.members.front()))] += group.members.size();
    all += group.members.size();
    seconds += group.seconds * static_cast<double>(group.members.size());
  }
  if (all == 0) return "";
  std::vector<std::pair<std::string, std::size_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::ranges::greater{},
                           [](const auto& entry) { return entry.second; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min(sorted.size(), most_cheap_types); ++i) {
    names.push_back(fmt::format("{} {}", sorted[i].second, sorted[i].first));
  }
  return fmt::format("  and {} cheap ones, together {}: {}{}\n", all, in_seconds(seconds),
                     fmt::join(names, ", "), sorted.size() > most_cheap_types ? ", ..." : "");
}

/// An input that is produced in another spec than it is read in has both:
/// "RS0>RR,S0R->RR+P0 all-reduce".
std::string strategy_text(const sharding::OpShardSpec& strategy,
                          std::span<const sharding::TensorShardSpec> inputs_as) {
  std::string text;
  for (std::size_t i = 0; i < strategy.inputs.size(); ++i) {
    if (i > 0) text += ',';
    const auto& read = strategy.inputs[i];
    if (inputs_as[i] != read && !read.dims.empty()) text += to_string(inputs_as[i]) + '>';
    text += to_string(read);
  }
  const std::string whole = to_string(strategy);
  return text + whole.substr(whole.find("->"));
}

std::string operators_text(const Graph& graph, const plan::Plan& plan,
                           const std::vector<OperatorGroup>& groups) {
  std::string text =
      "operators, those of repeated layers once (a>b: comes as a, is read as b):\n"
      "  count  operator           output            time each  strategy, name\n";
  for (const OperatorGroup& group : groups) {
    if (!group.is_major) continue;
    const graph::NodeId first = group.members.front();
    const graph::Node& node = graph.node(first);
    text += fmt::format(
        "  {:>4}x  {:<18} {:<16} {:>10}  {:<{}}  {}\n", group.members.size(),
        qualified_op_type(node), output_shape(graph, node), in_seconds(group.seconds),
        strategy_text(plan.operators[static_cast<std::size_t>(first)], group.inputs_as),
        widest_strategy,
        group.weight.empty() ? group.name : fmt::format("{} ({})", group.name, group.weight));
  }
  return text + cheap_text(graph, groups);
}

/// The rank's graph as it runs on that of the devices in question which needs most memory.
program::RunGraph run_of(const Graph& rank_graph, const cost::DeviceModel& device) {
  runtime::PackedGraph packed =
      runtime::packed_graph(rank_graph, kernels_for(device), /*microbatches=*/1);
  const std::int64_t weights = graph::constant_bytes(rank_graph);
  return {std::move(packed.graph), std::move(packed.lifetimes), {weights, weights + packed.bytes}};
}

/// A line for each kind of collective.
std::string collectives_table(std::span<const plan::CollectiveUse> uses) {
  if (uses.empty()) return "  no communication\n";
  std::string text;
  for (const plan::CollectiveUse& use : uses) {
    text += fmt::format("  {:<15} {:<20} {:>6} times, {:>12}, {:>10}\n", use.kind,
                        way_text(use.mesh_axes), use.times, in_bytes(use.bytes),
                        in_seconds(use.seconds));
  }
  return text;
}

}  // namespace

std::string report_text(const Plan& plan) {
  const FoundPlan& found = plan.contents();
  const cost::DeviceModel& device = found.device;
  const plan::PipelinePlan& pipeline = found.pipeline.plan;
  const program::PipelineProgram program = program::lower(pipeline, device);
  const std::string communication =
      "communication of a run, over all ranks:\n" +
      collectives_table(program::collective_uses(pipeline, program, device));
  std::string text = assumed_line(found.model->assumed) + plan_headline(found.pipeline);
  if (pipeline.is_pipeline()) text += communication;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const plan::StagePlan& stage = pipeline.stages[s];
    const Graph& graph = stage.stage.graph;
    if (pipeline.is_pipeline()) text += "\n" + stage_headline(pipeline, s);
    // The shares of a stage's first rank are the largest.
    const Graph shard = program::rank_graph(pipeline, program, stage.first_rank);
    text += memory_text(stage.plan.predicted,
                        program::find_memory_peak(run_of(shard, device), most_buffers));
    if (!pipeline.is_pipeline()) text += communication;
    const cost::CostModel cost(device, stage.plan.mesh);
    text += operators_text(graph, stage.plan, plan::group_operators(graph, cost, stage.plan));
  }
  return found.model->tail ? text + tail_text(found.model->tail->summary) : text;
}

std::string plan_json(const Plan& plan) {
  const FoundPlan& found = plan.contents();
  const plan::PipelinePlan& pipeline = found.pipeline.plan;
  const auto uses =
      program::collective_uses(pipeline, program::lower(pipeline, found.device), found.device);
  const auto& tail = found.model->tail;
  return json_text([&] { return plan_json(found.pipeline, uses, tail ? &*tail : nullptr); });
}

}  // namespace autopar::planner
