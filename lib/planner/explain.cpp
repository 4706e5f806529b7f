#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/error.h"
#include "plan/plan_comparison.h"
#include "planner/device_fit.h"
#include "planner/find_plan.h"
#include "planner/summary.h"
#include "search/explanation.h"

namespace autopar::planner {

namespace {

using Candidate = search::Explanation::Candidate;
using Proof = search::Explanation::Proof;
using Difference = plan::PlanComparison::Difference;

std::string in_signed_seconds(double seconds) {
  return (seconds < 0 ? "-" : "+") + in_seconds(std::abs(seconds));
}

std::string percent_of(double part, double whole) {
  return whole > 0 ? fmt::format("{:+.2f} %", part / whole * 100) : "";
}

std::string verdict(const Candidate& candidate, double plan_seconds) {
  if (candidate.is_chosen) return "chosen";
  const double worse = candidate.worse_by_seconds;
  const double least = candidate.worse_by_at_least_seconds;
  switch (candidate.proof) {
    case Proof::exact:
      return fmt::format("{} ({}), proven", in_signed_seconds(worse),
                         percent_of(worse, plan_seconds));
    case Proof::bounded:
      return fmt::format("{} ({}) at most, {} at least; the time was over",
                         in_signed_seconds(worse), percent_of(worse, plan_seconds),
                         in_signed_seconds(least));
    case Proof::unknown:
      return fmt::format("{} at least; no plan found in time", in_signed_seconds(least));
    case Proof::none_fits:
      break;
  }
  return "no plan within the memory limit has it";
}

std::string candidate_text(const Candidate& candidate, double plan_seconds) {
  std::string text =
      fmt::format("  {}: {}\n    by itself {}\n", to_string(candidate.strategy),
                  verdict(candidate, plan_seconds), in_seconds(candidate.own_seconds));
  for (const auto& each : candidate.reshardings) {
    text += fmt::format("    input {} is brought from {} to {}, {}\n", each.input,
                        to_string(each.from), to_string(each.to), in_seconds(each.seconds));
  }
  for (const auto& each : candidate.neighbours) {
    text += fmt::format("    {} changes from {} to {}\n", each.name, each.from, each.to);
  }
  if (candidate.others_changed > 0) {
    text += fmt::format("    and so do {} operators further on\n", candidate.others_changed);
  }
  return text;
}

std::string gap_text(const plan::PlanFile& plan) {
  if (plan.proven_optimal) return "optimal";
  return fmt::format("bound {}", in_seconds(plan.lower_bound_seconds));
}

/// A row of two amounts and their difference.
template <typename T, typename Text>
std::string row(std::string_view what, T a, T b, Text text) {
  const T change = b - a;
  const std::string difference = (change < 0 ? "-" : "+") + text(change < 0 ? -change : change);
  return fmt::format("  {:<26} {:>12} {:>12} {:>13}\n", what, text(a), text(b),
                     change == 0 ? "same" : difference);
}

std::string differences_text(const std::vector<Difference>& differences) {
  std::string text;
  for (const Difference& each : differences) {
    text += fmt::format("  {:>4}x  {}{}\n         A: {}\n         B: {}\n", each.count,
                        each.op_type.empty() ? "" : each.op_type + " ", each.name, each.a, each.b);
  }
  return text;
}

std::size_t count_of(const std::vector<Difference>& differences) {
  std::size_t count = 0;
  for (const Difference& each : differences) count += each.count;
  return count;
}

std::string explanation_text(const graph::Graph& graph, const search::Explanation& explanation) {
  const graph::Node& node = graph.node(explanation.node);
  std::string text = fmt::format(
      "{} {}: {} candidates, and how much a run of the best plan with each takes more than {}\n",
      qualified_op_type(node), node.name, explanation.candidates.size(),
      in_seconds(explanation.plan_seconds));
  if (!explanation.plan_is_optimal) {
    text += fmt::format("the plan is not proven optimal, its bound is {}\n",
                        in_seconds(explanation.plan_lower_bound_seconds));
  }
  for (const Candidate& candidate : explanation.candidates) {
    text += candidate_text(candidate, explanation.plan_seconds);
  }
  return text;
}

std::string comparison_text(const plan::PlanFile& a, const plan::PlanFile& b,
                            const plan::PlanComparison& comparison) {
  std::string text = fmt::format("A: {} (device {}, {})\nB: {} (device {}, {})\n", a.source,
                                 a.device, gap_text(a), b.source, b.device, gap_text(b));
  text += fmt::format("  {:<26} {:>12} {:>12} {:>13}\n", "", "A", "B", "B against A");
  text += row("a run", a.predicted.cost_seconds, b.predicted.cost_seconds, in_seconds);
  text += row("  of it communication", a.predicted.communication_seconds,
              b.predicted.communication_seconds, in_seconds);
  text += row("weights a rank", a.predicted.weight_bytes, b.predicted.weight_bytes, in_bytes);
  text += row("peak a rank", a.predicted.peak_bytes, b.predicted.peak_bytes, in_bytes);
  if (comparison.collectives) {
    for (const auto& [way, use] : *comparison.collectives) {
      const std::string what = fmt::format("{}, axis {}", way.first, fmt::join(way.second, ","));
      text += row(what, use.a.seconds, use.b.seconds, in_seconds);
      if (use.a.bytes + use.b.bytes == 0) continue;  // slices send nothing
      text += row("  sent by all ranks", use.a.bytes, use.b.bytes, in_bytes);
    }
  } else {
    text += "  collectives: one of the files does not tell; make it anew\n";
  }
  if (comparison.is_same_plan()) return text + "every operator and tensor is split alike\n";
  text += fmt::format("{} of {} operators differ\n{}", count_of(comparison.operators),
                      comparison.operators_compared, differences_text(comparison.operators));
  return text + fmt::format("{} inputs and weights lie otherwise\n{}", count_of(comparison.stored),
                            differences_text(comparison.stored));
}

}  // namespace

std::string explain(const Model& model, const PlanOptions& options, const std::string& op,
                    bool json) {
  if (options.stages != "1" || options.microbatches != 1) {
    fail("--explain {}: it tells of plans of one stage; leave out --stages and --microbatches", op);
  }
  const LoadedModel& loaded = model.contents();
  const SearchSetup setup = make_search_setup(options);
  std::vector<std::pair<std::size_t, graph::NodeId>> nodes;  // before a long search
  for (std::size_t p = 0; p < loaded.profiles.size(); ++p) {
    const graph::Graph& graph = loaded.profiles[p].graph;
    discover_missing_rules(options, graph);
    nodes.emplace_back(p, search::find_operator(graph, op));
  }
  const FittedProfiles profiles(loaded, setup.meshes);
  search::JointPlan found = find_joint_plan(loaded, setup, profiles, options.progress);
  // The plan may be of a coarser mesh than any that was given.
  const search::ProfilesOn searched(found.plans.front().mesh, profiles.meshes().front());
  const search::JointPlan solved =
      search::with_all_strategies(searched.profiles, setup.search, std::move(found));
  const double seconds = options.time_limit_seconds / static_cast<double>(nodes.size());
  std::string text;
  nlohmann::json each_of = nlohmann::json::array();
  for (const auto& [p, node] : nodes) {
    const graph::Graph& graph = loaded.profiles[p].graph;
    const Shown shown(options.progress, "trying the candidates of " + graph.node(node).name);
    const search::Explanation explanation =
        search::explain_operator(searched.profiles, solved, p, node, seconds);
    if (nodes.size() == 1)
      return json ? json_text([&] { return search::explanation_json(graph, explanation) + "\n"; })
                  : explanation_text(graph, explanation);
    const std::string& binding = loaded.profiles[p].binding;
    text += fmt::format("profile {}; what all profiles take together, by weight:\n{}", binding,
                        explanation_text(graph, explanation));
    each_of.push_back({{"profile", binding}, {"explanation", nlohmann::json::parse(json_text([&] {
                                                return search::explanation_json(graph, explanation);
                                              }))}});
  }
  return json ? nlohmann::json{{"version", 1}, {"profiles", each_of}}.dump(2) + "\n" : text;
}

std::string compare(const std::filesystem::path& a, const std::filesystem::path& b, bool json) {
  const plan::PlanFile first = plan::load_plan_file(a);
  const plan::PlanFile second = plan::load_plan_file(b);
  const plan::PlanComparison comparison = plan::compare_plans(first, second);
  return json ? plan::comparison_json(first, second, comparison) + "\n"
              : comparison_text(first, second, comparison);
}

}  // namespace autopar::planner
