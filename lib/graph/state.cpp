#include "graph/state.h"

#include <algorithm>
#include <iterator>

#include "base/problems.h"

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

std::vector<std::string> names_of(const Graph& graph, const std::vector<ValueId>& ports) {
  std::vector<std::string> names;
  for (const ValueId id : ports) names.push_back(graph.value(id).name);
  return names;
}

/// The integers of an input that is a constant; none where it is left out; nullopt otherwise.
std::optional<std::vector<std::int64_t>> known_ints(const Graph& graph, const Node& node,
                                                    std::size_t input) {
  if (node.inputs.size() <= input || node.inputs[input] == no_value)
    return std::vector<std::int64_t>();
  const Value& value = graph.value(node.inputs[input]);
  if (!value.constant || value.type != DataType::int64) return std::nullopt;
  return value.constant->to_int64s();
}

bool pads_behind_alone(const Graph& graph, const Node& node) {
  const auto pads = known_ints(graph, node, 1);
  return pads && std::ranges::all_of(std::span(*pads).first(pads->size() / 2),
                                     [](std::int64_t pad) { return pad == 0; });
}

bool goes_forward(const Graph& graph, const Node& node) {
  const auto steps = known_ints(graph, node, 4);
  return steps && std::ranges::all_of(*steps, [](std::int64_t step) { return step > 0; });
}

/// An operator whose output has the elements of its first input at their places, along each
/// dimension that stays as long as it was, or of which some are written over.
struct BufferOperator {
  std::string_view domain;
  std::string_view op_type;
  bool lengthens = false;  ///< a dimension may become longer: what is behind says nothing
  bool (*leaves)(const Graph&, const Node&) = nullptr;  ///< null: so it is of every node
};

constexpr BufferOperator buffer_operators[] = {
    {"", "Cast"},
    {"", "Identity"},
    {"", "Pad", true, pads_behind_alone},
    {"", "ScatterElements"},
    {"", "ScatterND"},
    {"", "Slice", false, goes_forward},
    {"", "TensorScatter"},
    // What a shard does with a buffer whose parts are needed elsewhere
    {collective_domain, "AllGather"},
    {collective_domain, "AllReduce"},
    {collective_domain, "AllToAll"},
    {collective_domain, "Broadcast"},
    {collective_domain, "ReduceScatter"},
};

const BufferOperator* find_buffer_operator(const Node& node) {
  const auto* found = std::ranges::find_if(buffer_operators, [&](const BufferOperator& entry) {
    return entry.domain == node.domain && entry.op_type == node.op_type;
  });
  return found != std::end(buffer_operators) ? found : nullptr;
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
  const Value& output = graph.value(graph.outputs[state.output]);
  const Value& input = graph.value(graph.inputs[state.input]);
  const auto growth = growth_of(output.name, output.shape, input.name, input.shape);
  if (!growth) return false;
  const auto dim = static_cast<std::size_t>(growth->dim);
  const std::vector<NodeId> made_by = producers(graph);
  bool is_lengthened = false;
  ValueId value = graph.outputs[state.output];
  for (NodeId maker; (maker = made_by[static_cast<std::size_t>(value)]) != no_node;) {
    const Node& node = graph.node(maker);
    const BufferOperator* buffer = find_buffer_operator(node);
    if (!buffer || (buffer->leaves && !buffer->leaves(graph, node))) return false;
    const ValueId from = node.inputs.front();
    const std::int64_t more = graph.value(value).shape[dim] - graph.value(from).shape[dim];
    if (more < 0 || (more > 0 && !buffer->lengthens)) return false;
    is_lengthened |= more > 0;
    value = from;
  }
  return is_lengthened && value == graph.inputs[state.input];
}

std::vector<State> match_state_names(const StateNames& names, const std::string& pattern) {
  const auto [from, to] = parse(pattern);
  std::vector<State> states;
  std::vector<std::pair<std::string, std::string>> alone;  // outputs, and inputs that there are not
  for (std::size_t o = 0; o < names.outputs.size(); ++o) {
    const auto star = from.star_in(names.outputs[o]);
    if (!star) continue;
    const auto input = std::ranges::find(names.inputs, to.with(*star));
    if (input == names.inputs.end())
      alone.emplace_back(names.outputs[o], to.with(*star));
    else
      states.push_back({o, static_cast<std::size_t>(input - names.inputs.begin())});
  }
  if (!alone.empty())
    fail("--loop {}: output '{}' has no input '{}' to follow{}", pattern, alone.front().first,
         alone.front().second,
         alone.size() > 1 ? fmt::format(" ({} such outputs)", alone.size()) : "");
  if (states.empty()) fail("--loop {}: the model has no such output", pattern);
  return states;
}

std::vector<State> match_states(const Graph& graph, std::span<const std::string> patterns) {
  const StateNames names{names_of(graph, graph.outputs), names_of(graph, graph.inputs)};
  std::vector<State> states;
  Problems problems;
  const auto add = [&](const std::string& pattern, const State& state) {
    if (std::ranges::find(states, state.input, &State::input) != states.end())
      fail("--loop {}: input '{}' is given twice", pattern, names.inputs[state.input]);
    const Value& output = graph.value(graph.outputs[state.output]);
    const Value& input = graph.value(graph.inputs[state.input]);
    growth_of(output.name, output.shape, input.name, input.shape);
    if (output.type != input.type)
      fail("--loop: output '{}' is {}, but input '{}' {}", output.name, name_of(output.type),
           input.name, name_of(input.type));
    states.push_back(state);
  };
  for (const std::string& pattern : patterns) {
    problems.collect([&] {
      for (const State& state : match_state_names(names, pattern)) add(pattern, state);
    });
  }
  problems.throw_if_any();
  return states;
}

void refuse_states_of_tail(const TailSummary& tail, std::span<const std::string> patterns) {
  for (const std::string& pattern : patterns) {
    const Side from = parse(pattern).first;
    for (const ModelOutput& output : tail.outputs)
      if (from.star_in(output.name))
        fail(
            "--loop {}: output '{}' is the tail's, which is computed behind the last step: only an "
            "output whose shape is known before the run can be a state",
            pattern, output.name);
  }
}

void refuse_tail_of_states(const TailSummary& tail, std::span<const std::string> state_inputs) {
  for (const std::string& input : state_inputs)
    if (std::ranges::find(tail.inputs, input) != tail.inputs.end())
      fail(
          "--loop: input '{}' is a state, but the tail reads it, which is computed behind the last "
          "step; leave this state out",
          input);
}

}  // namespace autopar::graph
