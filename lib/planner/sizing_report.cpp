#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "planner/sizing.h"
#include "planner/summary.h"

namespace autopar::planner {

namespace {

using nlohmann::json;

constexpr std::size_t columns = 12;
/// A row of the table; the first cell and the last one are left-aligned.
using Cells = std::array<std::string, columns>;

std::string in_percent(double part) { return fmt::format("{:.0f} %", 100 * part); }

std::string in_thousands(double number) {
  if (number < 1e4) return fmt::format("{:.0f}", number);
  if (number < 1e7) return fmt::format("{:.0f}k", number / 1e3);
  return fmt::format("{:.0f}M", number / 1e6);
}

Cells heading(const Sizing& sizing) {
  return {"device",
          "ngpus",
          "a run",
          sizing.counts_tokens ? "tokens/s" : "",
          "communication",
          "a rank: weights",
          "states",
          "activations",
          "speed-up",
          "efficiency",
          sizing.counts_tokens ? "1M tokens" : "1M runs",
          "plan"};
}

std::string proof_text(const PlanSummary& plan) {
  if (plan.proven_optimal) return "proven";
  if (plan.lower_bound_seconds <= 0) return "no bound";
  return fmt::format("gap {:.1f} %", 100 * (plan.cost_seconds / plan.lower_bound_seconds - 1));
}

Cells cells_of(const Sizing& sizing, std::size_t index) {
  const SizingRow& row = sizing.rows[index];
  Cells cells;
  cells[0] = row.device;
  cells[1] = std::to_string(row.ngpus);
  if (!row.plan) {
    cells.back() = "none: " + row.reason;
    return cells;
  }
  const SizedPlan& plan = *row.plan;
  cells = {row.device,
           std::to_string(row.ngpus),
           in_seconds(plan.summary.cost_seconds),
           plan.tokens_a_second ? in_thousands(*plan.tokens_a_second) : "",
           in_percent(plan.communication_share),
           in_bytes(plan.memory.weights),
           plan.memory.states > 0 ? in_bytes(plan.memory.states) : "-",
           in_bytes(plan.memory.activations),
           fmt::format("{:.2f}", plan.speed_up),
           in_percent(plan.efficiency),
           plan.price ? fmt::format("{:.3g}", *plan.price) : "",
           proof_text(plan.summary)};
  if (!plan.fits) cells.back() += ", exceeds the device's memory";
  if (sizing.first_that_fits == index) cells.back() += ", the first that fits";
  if (sizing.cheapest == index) cells.back() += ", the cheapest";
  return cells;
}

/// Columns that no row fills are left out.
std::string aligned(const std::vector<Cells>& table) {
  std::array<std::size_t, columns> widths{};
  for (std::size_t c = 0; c < columns; ++c) {
    const bool is_used = std::any_of(table.begin() + 1, table.end(),
                                     [&](const Cells& cells) { return !cells[c].empty(); });
    for (const Cells& cells : table)
      if (is_used) widths[c] = std::max(widths[c], cells[c].size());
  }
  std::string text;
  for (const Cells& cells : table) {
    text += fmt::format("{:<{}}", cells.front(), widths.front());
    for (std::size_t c = 1; c + 1 < columns; ++c)
      if (widths[c] > 0) text += fmt::format("  {:>{}}", cells[c], widths[c]);
    text += "  " + cells.back() + "\n";
  }
  return text;
}

json json_of(const SizedPlan& plan) {
  const PlanSummary& summary = plan.summary;
  json of_plan = {{"stages", summary.stages},
                  {"seconds", summary.cost_seconds},
                  {"communication_share", plan.communication_share},
                  {"lower_bound_seconds", summary.lower_bound_seconds},
                  {"proven_optimal", summary.proven_optimal},
                  {"weight_bytes", plan.memory.weights},
                  {"state_bytes", plan.memory.states},
                  {"activation_bytes", plan.memory.activations},
                  {"peak_bytes", plan.memory.peak()},
                  {"fits", plan.fits},
                  {"one_device_seconds", summary.one_device_seconds},
                  {"one_device_bytes", summary.one_device_bytes},
                  {"speed_up", plan.speed_up},
                  {"efficiency", plan.efficiency}};
  if (plan.tokens_a_second) of_plan["tokens_a_second"] = *plan.tokens_a_second;
  if (plan.price) of_plan["price_of_a_million"] = *plan.price;
  return of_plan;
}

json json_of(const Sizing& sizing, std::size_t index) {
  const SizingRow& row = sizing.rows[index];
  json of_row = {{"device", row.device},
                 {"ngpus", row.ngpus},
                 {"first_that_fits", sizing.first_that_fits == index},
                 {"cheapest", sizing.cheapest == index}};
  if (row.plan)
    of_row["plan"] = json_of(*row.plan);
  else
    of_row["refusal"] = row.refusal;
  return of_row;
}

}  // namespace

std::string sizing_text(const Sizing& sizing) {
  std::vector<Cells> table{heading(sizing)};
  for (std::size_t i = 0; i < sizing.rows.size(); ++i) table.push_back(cells_of(sizing, i));
  const std::string assumed =
      sizing.assumed.empty() ? ""
                             : fmt::format("Assumed: {}; --shape binds others\n", sizing.assumed);
  return assumed + aligned(table);
}

std::string sizing_json(const Sizing& sizing) {
  return json_text([&] {
    json rows = json::array();
    for (std::size_t i = 0; i < sizing.rows.size(); ++i) rows.push_back(json_of(sizing, i));
    const char* const unit = sizing.counts_tokens ? "tokens" : "runs";
    const json text = {{"version", 1}, {"price_of_a_million", unit}, {"rows", std::move(rows)}};
    return text.dump(2);
  });
}

}  // namespace autopar::planner
