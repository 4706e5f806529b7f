#include "search/search_report.h"

#include <cmath>

#include "base/json_fields.h"

namespace autopar::search {

std::string_view name_of(SearchMethod method) {
  constexpr std::string_view names[] = {"ilp", "propagation", "recursive"};
  return names[static_cast<std::size_t>(method)];
}

void fields(auto& visit, Like<MeshTrial> auto& trial) {
  const double bound = trial.lower_bound_seconds;
  visit("mesh", trial.mesh.axis_sizes()), visit("cost_seconds", trial.cost_seconds);
  visit("lower_bound_seconds", std::isfinite(bound) ? std::optional(bound) : std::nullopt);
  if (!trial.refusal.empty()) visit("refusal", trial.refusal);
}

void fields(auto& visit, Like<SearchReport> auto& report) {
  visit("search", name_of(report.method)), visit("search_seconds", report.search_seconds);
  visit("glpk_seconds", report.glpk_seconds);
  visit("lower_bound_seconds", report.lower_bound_seconds);
  visit("lower_bound_from", report.bound_is_searched ? "search" : "least operator costs");
  visit("proven_optimal", report.proven_optimal);
  visit("one_device_seconds", report.one_device_seconds);
  visit("one_device_bytes", report.one_device_bytes);
  if (report.device_memory_seconds > 0)
    visit("device_memory_seconds", report.device_memory_seconds);
  if (!report.meshes.empty()) visit("meshes", report.meshes);
  if (report.layers == 0) return;
  visit("layers", report.layers), visit("stages_searched", report.stages_searched);
  visit("epsilon", report.epsilon);
}

json to_json(const SearchReport& report) { return JsonWriter::write(report); }

}  // namespace autopar::search
