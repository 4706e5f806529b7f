#include "search/plan.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "graph/error.h"

namespace autopar::search {

namespace {

using nlohmann::json;
using sharding::TensorShardSpec;

json specs_json(const std::vector<TensorShardSpec>& specs) {
  json list = json::array();
  for (const TensorShardSpec& spec : specs) list.push_back(to_string(spec));
  return list;
}

json summary_json(const PlanSummary& summary) {
  return {{"search", summary.search},
          {"search_seconds", summary.search_seconds},
          {"solver_seconds", summary.solver_seconds},
          {"cost_seconds", summary.cost_seconds},
          {"lower_bound_seconds", summary.lower_bound_seconds},
          {"proven_optimal", summary.proven_optimal},
          {"communication_seconds", summary.communication_seconds},
          {"weight_bytes", summary.weight_bytes},
          {"peak_bytes", summary.peak_bytes},
          {"one_device_seconds", summary.one_device_seconds},
          {"one_device_bytes", summary.one_device_bytes}};
}

/// The strings of a field, parsed; nullopt where the entry does not have it.
template <typename T>
std::optional<std::vector<T>> parsed(const json& entry, const char* field, const std::string& where,
                                     T (*parse)(std::string_view)) {
  if (!entry.contains(field)) return std::nullopt;
  const json& list = entry.at(field);
  if (!list.is_array()) fail("{}: '{}' is no list", where, field);
  std::vector<T> result;
  for (const json& text : list) {
    if (!text.is_string()) fail("{}: '{}' holds something else than texts", where, field);
    try {
      result.push_back(parse(text.get<std::string>()));
    } catch (const Error& error) {
      fail("{}: {}", where, error.what());
    }
  }
  return result;
}

Pin read_pin(const json& entry, const std::string& where) {
  if (!entry.is_object() || !entry.contains("name") || !entry.at("name").is_string()) {
    fail("{} has no 'name'; give an operator's name or a glob", where);
  }
  Pin pin;
  pin.name = entry.at("name").get<std::string>();
  for (const auto& [field, value] : entry.items()) {
    if (field != "name" && field != "inputs" && field != "outputs" && field != "reductions") {
      fail("{} ('{}'): unknown field '{}'; it has name, inputs, outputs, reductions", where,
           pin.name, field);
    }
  }
  const std::string named = fmt::format("{} ('{}')", where, pin.name);
  pin.inputs = parsed(entry, "inputs", named, TensorShardSpec::parse);
  pin.outputs = parsed(entry, "outputs", named, TensorShardSpec::parse);
  pin.reductions = parsed(entry, "reductions", named, sharding::parse_reduce_function);
  return pin;
}

}  // namespace

const TensorShardSpec& Plan::spec_of(const graph::Graph& graph, graph::ValueId value) const {
  if (const auto found = stored.find(value); found != stored.end()) return found->second;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const auto& outputs = graph.nodes[id].outputs;
    const auto found = std::ranges::find(outputs, value);
    if (found != outputs.end()) {
      return operators[id].outputs[static_cast<std::size_t>(found - outputs.begin())];
    }
  }
  throw InternalError("internal error: a value is stored or has a producer");
}

std::vector<Pin> load_pins(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) fail("--strategy {} cannot be read", file.string());
  json parsed;
  try {
    parsed = json::parse(stream);
  } catch (const json::exception&) {
    fail("--strategy {} is no JSON", file.string());
  }
  if (!parsed.is_object() || !parsed.contains("operators") || !parsed["operators"].is_array()) {
    fail("--strategy {} has no list 'operators'; plan.json of a bundle shows the form",
         file.string());
  }
  std::vector<Pin> pins;
  for (const json& entry : parsed["operators"]) {
    pins.push_back(
        read_pin(entry, fmt::format("--strategy {}: operators[{}]", file.string(), pins.size())));
  }
  return pins;
}

std::string plan_json(const graph::Graph& graph, const Plan& plan) {
  json operators = json::array();
  for (const auto& [value, spec] : plan.stored) {
    operators.push_back({{"name", graph.value(value).name}, {"outputs", specs_json({spec})}});
  }
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const sharding::OpShardSpec& strategy = plan.operators[id];
    json reductions = json::array();
    for (const sharding::ReduceFunction function : strategy.reductions) {
      reductions.push_back(name_of(function));
    }
    operators.push_back({{"name", graph.nodes[id].name},
                         {"inputs", specs_json(strategy.inputs)},
                         {"outputs", specs_json(strategy.outputs)},
                         {"reductions", reductions}});
  }
  return json{{"version", 1},
              {"mesh", plan.mesh.axis_sizes()},
              {"device", plan.device},
              {"summary", summary_json(plan.summary)},
              {"operators", operators}}
      .dump(2);
}

}  // namespace autopar::search
