#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.h"

namespace autopar::plan {

/// What plan.json tells: all that two plans can be told apart by, without the model.
struct PlanFile {
  struct Entry {
    std::string name;
    std::string op_type;   ///< empty for a model input or weight, and in files that do not tell
    std::string strategy;  ///< the strategy's text, or the spec in which a stored tensor lies
    bool is_stored = false;
  };
  std::string source;  ///< for messages
  std::vector<int> mesh;
  std::string device;
  Prediction predicted;
  double lower_bound_seconds = 0;
  bool proven_optimal = false;
  std::optional<std::vector<CollectiveUse>> collectives;  ///< none in files that do not tell
  std::vector<Entry> entries;
};

/// `path` is a plan.json, or a bundle's folder. Throws Error naming file and field where it is not
/// readable, no JSON or no plan.
PlanFile load_plan_file(const std::filesystem::path& path);

/// How plan B differs from plan A.
struct PlanComparison {
  struct Uses {
    CollectiveUse a;  ///< zeros where a plan has none
    CollectiveUse b;
  };
  /// Operators (or stored tensors) of one type and name pattern whose strategies differ alike.
  struct Difference {
    std::string name;  ///< common_name of theirs
    std::string op_type;
    std::string a;
    std::string b;
    std::size_t count = 0;
  };
  /// By kind and mesh axes; none where a file has none.
  std::optional<std::map<std::pair<std::string, std::vector<int>>, Uses>> collectives;
  std::vector<Difference> operators;  ///< by first member
  std::vector<Difference> stored;
  std::size_t operators_compared = 0;
  bool is_same_plan() const { return operators.empty() && stored.empty(); }
};

/// Throws Error where the plans are of different models or meshes.
PlanComparison compare_plans(const PlanFile& a, const PlanFile& b);

/// The comparison as JSON's text.
std::string comparison_json(const PlanFile& a, const PlanFile& b, const PlanComparison& comparison);

}  // namespace autopar::plan
