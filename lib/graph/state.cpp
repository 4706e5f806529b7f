#include "graph/state.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "graph/error.h"

namespace autopar::graph {
namespace {

/// "present.*" in front of and behind its star; without one, the whole name.
struct Side {
  std::string_view front;
  std::string_view back;
  bool has_star = false;

  explicit Side(std::string_view text) : front(text) {
    const auto star = text.find('*');
    if (star == std::string_view::npos) return;
    front = text.substr(0, star);
    back = text.substr(star + 1);
    has_star = true;
  }

  /// What the star stands for; nullopt where the name does not fit.
  std::optional<std::string> star_in(std::string_view name) const {
    if (!has_star) return name == front ? std::optional<std::string>("") : std::nullopt;
    if (name.size() < front.size() + back.size() || !name.starts_with(front) ||
        !name.ends_with(back))
      return std::nullopt;
    return std::string(name.substr(front.size(), name.size() - front.size() - back.size()));
  }

  std::string with(const std::string& star) const {
    return std::string(front) + star + std::string(back);
  }
};

std::pair<Side, Side> parse(const std::string& pattern) {
  const auto refuse = [&] {
    fail("--loop {}: give OUTPUT=INPUT, with one * on both sides or on none, as present.*=past.*",
         pattern);
  };
  const auto equals = pattern.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == pattern.size()) refuse();
  const std::string_view text = pattern;
  const Side from(text.substr(0, equals));
  const Side to(text.substr(equals + 1));
  if (from.has_star != to.has_star || from.back.find('*') != std::string::npos ||
      to.back.find('*') != std::string::npos)
    refuse();
  return {from, to};
}

std::optional<std::size_t> find(const Graph& graph, const std::vector<ValueId>& ports,
                                const std::string& name) {
  const auto found =
      std::ranges::find_if(ports, [&](ValueId id) { return graph.value(id).name == name; });
  if (found == ports.end()) return std::nullopt;
  return static_cast<std::size_t>(found - ports.begin());
}

void check_pair(const Value& output, const Value& input) {
  growth_of(output.name, output.shape, input.name, input.shape);
  if (output.type != input.type)
    fail("--loop: output '{}' is {}, but input '{}' {}", output.name, name_of(output.type),
         input.name, name_of(input.type));
}

}  // namespace

std::optional<Growth> growth_of(const std::string& output, const Shape& output_shape,
                                const std::string& input, const Shape& input_shape) {
  std::optional<Growth> growth;
  bool fits = output_shape.size() == input_shape.size();
  for (std::size_t d = 0; fits && d < input_shape.size(); ++d) {
    if (output_shape[d] == input_shape[d]) continue;
    fits = !growth && output_shape[d] > input_shape[d];
    growth = Growth{static_cast<int>(d), output_shape[d] - input_shape[d]};
  }
  if (!fits)
    fail(
        "--loop: output '{}' of {} cannot follow input '{}' of {}: it may be longer in one "
        "dimension, and must be alike in all others",
        output, to_string(output_shape), input, to_string(input_shape));
  return growth;
}

bool keeps_places(const Graph& graph, const State& state) {
  const std::vector<NodeId> made_by = producers(graph);
  bool is_padded = false;
  ValueId value = graph.outputs[state.output];
  for (NodeId maker; (maker = made_by[static_cast<std::size_t>(value)]) != no_node;) {
    const Node& node = graph.node(maker);
    if (node.inputs.empty()) return false;
    is_padded |= node.op_type == "Pad";
    value = node.inputs.front();
  }
  return is_padded && value == graph.inputs[state.input];
}

std::vector<State> match_states(const Graph& graph, std::span<const std::string> patterns) {
  std::vector<State> states;
  for (const std::string& pattern : patterns) {
    const auto [from, to] = parse(pattern);
    const std::size_t before = states.size();
    for (std::size_t o = 0; o < graph.outputs.size(); ++o) {
      const Value& output = graph.value(graph.outputs[o]);
      const auto star = from.star_in(output.name);
      if (!star) continue;
      const auto input = find(graph, graph.inputs, to.with(*star));
      if (!input)
        fail("--loop {}: output '{}' has no input '{}' to follow", pattern, output.name,
             to.with(*star));
      if (std::ranges::find(states, *input, &State::input) != states.end())
        fail("--loop {}: input '{}' is given twice", pattern, to.with(*star));
      check_pair(output, graph.value(graph.inputs[*input]));
      states.push_back({o, *input});
    }
    if (states.size() == before) fail("--loop {}: the model has no such output", pattern);
  }
  return states;
}

}  // namespace autopar::graph
