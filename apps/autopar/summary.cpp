#include "summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace autopar {

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

std::string collectives_table(const std::vector<bundle::CollectiveTotal>& collectives) {
  if (collectives.empty()) return "  no communication\n";
  std::string text;
  for (const bundle::CollectiveTotal& total : collectives) {
    text += fmt::format("  {:<15} over mesh axis {:<5} {:>6} calls, {:>12}\n", total.kind,
                        fmt::format("{}", fmt::join(total.mesh_axes, ",")), total.count,
                        in_bytes(total.bytes));
  }
  return text;
}

namespace {

std::string certificate(const search::PlanSummary& summary) {
  if (summary.proven_optimal) return "proven optimal, gap 0 %";
  if (summary.lower_bound_seconds <= 0) return "best found, no bound";
  const double gap = summary.cost_seconds / summary.lower_bound_seconds - 1;
  return fmt::format("best found, no plan is below {}{}, gap {:.1f} %",
                     in_seconds(summary.lower_bound_seconds),
                     summary.bound_is_searched
                         ? ""
                         : " (the sum of the operators' least costs; --bound finds a better one)",
                     gap * 100);
}

/// Of the meshes that `--mesh auto` tried, a line each.
std::string meshes_text(const search::PlanSummary& summary) {
  if (summary.meshes.empty()) return "";
  std::string text = "  meshes tried:\n";
  std::vector<std::string> left_out;
  for (const search::MeshTrial& trial : summary.meshes) {
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

}  // namespace

std::string plan_headline(const search::Plan& plan) {
  const search::PlanSummary& summary = plan.summary;
  std::string text = fmt::format("mesh {}, device {}\n", to_string(plan.mesh), plan.device);
  text += fmt::format("  a run:   {} predicted ({} of it communication), {}\n",
                      in_seconds(summary.cost_seconds), in_seconds(summary.communication_seconds),
                      certificate(summary));
  text += fmt::format("  a rank:  {} of weights, {} with activations at the peak\n",
                      in_bytes(summary.weight_bytes), in_bytes(summary.peak_bytes));
  text += fmt::format("  one device alone would take {} and need {}\n",
                      in_seconds(summary.one_device_seconds), in_bytes(summary.one_device_bytes));
  text += fmt::format("  searched in {} ({} in GLPK)\n", in_seconds(summary.search_seconds),
                      in_seconds(summary.glpk_seconds));
  text += meshes_text(summary);
  return text;
}

std::string plan_summary(const search::Plan& plan,
                         const std::vector<bundle::CollectiveTotal>& collectives) {
  return plan_headline(plan) + "communication of a run, over all ranks:\n" +
         collectives_table(collectives);
}

}  // namespace autopar
