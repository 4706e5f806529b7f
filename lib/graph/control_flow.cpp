#include "graph/control_flow.h"

#include <algorithm>

#include "graph/unknown_shape.h"

namespace autopar::graph {
namespace {

using Values = std::vector<ValueId>;
using Services = ControlFlowServices;

[[noreturn]] void fail_unknown(const std::string& what) {
  throw UnknownShape(what + ": give a model input's value with --constant");
}

const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, std::string_view name) {
  const auto found = std::ranges::find(node.attribute(), name, &onnx::AttributeProto::name);
  return found == node.attribute().end() ? nullptr : &*found;
}

const onnx::GraphProto& body_of(const onnx::NodeProto& node, std::string_view name) {
  const auto* attribute = find_attribute(node, name);
  if (attribute == nullptr || !attribute->has_g()) fail("it has no graph '{}'", name);
  return attribute->g();
}

/// The attribute's integers, `size` of them; as many `otherwise` where it is absent.
std::vector<std::int64_t> integers(const onnx::NodeProto& node, std::string_view name,
                                   std::size_t size, std::int64_t otherwise) {
  const auto* attribute = find_attribute(node, name);
  if (attribute == nullptr) return std::vector<std::int64_t>(size, otherwise);
  if (attribute->ints_size() != static_cast<int>(size))
    fail("its attribute '{}' has {} numbers, not {}", name, attribute->ints_size(), size);
  return {attribute->ints().begin(), attribute->ints().end()};
}

/// The number of a constant of one; nullopt where it is known in a run alone.
std::optional<std::int64_t> known(ValueId id, const Services& services) {
  const auto& constant = services.value(id).constant;
  if (!constant || !constant->has_data() || constant->elements() != 1) return std::nullopt;
  return constant->to_int64s()[0];
}

ValueId integer(std::int64_t value, const Services& services) {
  return services.add_constant(Tensor::of_int64({}, std::span(&value, 1)));
}

ValueId truth(bool value, const Services& services) {
  Tensor tensor = Tensor::zeros(DataType::boolean, {});
  tensor.mutable_bytes()[0] = static_cast<std::byte>(value);
  return services.add_constant(std::move(tensor));
}

ValueId vector_of(const Shape& values, const Services& services) {
  return services.add_constant(
      Tensor::of_int64({static_cast<std::int64_t>(values.size())}, values));
}

/// `yes` where the condition, of one element, holds, else `no`.
ValueId either(ValueId condition, ValueId yes, ValueId no, const Services& services) {
  if (yes == no) return yes;
  const auto describe = [&](ValueId id) {
    return fmt::format("{} {}", name_of(services.value(id).type),
                       to_string(services.value(id).shape));
  };
  if (services.value(yes).type != services.value(no).type ||
      services.value(yes).shape != services.value(no).shape)
    fail_unknown(fmt::format(
        "its condition is not known before the run, but decides whether '{}' is {} or {}",
        services.value(yes).name, describe(yes), describe(no)));
  if (!services.value(condition).shape.empty())
    condition = services.add("Reshape", {condition, vector_of({}, services)}, {});
  return services.add("Where", {condition, yes, no}, {});
}

/// Along a new dimension.
ValueId stacked(const Values& parts, std::int64_t axis, const Services& services) {
  if (parts.empty()) fail("it makes no round, so that the shape of what it collects is not known");
  const ValueId axes = vector_of({axis}, services);
  Values wide;
  for (const ValueId part : parts) wide.push_back(services.add("Unsqueeze", {part, axes}, {}));
  return wide.size() == 1 ? wide[0] : services.add("Concat", wide, {{"axis", axis}});
}

ValueId part(ValueId of, std::int64_t index, std::int64_t axis, const Services& services) {
  return services.add("Gather", {of, integer(index, services)}, {{"axis", axis}});
}

/// Counts the nodes that unrolling adds.
class Growth {
 public:
  explicit Growth(const Services& services) : services_(services), before_(services.nodes()) {}
  void check(std::int64_t rounds) const {
    if (services_.nodes() - before_ > most_unrolled_nodes || rounds > most_rounds)
      fail("unrolled, it has more than {} nodes or {} rounds, which is not supported",
           most_unrolled_nodes, most_rounds);
  }

