#include "search/pins.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>

#include "base/read_file.h"
#include "base/text.h"

namespace autopar::search {

namespace {

using nlohmann::json;
using sharding::OpShardSpec;
using sharding::TensorShardSpec;

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
    if (field == "op_type") continue;  // plan.json tells it; the name is what counts
    if (field != "name" && field != "inputs" && field != "outputs" && field != "reductions" &&
        field != "profile" && field != "stage") {
      fail(
          "{} ('{}'): unknown field '{}'; it has name, inputs, outputs, reductions, profile, stage",
          where, pin.name, field);
    }
  }
  const std::string named = fmt::format("{} ('{}')", where, pin.name);
  pin.inputs = parsed(entry, "inputs", named, TensorShardSpec::parse);
  pin.outputs = parsed(entry, "outputs", named, TensorShardSpec::parse);
  pin.reductions = parsed(entry, "reductions", named, sharding::parse_reduce_function);
  if (entry.contains("profile")) {
    if (!entry.at("profile").is_string()) fail("{}: 'profile' is no text", named);
    pin.profile = entry.at("profile").get<std::string>();
  }
  if (entry.contains("stage")) {
    if (!entry.at("stage").is_number_integer()) fail("{}: 'stage' is no number", named);
    pin.stage = entry.at("stage").get<int>();
  }
  return pin;
}

bool matches(const Pin& pin, const std::string& name) {
  return pin.name == name || (is_glob(pin.name) && matches_glob(pin.name, name));
}

std::vector<std::string> texts(const std::vector<TensorShardSpec>& specs) {
  std::vector<std::string> result;
  for (const TensorShardSpec& spec : specs) result.push_back(to_string(spec));
  return result;
}

std::string describe(const Pin& pin) {
  std::vector<std::string> fields;
  if (pin.inputs) fields.push_back(fmt::format("inputs {}", fmt::join(texts(*pin.inputs), ",")));
  if (pin.outputs) fields.push_back(fmt::format("outputs {}", fmt::join(texts(*pin.outputs), ",")));
  for (const auto& [i, spec] : pin.some_inputs)
    fields.push_back(fmt::format("input {} {}", i, to_string(spec)));
  for (const auto& [i, spec] : pin.some_outputs)
    fields.push_back(fmt::format("output {} {}", i, to_string(spec)));
  if (pin.reductions) {
    std::vector<std::string_view> names;
    for (const auto function : *pin.reductions) names.push_back(name_of(function));
    fields.push_back(fmt::format("reductions {}", fmt::join(names, ",")));
  }
  return fmt::format("{}", fmt::join(fields, " "));
}

[[noreturn]] void fail_unnamed(const Pin& pin) {
  fail("--strategy pins '{}', but the model has no operator, input or weight of that name",
       pin.name);
}

bool names_stored(const Pin& pin, const graph::Graph& graph,
                  const std::vector<graph::NodeId>& producers) {
  for (std::size_t id = 0; id < graph.values.size(); ++id)
    if (producers[id] == graph::no_node && matches(pin, graph.values[id].name)) return true;
  return false;
}

/// An input or a weight, which has a place and no strategy.
void check_names_tensor(const Pin& pin, const graph::Graph& graph,
                        const std::vector<graph::NodeId>& producers) {
  if (!names_stored(pin, graph, producers)) fail_unnamed(pin);
  if (pin.inputs || pin.reductions || !pin.some_inputs.empty()) {
    fail("--strategy pins '{}', an input or weight, which has 'outputs' alone", pin.name);
  }
}

/// Whether those that are told are among the specs.
bool are_in(const std::map<std::size_t, TensorShardSpec>& some,
            const std::vector<TensorShardSpec>& specs) {
  return std::ranges::all_of(some, [&](const auto& entry) {
    const auto& [place, spec] = entry;
    return place < specs.size() && specs[place] == spec;
  });
}

}  // namespace

std::vector<Pin> load_pins(const std::filesystem::path& file) {
  const std::string text = read_file(file, "--strategy {} cannot be read: {}");
  json parsed;
  try {
    parsed = json::parse(text);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // no JSON, or a folder
    fail("--strategy {} is no JSON", file.string());
  }
  if (!parsed.is_object() || !parsed.contains("operators") || !parsed["operators"].is_array()) {
    fail("--strategy {} has no list 'operators'; plan.json of a bundle shows the form",
         file.string());
  }
  std::vector<Pin> pins;
  Problems problems;
  std::size_t place = 0;
  for (const json& entry : parsed["operators"]) {
    const std::string where = fmt::format("--strategy {}: operators[{}]", file.string(), place++);
    problems.collect([&] { pins.push_back(read_pin(entry, where)); });
  }
  problems.throw_if_any();
  return pins;
}

