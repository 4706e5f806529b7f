#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "plan/operator_groups.h"
#include "plan/plan_json.h"
#include "planner/device_fit.h"
#include "planner/find_plan.h"
#include "planner/summary.h"
#include "planner/write_bundle.h"
#include "program/memory_prediction.h"
#include "program/pipeline_program.h"

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

std::vector<plan::CollectiveUse> uses_of(const plan::PipelinePlan& plan,
                                         const cost::DeviceModel& device) {
  return program::collective_uses(plan, program::lower(plan, device), device);
}

/// All that is told of one profile behind the headline.
std::string profile_text(const FoundPlan::Profile& profile) {
  const auto& [pipeline, device] = profile;
  const program::PipelineProgram program = program::lower(pipeline, device);
  const std::string communication =
      "communication of a run, over all ranks:\n" +
      collectives_table(program::collective_uses(pipeline, program, device));
  std::string text = pipeline.is_pipeline() ? communication : "";
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const plan::StagePlan& stage = pipeline.stages[s];
    const Graph& graph = stage.stage.graph;
    if (pipeline.is_pipeline()) text += "\n" + stage_headline(pipeline, s);
    // The shares of a stage's first rank are the largest.
    const Graph shard = program::rank_graph(pipeline, program, stage.first_rank);
    text += memory_text(stage.plan.predicted,
                        program::find_memory_peak(run_graph_on(device, shard), most_buffers));
    if (!pipeline.is_pipeline()) text += communication;
    const cost::CostModel cost(device, stage.plan.mesh);
    text += operators_text(graph, stage.plan, plan::group_operators(graph, cost, stage.plan));
  }
  return text;
}

/// plan.json of several profiles.
std::string joint_json(const FoundPlan& found) {
  std::vector<plan::NamedPlan> plans;
  for (std::size_t p = 0; p < found.profiles.size(); ++p) {
    const LoadedProfile& profile = found.model->profiles[p];
    const auto& [pipeline, device] = found.profiles[p];
    plans.push_back({profile.binding, profile.weight, &pipeline, uses_of(pipeline, device)});
  }
  return json_text([&] {
    nlohmann::json text = plan::plan_json(plans, found.predicted);
    text.at("summary").update(search::to_json(found.report));
    return text.dump(2);
  });
}

}  // namespace

std::string report_text(const Plan& plan) {
  const FoundPlan& found = plan.contents();
  std::string text = assumed_line(assumed_by_all(found.model->profiles)) +
                     states_line(found.model->profiles.front().graph) + plan_headline(found);
  for (std::size_t p = 0; p < found.profiles.size(); ++p) {
    const LoadedProfile& profile = found.model->profiles[p];
    if (found.profiles.size() > 1)
      text += fmt::format("\nprofile {}, weight {}\n", profile.binding, profile.weight);
    text += profile_text(found.profiles[p]);
    if (profile.tail) text += tail_text(profile.tail->summary);
  }
  return text;
}

std::string plan_json(const Plan& plan) {
  const FoundPlan& found = plan.contents();
  if (found.profiles.size() > 1) return joint_json(found);
  const auto& [pipeline, device] = found.profiles.front();
  const auto& tail = found.model->profiles.front().tail;
  const search::FoundPipeline only{pipeline, found.report};
  return json_text([&, &device = device] {
    return plan_json(only, uses_of(only.plan, device), tail ? &*tail : nullptr);
  });
}

}  // namespace autopar::planner
