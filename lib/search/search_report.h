#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sharding/device_mesh.h"

namespace autopar::search {

/// `ilp` is exact; the others are quick and promise nothing (quick_searches.h).
enum class SearchMethod { ilp, propagation, recursive };
std::string_view name_of(SearchMethod method);  ///< "ilp", "propagation", "recursive"

/// The outcome on one of several meshes that were searched.
struct MeshTrial {
  sharding::DeviceMesh mesh;
  std::optional<double> cost_seconds{};  ///< of its plan
  double lower_bound_seconds = 0;        ///< infinite where it is proven to have no plan
  std::string refusal{};  ///< why it has no plan; neither this nor a cost: there was no time
};

/// What a search tells of the plan that it found, beside what the plan itself predicts.
struct SearchReport {
  SearchMethod method = SearchMethod::ilp;
  double search_seconds = 0;       ///< all of the search
  double build_seconds = 0;        ///< the part of it until there is a problem to solve
  double predict_seconds = 0;      ///< the longest prediction of what a plan's shards need
  double glpk_seconds = 0;         ///< the part of search_seconds in GLPK
  double lower_bound_seconds = 0;  ///< no plan of the strategy space costs less
  bool proven_optimal = false;
  bool bound_is_searched = true;  ///< false: the sum of the operators' least costs
  double one_device_seconds = 0;  ///< the whole model on one device, by the same cost model
  std::int64_t one_device_bytes = 0;
  double device_memory_seconds = 0;    ///< a plan that fits the device, if it is much faster; or 0
  std::vector<MeshTrial> meshes = {};  ///< empty where only one was searched
  // For a search of stages alone (stages/search_pipeline.h):
  double epsilon = 0;       ///< the plan may cost so much, as a part of its cost, above the best
  int layers = 0;           ///< between which stages may be cut
  int stages_searched = 0;  ///< stages on a mesh whose best plan was searched
};

/// The report as fields of plan.json's "summary". An infinite bound is null.
nlohmann::json to_json(const SearchReport& report);

}  // namespace autopar::search
