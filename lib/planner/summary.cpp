#include "planner/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "graph/found_states.h"
#include "planner/device_here.h"
#include "planner/find_plan.h"
#include "planner/rank_memory.h"

namespace autopar::planner {

std::string in_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string in_bytes(std::int64_t bytes) {
  static constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB"};
  double amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (amount >= 1024 && unit + 1 < units.size()) {
    amount /= 1024;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", amount, unit == 0 ? 0 : 1, units[unit]);
}

std::string assumed_text(const graph::Assumptions& assumed) {
  constexpr std::ptrdiff_t most_unnamed = 4;
  const bool counts =
      std::ranges::count(assumed, true, &graph::Assumption::is_unnamed) > most_unnamed;
  std::vector<std::string> texts;
  std::map<std::int64_t, int> unnamed;  // how many have the extent
  for (const graph::Assumption& each : assumed) {
    if (!each.formula.empty())
      texts.push_back(fmt::format("{} = {} = {}", each.name, each.formula, each.extent));
    else if (counts && each.is_unnamed)
      ++unnamed[each.extent];
    else
      texts.push_back(fmt::format("{} {}", each.name, each.extent));
  }
  for (const auto& [extent, count] : unnamed)
    texts.push_back(fmt::format("{} unnamed dimensions {}", count, extent));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string assumed_line(const graph::Assumptions& assumed) {
  if (assumed.empty()) return "";
  return fmt::format("Assumed: {}; --shape binds others\n", assumed_text(assumed));
}

std::string states_line(const graph::Graph& graph) {
  if (graph.states.empty()) return "";
  return fmt::format("States, from step to step: {} as {}; --loop names others, or none\n",
                     graph.states.size(), fmt::join(graph::state_patterns(graph), ", "));
}

std::string tail_text(const graph::TailSummary& tail) {
  std::string outputs;
  for (const graph::ModelOutput& output : tail.outputs)
    outputs +=
        fmt::format("{}'{}' {}", outputs.empty() ? "" : ", ", output.name, dims_text(output));
  return fmt::format(
      "tail, from {} on: {} nodes of shapes that only a run tells, computed by rank 0 on its host\n"
      "  why: {}\n"
      "  makes {}; no part of the predicted time\n"
      "  rank 0 keeps its weights, {} ({:.0f} %), beside its shard's; what else it takes in memory "
      "depends on the run\n",
      tail.first_node, tail.nodes, tail.reason, outputs, in_bytes(tail.weight_bytes),
      100 * tail.weight_share);
}

std::string way_text(const std::vector<int>& mesh_axes) {
  if (mesh_axes.empty()) return "to the next stage";
  return fmt::format("over mesh axis {}", fmt::join(mesh_axes, ","));
}

std::string collectives_table(const std::vector<bundle::CollectiveTotal>& collectives) {
  if (collectives.empty()) return "  no communication\n";
  std::string text;
  for (const bundle::CollectiveTotal& total : collectives) {
    text += fmt::format("  {:<15} {:<20} {:>6} calls, {:>12}\n", total.kind,
                        way_text(total.mesh_axes), total.count, in_bytes(total.bytes));
  }
  return text;
}

namespace {

/// Seconds that no plan on the meshes goes below that there was time for, whether they have one or
/// not; 0 for a single mesh.
double bound_of_searched_meshes(const search::SearchReport& report) {
  double bound = report.meshes.empty() ? 0 : std::numeric_limits<double>::infinity();
  for (const search::MeshTrial& trial : report.meshes)
    if (trial.cost_seconds || !trial.refusal.empty())
      bound = std::min(bound, trial.lower_bound_seconds);
  return bound;
}

}  // namespace

std::string certificate(double cost_seconds, const search::SearchReport& report) {
  if (report.proven_optimal) return "proven optimal, gap 0 %";
  if (report.lower_bound_seconds <= 0) return "best found, no bound";
  const auto gap_above = [&](double bound) {
    return fmt::format("gap {:.1f} %", 100 * (cost_seconds / bound - 1));
  };
  std::string origin;
  if (!report.bound_is_searched)
    origin = fmt::format(
        " (the sum of the operators' least costs{})",
        report.method == search::SearchMethod::ilp ? "" : "; --bound finds a better one");
  std::string text =
      fmt::format("best found, no plan is below {}{}, {}", in_seconds(report.lower_bound_seconds),
                  origin, gap_above(report.lower_bound_seconds));
  const double searched = bound_of_searched_meshes(report);
  if (!(searched > report.lower_bound_seconds)) return text;
  return fmt::format("{} ({} over the meshes that were searched)", text,
                     gap_above(std::min(searched, cost_seconds)));
}

namespace {

/// Where the device is a preset of a GPU that this machine does not have.
std::string preset_note(const cost::DeviceModel& device) {
  if (!is_gpu_preset(device.name) || has_gpu(device.name)) return "";
  return fmt::format(" by the preset of {}, which is not here", device.name);
}

/// A line for each mesh that `--mesh auto` tried.
std::string meshes_text(const search::SearchReport& report) {
  if (report.meshes.empty()) return "";
  std::string text = "  meshes tried:\n";
  std::vector<std::string> left_out;
  for (const search::MeshTrial& trial : report.meshes) {
    const std::string mesh = to_string(trial.mesh);
    if (trial.cost_seconds) {
      text += fmt::format("    {:<11} {:>10}, no plan on it is below {}\n", mesh,
                          in_seconds(*trial.cost_seconds), in_seconds(trial.lower_bound_seconds));
    } else if (!trial.refusal.empty()) {
      text += fmt::format("    {:<11} {}\n", mesh, trial.refusal);
    } else {
      left_out.push_back(mesh);
    }
  }
  if (left_out.empty()) return text;
  constexpr std::size_t most_named = 8;
  const std::size_t more = left_out.size() - std::min(left_out.size(), most_named);
  left_out.resize(left_out.size() - more);
  return text + fmt::format("  left out, for want of time or of anything to gain: {}{}\n",
                            fmt::join(left_out, ", "),
                            more == 0 ? "" : fmt::format(" and {} more", more));
}

std::string memory_and_search_text(const FoundPlan& found) {
  const search::SearchReport& report = found.report;
  const std::string faster = report.device_memory_seconds > 0
                                 ? fmt::format("  --memory device would take {} instead of {}\n",
                                               in_seconds(report.device_memory_seconds),
                                               in_seconds(found.predicted.cost_seconds))
                                 : "";
  return fmt::format(
      "  a rank:  {}\n"
      "  one device alone would take {} and need {}\n{}"
      "  searched in {} ({} in GLPK)\n",
      rank_memory_text(rank_memory(found)), in_seconds(report.one_device_seconds),
      in_bytes(report.one_device_bytes), faster, in_seconds(report.search_seconds),
      in_seconds(report.glpk_seconds));
}

}  // namespace

std::string stage_headline(const plan::PipelinePlan& plan, std::size_t stage) {
  const plan::StagePlan& of_stage = plan.stages[stage];
  const int last = of_stage.first_rank + of_stage.num_devices() - 1;
  const bool is_last = stage + 1 == plan.stages.size();
  return fmt::format(
      "stage {}: {}, mesh {}, {} operators, {} a microbatch{}\n", stage,
      last == of_stage.first_rank ? fmt::format("rank {}", last)
                                  : fmt::format("ranks {}-{}", of_stage.first_rank, last),
      to_string(of_stage.plan.mesh), of_stage.stage.graph.nodes.size(),
      in_seconds(of_stage.plan.predicted.cost_seconds),
      is_last ? ""
              : fmt::format(" and {} to the next stage", in_seconds(of_stage.transfer_seconds)));
}

namespace {

std::string headline_of_one_profile(const FoundPlan& found) {
  const plan::PipelinePlan& plan = found.profiles.front().plan;
  const search::SearchReport& report = found.report;
  const plan::Plan& first = plan.stages.front().plan;
  std::string text = plan.is_pipeline()
                         ? fmt::format("{} stages, {} microbatches, for the best {}, device {}\n",
                                       plan.stages.size(), plan.microbatches,
                                       name_of(plan.objective), first.device)
                         : fmt::format("mesh {}, device {}\n", to_string(first.mesh), first.device);
  for (std::size_t s = 0; plan.is_pipeline() && s < plan.stages.size(); ++s)
    text += "  " + stage_headline(plan, s);
  // Stages communicate at the same time as others compute: no part of the run's time.
  const std::string communication =
      plan.stages.size() > 1 ? ""
                             : fmt::format(" ({} of it communication)",
                                           in_seconds(plan.predicted.communication_seconds));
  text += fmt::format("  a run:   {} predicted{}{}, {}\n", in_seconds(plan.predicted.cost_seconds),
                      communication, preset_note(found.profiles.front().device),
                      certificate(plan.predicted.cost_seconds, report));
  text += memory_and_search_text(found);
  if (report.layers > 0) {
    text += fmt::format(
        "  stages are cut between {} layers; {} kinds of stages were searched, and what is up to "
        "{:.2g} % better may be missed\n",
        report.layers, report.stages_searched, report.epsilon * 100);
  }
  text += meshes_text(report);
  return text;
}

}  // namespace

std::string plan_headline(const FoundPlan& found) {
  const plan::Plan& first = found.profiles.front().plan.stages.front().plan;
  if (found.profiles.size() == 1) return headline_of_one_profile(found);
  const bool is_pipeline = found.profiles.front().plan.is_pipeline();
  std::string text =
      fmt::format("{}, device {}, {} profiles\n",
                  is_pipeline ? fmt::format("{} stages", found.profiles.front().plan.stages.size())
                              : "mesh " + to_string(first.mesh),
                  first.device, found.profiles.size());
  for (std::size_t p = 0; p < found.profiles.size(); ++p) {
    const LoadedProfile& profile = found.model->profiles[p];
    const plan::PipelinePlan& plan = found.profiles[p].plan;
    const plan::Prediction& own = plan.predicted;
    text += fmt::format("  {}, weight {}: a run {} ({} of it communication), {} at the peak\n",
                        profile.binding, profile.weight, in_seconds(own.cost_seconds),
                        in_seconds(own.communication_seconds), in_bytes(own.peak_bytes));
    for (std::size_t s = 0; is_pipeline && s < plan.stages.size(); ++s)
      text += "    " + stage_headline(plan, s);
  }
  text += fmt::format("  all, by weight: {} predicted ({} of it communication){}, {}\n",
                      in_seconds(found.predicted.cost_seconds),
                      in_seconds(found.predicted.communication_seconds),
                      preset_note(found.profiles.front().device),
                      certificate(found.predicted.cost_seconds, found.report));
  return text + memory_and_search_text(found) + meshes_text(found.report);
}

}  // namespace autopar::planner