 private:
  const Services& services_;
  std::size_t before_;
};

void check_ports(const onnx::NodeProto& node, const onnx::GraphProto& body, std::size_t inputs,
                 std::size_t outputs) {
  if (body.input_size() != static_cast<int>(inputs) ||
      body.output_size() != static_cast<int>(outputs))
    fail("its graph has {} inputs and {} outputs, not {} and {}", body.input_size(),
         body.output_size(), inputs, outputs);
  if (node.output_size() > static_cast<int>(outputs))
    fail("it has {} outputs, its graph {}", node.output_size(), outputs);
}

}  // namespace

std::vector<ValueId> read_if(const onnx::NodeProto& node, const std::vector<ValueId>& inputs,
                             const ControlFlowServices& services) {
  const auto read = [&](const char* branch, int round) {
    const onnx::GraphProto& body = body_of(node, branch);
    if (body.output_size() != node.output_size())
      fail("it has {} outputs, its {} {}", node.output_size(), branch, body.output_size());
    return services.read(body, {}, round);
  };
  const auto& condition = services.value(inputs.at(0)).constant;
  if (condition) {
    const auto taken = known(inputs[0], services);
    if (!taken) fail("its condition is a constant without one truth");
    return read(*taken != 0 ? "then_branch" : "else_branch", -1);
  }
  const Values yes = read("then_branch", 1);
  const Values no = read("else_branch", 0);
  Values outputs;
  for (std::size_t o = 0; o < yes.size(); ++o)
    outputs.push_back(either(inputs[0], yes[o], no[o], services));
  return outputs;
}

std::vector<ValueId> read_loop(const onnx::NodeProto& node, const std::vector<ValueId>& inputs,
                               const ControlFlowServices& services) {
  const onnx::GraphProto& body = body_of(node, "body");
  Values state(inputs.begin() + std::min<std::ptrdiff_t>(2, std::ssize(inputs)), inputs.end());
  const std::size_t carried = state.size();
  const auto outputs = static_cast<std::size_t>(std::max(body.output_size(), 1));
  check_ports(node, body, carried + 2, outputs);
  if (outputs < carried + 1) fail("its graph has {} outputs for {} values", outputs, carried);
  std::vector<Values> collected(outputs - 1 - carried);

  std::optional<std::int64_t> trips;
  if (!inputs.empty() && inputs[0] != no_value) {
    trips = known(inputs[0], services);
    if (!trips) fail_unknown("its trip count is not known before the run");
  }
  const bool has_condition = inputs.size() > 1 && inputs[1] != no_value;
  ValueId goes_on = has_condition ? inputs[1] : truth(true, services);
  const Growth growth(services);
  for (std::int64_t round = 0; !trips || round < *trips; ++round) {
    const auto goes = known(goes_on, services);
    if (goes == 0) break;
    if (!goes && !trips)
      fail_unknown("neither its trip count nor its condition is known before the run");
    if (!goes && !collected.empty())
      fail_unknown("its condition is not known before the run, but decides how much it collects");
    Values given{integer(round, services), goes ? goes_on : truth(true, services)};
    given.insert(given.end(), state.begin(), state.end());
    const Values made = services.read(body, given, static_cast<int>(round));
    for (std::size_t i = 0; i < carried; ++i)
      state[i] = goes ? made[i + 1] : either(goes_on, made[i + 1], state[i], services);
    for (std::size_t i = 0; i < collected.size(); ++i)
      collected[i].push_back(made[1 + carried + i]);
    if (goes)
      goes_on = made[0];
    else if (known(made[0], services) != 1)
      goes_on = services.add("And", {goes_on, made[0]}, {});
    growth.check(round);
  }
  for (const Values& parts : collected) state.push_back(stacked(parts, 0, services));
  return state;
}

