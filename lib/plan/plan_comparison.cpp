#include "plan/plan_comparison.h"

#include <fmt/ranges.h>

#include <tuple>

#include "base/partial_file.h"
#include "base/read_file.h"
#include "plan/operator_groups.h"
#include "plan/plan_json.h"

namespace autopar::plan {

namespace {

using Entry = PlanFile::Entry;
using Difference = PlanComparison::Difference;

constexpr int plan_version = 1;

constexpr JsonWords words{.no_object = "{} is no JSON object; give a plan.json of autopar",
                          .missing = "{} has no '{}'; give a plan.json of autopar",
                          .malformed = "{}: '{}' is not what plan.json has there"};

json parse_file(const std::filesystem::path& file) {
  const std::string text =
      read_file(file, "plan {} cannot be read ({}); give a plan.json or a bundle's folder");
  try {
    return json::parse(text);
  } catch (const json::exception&) {
    fail("plan {} is no JSON; give a plan.json or a bundle's folder", file.string());
  }
}

/// Gathers entries that differ alike.
class Differences {
 public:
  void add(const Entry& a, const Entry& b) {
    const auto key = std::tuple(a.op_type, name_pattern(a.name), a.strategy, b.strategy);
    const auto [entry, is_new] = known_.try_emplace(key, names_.size());
    if (is_new) names_.emplace_back();
    names_[entry->second].push_back(a.name);
  }
  /// By first member.
  std::vector<Difference> named() const {
    std::vector<Difference> found(names_.size());
    for (const auto& [key, i] : known_) {
      const auto& [op_type, pattern, a, b] = key;
      found[i] = {common_name(names_[i]), op_type, a, b, names_[i].size()};
    }
    return found;
  }