void check_meshes(const std::vector<Pin>& pins, const sharding::DeviceMesh& mesh,
                  Problems& problems) {
  for (const Pin& pin : pins)
    if (pin.mesh && *pin.mesh != mesh)
      problems.add("--strategy pins '{}' on a mesh {}, not on {}", pin.name, to_string(*pin.mesh),
                   to_string(mesh));
}

bool names_operator(const Pin& pin, const graph::Graph& graph) {
  return std::ranges::any_of(graph.nodes,
                             [&](const graph::Node& node) { return matches(pin, node.name); });
}

bool names_anything(const Pin& pin, const graph::Graph& graph) {
  return names_operator(pin, graph) || names_stored(pin, graph, graph::producers(graph));
}

void check_pin_names(const std::vector<Pin>& pins, const std::vector<std::string>& names) {
  Problems problems;
  for (const Pin& pin : pins) {
    const auto may_be_inside = [&](const std::string& name) {
      return !name.empty() && pin.name.starts_with(name);
    };
    if (!is_glob(pin.name) && std::ranges::none_of(names, may_be_inside))
      problems.collect([&] { fail_unnamed(pin); });
  }
  problems.throw_if_any();
}

void check_names(const std::vector<Pin>& pins, const graph::Graph& graph, Problems& problems) {
  const std::vector<graph::NodeId> producers = graph::producers(graph);
  for (const Pin& pin : pins)
    if (!names_operator(pin, graph))
      problems.collect([&] { check_names_tensor(pin, graph, producers); });
}

Pins::Pins(const std::vector<Pin>& pins, const graph::Graph& graph, Problems* problems)
    : pins_(pins) {
  Problems own;
  check_names(pins_, graph, problems ? *problems : own);
  own.throw_if_any();
  for (const Pin& pin : pins_) is_for_operators_.push_back(names_operator(pin, graph));
}

const Pin* Pins::pin_of(const std::string& op_name) const {
  const auto pin = std::find_if(pins_.rbegin(), pins_.rend(),
                                [&](const Pin& each) { return matches(each, op_name); });
  return pin == pins_.rend() ? nullptr : &*pin;
}

bool Pins::name_partial_values() const {
  const auto are_named = [](const std::optional<std::vector<TensorShardSpec>>& specs,
                            const std::map<std::size_t, TensorShardSpec>& some) {
    const auto is_partial = [](const auto& entry) { return entry.second.is_partial(); };
    return (specs && std::ranges::any_of(*specs, &TensorShardSpec::is_partial)) ||
           std::ranges::any_of(some, is_partial);
  };
  return std::ranges::any_of(pins_, [&](const Pin& pin) {
    return are_named(pin.inputs, pin.some_inputs) || are_named(pin.outputs, pin.some_outputs);
  });
}

std::vector<OpShardSpec> Pins::allowed(const std::string& op_name,
                                       std::vector<OpShardSpec> choices) const {
  const Pin* pin = pin_of(op_name);
  if (!pin) return choices;
  std::vector<OpShardSpec> left;
  for (const OpShardSpec& choice : choices) {
    if ((!pin->inputs || *pin->inputs == choice.inputs) &&
        (!pin->outputs || *pin->outputs == choice.outputs) &&
        are_in(pin->some_inputs, choice.inputs) && are_in(pin->some_outputs, choice.outputs) &&
        (!pin->reductions || *pin->reductions == choice.reductions)) {
      left.push_back(choice);
    }
  }
  if (!left.empty()) return left;
  std::string possible;
  for (std::size_t i = 0; i < choices.size() && i < 8; ++i) {
    possible += (i == 0 ? "" : "; ") + to_string(choices[i]);
  }
  fail("--strategy pins operator '{}' to {}, which it cannot take on this mesh: possible are {}",
       op_name, describe(*pin), possible);
}

const Pin* Pins::pin_of_tensor(const std::string& name) const {
  const Pin* pin = nullptr;
  for (std::size_t i = 0; i < pins_.size(); ++i) {
    const bool is_for_it =
        pins_[i].name == name || (!is_for_operators_[i] && matches(pins_[i], name));
    if (is_for_it) pin = &pins_[i];
  }
  return pin != nullptr && pin->outputs ? pin : nullptr;
}

std::vector<TensorShardSpec> Pins::allowed(const std::string& tensor_name,
                                           std::vector<TensorShardSpec> choices) const {
  const Pin* pin = pin_of_tensor(tensor_name);
  if (pin == nullptr) return choices;
  if (pin->outputs->size() != 1 ||
      std::ranges::find(choices, pin->outputs->front()) == choices.end()) {
    fail("--strategy pins tensor '{}' to {}, but on this mesh it can only be {}", tensor_name,
         describe(*pin), fmt::join(texts(choices), " "));
  }
  return *pin->outputs;
}

}  // namespace autopar::search