namespace {

/// One Scan over one sequence.
struct Sequence {
  const onnx::NodeProto& node;
  const onnx::GraphProto& body;
  std::size_t states = 0;
  std::vector<std::int64_t> input_axes;
  std::vector<std::int64_t> input_directions;
  std::vector<std::int64_t> output_axes;
  std::vector<std::int64_t> output_directions;
};

Values scan(const Sequence& of, Values state, const Values& sequences, int& round,
            const Growth& growth, const Services& services) {
  std::optional<std::int64_t> length;
  std::vector<std::int64_t> axes = of.input_axes;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Shape& shape = services.value(sequences[i]).shape;
    const auto rank = static_cast<std::int64_t>(shape.size());
    if (axes[i] < 0) axes[i] += rank;
    if (axes[i] < 0 || axes[i] >= rank)
      fail("its input '{}' {} has no dimension {}", services.value(sequences[i]).name,
           to_string(shape), of.input_axes[i]);
    const std::int64_t extent = shape[static_cast<std::size_t>(axes[i])];
    if (length.value_or(extent) != extent)
      fail("its sequences have lengths of {} and {}", *length, extent);
    length = extent;
  }
  std::vector<Values> collected(of.output_axes.size());
  for (std::int64_t t = 0; t < *length; ++t) {
    Values given = state;
    for (std::size_t i = 0; i < sequences.size(); ++i)
      given.push_back(
          part(sequences[i], of.input_directions[i] != 0 ? *length - 1 - t : t, axes[i], services));
    const Values made = services.read(of.body, given, round++);
    std::copy_n(made.begin(), of.states, state.begin());
    for (std::size_t i = 0; i < collected.size(); ++i) collected[i].push_back(made[of.states + i]);
    growth.check(round);
  }
  for (std::size_t i = 0; i < collected.size(); ++i) {
    if (of.output_directions[i] != 0) std::ranges::reverse(collected[i]);
    std::int64_t axis = of.output_axes[i];
    if (axis < 0 && !collected[i].empty())
      axis += static_cast<std::int64_t>(services.value(collected[i][0]).shape.size()) + 1;
    state.push_back(stacked(collected[i], axis, services));
  }
  return state;
}

}  // namespace

std::vector<ValueId> read_scan(const onnx::NodeProto& node, const std::vector<ValueId>& inputs,
                               std::int64_t opset, const ControlFlowServices& services) {
  const auto* count = find_attribute(node, "num_scan_inputs");
  const bool in_batches = opset < 9;
  if (in_batches && !inputs.empty() && inputs[0] != no_value)
    fail("its input 'sequence_lens' is not supported");
  const Values given(inputs.begin() + (in_batches && !inputs.empty() ? 1 : 0), inputs.end());
  if (count == nullptr || count->i() <= 0 || count->i() > std::ssize(given))
    fail("its attribute 'num_scan_inputs' does not fit its {} inputs", given.size());
  const auto scanned = static_cast<std::size_t>(count->i());
  Sequence of{node, body_of(node, "body"), given.size() - scanned, {}, {}, {}, {}};
  const auto outputs = static_cast<std::size_t>(of.body.output_size());
  check_ports(node, of.body, given.size(), outputs);
  if (outputs < of.states) fail("its graph has {} outputs for {} states", outputs, of.states);
  const std::size_t made = outputs - of.states;
  of.input_axes = integers(node, "scan_input_axes", scanned, 0);
  of.input_directions =
      integers(node, in_batches ? "directions" : "scan_input_directions", scanned, 0);
  of.output_axes = integers(node, "scan_output_axes", made, 0);
  of.output_directions = integers(node, "scan_output_directions", made, 0);
  const Values states(given.begin(), given.end() - static_cast<std::ptrdiff_t>(scanned));
  const Values sequences(given.end() - static_cast<std::ptrdiff_t>(scanned), given.end());
  const Growth growth(services);
  int round = 0;
  if (!in_batches) return scan(of, states, sequences, round, growth, services);

  const Shape first = services.value(sequences[0]).shape;
  std::vector<Values> by_output(outputs);
  for (std::int64_t b = 0; b < (first.empty() ? 0 : first[0]); ++b) {
    const auto of_batch = [&](const Values& whole) {
      Values parts;
      for (const ValueId id : whole) parts.push_back(part(id, b, 0, services));
      return parts;
    };
    const Values done = scan(of, of_batch(states), of_batch(sequences), round, growth, services);
    for (std::size_t o = 0; o < outputs; ++o) by_output[o].push_back(done[o]);
  }
  Values result;
  for (const Values& parts : by_output) result.push_back(stacked(parts, 0, services));
  return result;
}

}  // namespace autopar::graph