 private:
  std::map<std::tuple<std::string, std::string, std::string, std::string>, std::size_t> known_;
  std::vector<std::vector<std::string>> names_;  ///< by difference
};

std::map<std::pair<std::string, bool>, const Entry*> by_name(const PlanFile& plan) {
  std::map<std::pair<std::string, bool>, const Entry*> result;
  for (const Entry& entry : plan.entries) result[{entry.name, entry.is_stored}] = &entry;
  return result;
}

[[noreturn]] void fail_for_models(const PlanFile& has, const PlanFile& lacks, const Entry& entry) {
  fail("{} has {} '{}' and {} does not: these are plans of different models", has.source,
       entry.is_stored ? "the input or weight" : "the operator", entry.name, lacks.source);
}

json side_json(const PlanFile& plan) {
  json side = JsonWriter::write(plan.predicted);
  side["plan"] = plan.source;
  side["device"] = plan.device;
  side["lower_bound_seconds"] = plan.lower_bound_seconds;
  side["proven_optimal"] = plan.proven_optimal;
  return side;
}

json use_json(const CollectiveUse& use) {
  return {{"times", use.times}, {"bytes", use.bytes}, {"seconds", use.seconds}};
}

/// A plan for several profiles has stages in each of them.
bool has_stages(const json& plan) {
  const auto profiles = plan.find("profiles");
  const bool has_profiles = profiles != plan.end() && profiles->is_array() && !profiles->empty();
  return plan.contains("stages") || (has_profiles && profiles->front().contains("stages"));
}

}  // namespace

void fields(const JsonReader& reader, Entry& entry) {
  reader("name", entry.name);
  if (reader.has("profile")) entry.name += " of " + reader.get<std::string>("profile");
  entry.op_type = reader.get_or<std::string>("op_type", "");
  entry.is_stored = !reader.has("inputs");
  const auto outputs = reader.get<std::vector<std::string>>("outputs");
  entry.strategy = fmt::format("{}", fmt::join(outputs, ","));
  if (entry.is_stored) return;
  const auto inputs = reader.get<std::vector<std::string>>("inputs");
  entry.strategy = fmt::format("{}->{}", fmt::join(inputs, ","), entry.strategy);
  for (const auto& reduction : reader.get_or<std::vector<std::string>>("reductions", {})) {
    if (reduction != "none") entry.strategy += " " + reduction;
  }
}

void fields(auto& visit, Like<Difference> auto& difference) {
  visit("name", difference.name);
  visit("op_type", difference.op_type);
  visit("count", difference.count);
  visit("a", difference.a);
  visit("b", difference.b);
}

PlanFile load_plan_file(const std::filesystem::path& path) {
  put_back_replaced(path);
  const std::filesystem::path file =
      std::filesystem::is_directory(path) ? path / "plan.json" : path;
  const json parsed = parse_file(file);
  const std::string where = "plan " + file.string();
  const JsonReader reader(parsed, where, words);
  if (reader.get<int>("version") != plan_version)
    fail("{} is of another version than {}; make it anew", where, plan_version);
  PlanFile plan;
  plan.source = path.string();
  if (has_stages(parsed))
    fail("{} is a plan of several stages; compare plans of one stage", file.string());
  reader("mesh", plan.mesh);
  reader("device", plan.device);
  reader.inside("summary", [&plan](const JsonReader& summary) {
    fields(summary, plan.predicted);
    summary("lower_bound_seconds", plan.lower_bound_seconds);
    summary("proven_optimal", plan.proven_optimal);
  });
  if (reader.has("collectives"))
    plan.collectives = reader.get<std::vector<CollectiveUse>>("collectives");
  reader("operators", plan.entries);
  return plan;
}

PlanComparison compare_plans(const PlanFile& a, const PlanFile& b) {
  if (a.mesh != b.mesh) {
    fail("{} is a plan for a mesh of {} and {} for one of {}; compare plans for one mesh", a.source,
         fmt::join(a.mesh, "x"), b.source, fmt::join(b.mesh, "x"));
  }
  const auto in_a = by_name(a);
  const auto in_b = by_name(b);
  for (const Entry& entry : b.entries) {
    if (!in_a.contains({entry.name, entry.is_stored})) fail_for_models(b, a, entry);
  }
  Differences operators;
  Differences stored;
  PlanComparison comparison;
  for (const Entry& entry : a.entries) {
    const auto other = in_b.find({entry.name, entry.is_stored});
    if (other == in_b.end()) fail_for_models(a, b, entry);
    const Entry& its = *other->second;
    // Files of older programs do not tell types.
    const bool tell_types = !entry.op_type.empty() && !its.op_type.empty();
    if (tell_types && entry.op_type != its.op_type) {
      fail("'{}' is a {} in {} and a {} in {}: these are plans of different models", entry.name,
           entry.op_type, a.source, its.op_type, b.source);
    }
    comparison.operators_compared += entry.is_stored ? 0 : 1;
    if (entry.strategy != its.strategy) (entry.is_stored ? stored : operators).add(entry, its);
  }
  comparison.operators = operators.named();
  comparison.stored = stored.named();
  if (a.collectives && b.collectives) {
    auto& uses = comparison.collectives.emplace();
    for (const CollectiveUse& use : *a.collectives) uses[{use.kind, use.mesh_axes}].a = use;
    for (const CollectiveUse& use : *b.collectives) uses[{use.kind, use.mesh_axes}].b = use;
  }
  return comparison;
}

std::string comparison_json(const PlanFile& a, const PlanFile& b,
                            const PlanComparison& comparison) {
  json result = {{"version", 1},
                 {"a", side_json(a)},
                 {"b", side_json(b)},
                 {"same_plan", comparison.is_same_plan()},
                 {"operators_compared", comparison.operators_compared},
                 {"operators", JsonWriter::write(comparison.operators)},
                 {"stored", JsonWriter::write(comparison.stored)}};
  if (comparison.collectives) {
    json uses = json::array();
    for (const auto& [way, use] : *comparison.collectives) {
      uses.push_back({{"kind", way.first},
                      {"mesh_axes", way.second},
                      {"a", use_json(use.a)},
                      {"b", use_json(use.b)}});
    }
    result["collectives"] = uses;
  }
  return result.dump(2);
}

}  // namespace autopar::plan
