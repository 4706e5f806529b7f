#include "search/search_report.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace autopar::search {

namespace {

using nlohmann::json;

json meshes_json(const std::vector<MeshTrial>& trials) {
  json list = json::array();
  for (const MeshTrial& trial : trials) {
    const double bound = trial.lower_bound_seconds;
    json entry{{"mesh", trial.mesh.axis_sizes()},
               {"cost_seconds", trial.cost_seconds ? json(*trial.cost_seconds) : json()},
               {"lower_bound_seconds", std::isfinite(bound) ? json(bound) : json()}};
    if (!trial.refusal.empty()) entry["refusal"] = trial.refusal;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

std::string_view name_of(SearchMethod method) {
  constexpr std::string_view names[] = {"ilp", "propagation", "recursive"};
  return names[static_cast<std::size_t>(method)];
}

json to_json(const SearchReport& report) {
  json text = {{"search", name_of(report.method)},
               {"search_seconds", report.search_seconds},
               {"glpk_seconds", report.glpk_seconds},
               {"lower_bound_seconds", report.lower_bound_seconds},
               {"lower_bound_from", report.bound_is_searched ? "search" : "least operator costs"},
               {"proven_optimal", report.proven_optimal},
               {"one_device_seconds", report.one_device_seconds},
               {"one_device_bytes", report.one_device_bytes}};
  if (!report.meshes.empty()) text["meshes"] = meshes_json(report.meshes);
  if (report.layers > 0) {
    text["layers"] = report.layers;
    text["stages_searched"] = report.stages_searched;
    text["epsilon"] = report.epsilon;
  }
  return text;
}

}  // namespace autopar::search
