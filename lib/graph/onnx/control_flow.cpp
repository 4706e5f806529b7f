#include "graph/onnx/control_flow.h"

#include <algorithm>
#include <limits>

#include "graph/onnx/control_flow_parts.h"
#include "graph/onnx/native_loop.h"
#include "graph/onnx/tensor_proto.h"
#include "graph/onnx/unknown_shape.h"

namespace autopar::graph {
namespace {

using Values = std::vector<ValueId>;
using Services = ControlFlowServices;

[[noreturn]] void fail_unknown(const std::string& what) {
  throw UnknownShape(what + ": give a model input's value with --constant");
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

ValueId either(ValueId condition, ValueId yes, ValueId no, const Services& services);

/// `yes` where the condition holds, else `no`, element by element of two sequences.
ValueId either_list(ValueId condition, ValueId yes, ValueId no, const Services& services) {
  if (!Sequences::is_sequence(yes) || !Sequences::is_sequence(no))
    fail("its condition is not known before the run, but decides whether a value is there");
  Values elements = services.sequences.elements(yes);
  const Values others = services.sequences.elements(no);
  if (elements.size() != others.size())
    fail(
        "its condition is not known before the run, but decides whether a sequence has {} or {} "
        "tensors",
        elements.size(), others.size());
  for (std::size_t i = 0; i < elements.size(); ++i)
    elements[i] = either(condition, elements[i], others[i], services);
  return services.sequences.add(std::move(elements));
}

/// `yes` where the condition, of one element, holds, else `no`.
ValueId either(ValueId condition, ValueId yes, ValueId no, const Services& services) {
  if (yes == no) return yes;
  if (yes <= no_value || no <= no_value) return either_list(condition, yes, no, services);
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

/// Counts the nodes that unrolling adds.
class Growth {
 public:
  explicit Growth(const Services& services) : services_(services), before_(services.nodes()) {}
  bool is_too_much(std::int64_t rounds) const {
    return services_.nodes() - before_ > most_unrolled_nodes || rounds > most_rounds;
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
                             std::int64_t /*opset*/, const ControlFlowServices& services) {
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

namespace {

Values brought_in(Values values, int depth, const Services& services) {
  for (ValueId& id : values) id = services.frames.bring_in(id, depth);
  return values;
}

/// What is collected of no round, along a new dimension.
ValueId none_of(const LoopOutput& of_round, std::int64_t axis, const Services& services) {
  Shape shape = of_round.shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (axis < 0) axis += rank + 1;
  if (axis < 0 || axis > rank) fail("what it collects has {} dimensions, not {}", rank + 1, axis);
  shape.insert(shape.begin() + axis, 0);
  return services.add_constant(Tensor::zeros(of_round.type, shape));
}

LoopOutput declared(const onnx::ValueInfoProto& output) {
  const auto& type = output.type().tensor_type();
  LoopOutput result{data_type_from_proto(type.elem_type(), output.name()), {}};
  for (const auto& dim : type.shape().dim())
    result.shape.push_back(std::max<std::int64_t>(dim.dim_value(), 0));
  return result;
}

/// What the outputs of a round are, from the first that is collected on, where no round is made:
/// its nodes are read for their shapes and thrown away. Extents that these do not tell are those
/// that the graph's outputs declare, and 0 where they declare none, as ONNX Runtime has it.
template <typename Read>
std::vector<LoopOutput> outputs_of_no_round(const onnx::GraphProto& body, std::size_t first,
                                            const Services& services, const Read& read) {
  const BodyFrames::Body thrown_away(services.frames);
  const ValueId round = services.frames.builder().add_input({"round", false}, DataType::int64, {});
  std::vector<LoopOutput> outputs;
  try {
    const Values made = read(round);
    for (std::size_t o = first; o < made.size(); ++o)
      outputs.push_back({services.value(made[o]).type, services.value(made[o]).shape});
  } catch (const UnknownShape&) {
    outputs.clear();
    for (int o = static_cast<int>(first); o < body.output_size(); ++o)
      outputs.push_back(declared(body.output(o)));
  }
  return outputs;
}

/// Its trip count where that is known.
std::optional<std::int64_t> known_trips(const NativeLoop& loop, const Services& services) {
  return loop.trip_count == no_value ? std::nullopt : known(loop.trip_count, services);
}

/// Appends what the rounds have made for each output that is collected.
template <typename OutputsOfNone>
void append_collected(const NativeLoop& loop, const std::vector<Values>& by_output,
                      const OutputsOfNone& outputs_of_none, const Services& services,
                      Values& outputs) {
  const bool collects = std::ranges::find(loop.is_collected, true) != loop.is_collected.end();
  std::vector<LoopOutput> of_none;
  if (collects && by_output.front().empty()) of_none = outputs_of_none();
  for (std::size_t i = 0; i < by_output.size(); ++i) {
    if (!loop.is_collected[i])
      outputs.push_back(no_value);
    else
      outputs.push_back(of_none.empty() ? stacked(by_output[i], 0, services)
                                        : none_of(of_none[i], 0, services));
  }
}

/// The rounds one after the other; nullopt where the run alone knows how many there are at most, or
/// there are too many. `read` reads the body for a round; `outputs_of_none` tells what it would
/// have collected where it makes none.
template <typename Read, typename OutputsOfNone>
std::optional<Values> unroll(const NativeLoop& loop, const Services& services, const Read& read,
                             const OutputsOfNone& outputs_of_none) {
  const auto trips = known_trips(loop, services);
  if (loop.trip_count != no_value && !trips) return std::nullopt;
  Values state = loop.carried;
  std::vector<Values> collected(loop.is_collected.size());
  ValueId goes_on = loop.condition == no_value ? truth(true, services) : loop.condition;
  const Growth growth(services);
  for (std::int64_t round = 0; !trips || round < *trips; ++round) {
    const auto goes = known(goes_on, services);
    if (goes == 0) break;
    if (!goes && (!trips || *trips > most_rounds)) return std::nullopt;
    if (!goes && std::ranges::find(loop.is_collected, true) != loop.is_collected.end())
      fail_unknown("its condition is not known before the run, but decides how much it collects");
    Values given{integer(round, services), goes ? goes_on : truth(true, services)};
    given.insert(given.end(), state.begin(), state.end());
    const Values made = read(given, static_cast<int>(round));
    for (std::size_t i = 0; i < state.size(); ++i)
      state[i] = goes ? made[i + 1] : either(goes_on, made[i + 1], state[i], services);
    for (std::size_t i = 0; i < collected.size(); ++i)
      collected[i].push_back(made[1 + state.size() + i]);
    if (goes)
      goes_on = made[0];
    else if (known(made[0], services) != 1)
      goes_on = services.add("And", {goes_on, made[0]}, {});
    if (growth.is_too_much(round)) return std::nullopt;
  }
  append_collected(loop, collected, outputs_of_none, services, state);
  return state;
}

}  // namespace

std::vector<ValueId> read_loop(const onnx::NodeProto& node, const std::vector<ValueId>& inputs,
                               std::int64_t /*opset*/, const ControlFlowServices& services) {
  const onnx::GraphProto& body = body_of(node, "body");
  NativeLoop loop;
  if (!inputs.empty()) loop.trip_count = inputs[0];
  if (inputs.size() > 1) loop.condition = inputs[1];
  loop.carried.assign(inputs.begin() + std::min<std::ptrdiff_t>(2, std::ssize(inputs)),
                      inputs.end());
  const std::size_t carried = loop.carried.size();
  const auto outputs = static_cast<std::size_t>(std::max(body.output_size(), 1));
  check_ports(node, body, carried + 2, outputs);
  if (outputs < carried + 1) fail("its graph has {} outputs for {} values", outputs, carried);
  for (std::size_t o = carried; o + 1 < outputs; ++o) {
    const int output = static_cast<int>(o);
    loop.is_collected.push_back(output < node.output_size() && !node.output(output).empty());
  }
  const auto read_round = [&](const Values& given, int round) {
    return services.read(body, given, round);
  };
  // In every round that is made the condition holds.
  loop.read = [&](ValueId round, const Values& given) {
    Values all{round, truth(true, services)};
    all.insert(all.end(), given.begin(), given.end());
    return services.read(body, all, -1);
  };
  const int around = services.frames.depth();
  const auto outputs_of_none = [&] {
    return outputs_of_no_round(body, 1 + carried, services, [&](ValueId round) {
      return loop.read(round, brought_in(loop.carried, around, services));
    });
  };
  if (services.unrolls)
    if (auto unrolled = unroll(loop, services, read_round, outputs_of_none)) return *unrolled;
  return add_native_loop(loop, services);
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

/// The sequences' length; makes their axes count from the front.
std::int64_t length_of(const Sequence& of, const Values& sequences, std::vector<std::int64_t>& axes,
                       const Services& services) {
  std::optional<std::int64_t> length;
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
  return *length;
}

/// Reads a round whose number is a value, in the body of a loop.
Values read_in_body(const Sequence& of, Values given, const Values& sequences,
                    const std::vector<std::int64_t>& axes, std::int64_t length, ValueId round,
                    const Services& services) {
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const ValueId place = of.input_directions[i] == 0
                              ? round
                              : services.add("Sub", {integer(length - 1, services), round}, {});
    given.push_back(services.add("Gather", {sequences[i], place}, {{"axis", axes[i]}}));
  }
  return services.read(of.body, given, -1);
}

/// nullopt where there are too many rounds.
std::optional<Values> unrolled_scan(const Sequence& of, Values state, const Values& sequences,
                                    int& round, const Growth& growth, const Services& services) {
  std::vector<std::int64_t> axes = of.input_axes;
  const std::int64_t length = length_of(of, sequences, axes, services);
  std::vector<Values> collected(of.output_axes.size());
  for (std::int64_t t = 0; t < length; ++t) {
    if (growth.is_too_much(round)) return std::nullopt;
    Values given = state;
    for (std::size_t i = 0; i < sequences.size(); ++i)
      given.push_back(
          part(sequences[i], of.input_directions[i] != 0 ? length - 1 - t : t, axes[i], services));
    const Values made = services.read(of.body, given, round++);
    std::copy_n(made.begin(), of.states, state.begin());
    for (std::size_t i = 0; i < collected.size(); ++i) collected[i].push_back(made[of.states + i]);
  }
  const int around = services.frames.depth();
  std::vector<LoopOutput> of_none;
  if (length == 0 && !collected.empty())
    of_none = outputs_of_no_round(of.body, of.states, services, [&](ValueId first) {
      return read_in_body(of, brought_in(state, around, services),
                          brought_in(sequences, around, services), axes, length, first, services);
    });
  for (std::size_t i = 0; i < collected.size(); ++i) {
    if (!of_none.empty()) {
      state.push_back(none_of(of_none[i], of.output_axes[i], services));
      continue;
    }
    if (of.output_directions[i] != 0) std::ranges::reverse(collected[i]);
    std::int64_t axis = of.output_axes[i];
    if (axis < 0)
      axis += static_cast<std::int64_t>(services.value(collected[i][0]).shape.size()) + 1;
    state.push_back(stacked(collected[i], axis, services));
  }
  return state;
}

/// What a Loop collects along its first dimension, as the Scan has it: along `axis`, in the order
/// that `is_reversed` says.
ValueId arranged(ValueId collected, std::int64_t axis, bool is_reversed, const Services& services) {
  if (is_reversed)
    collected = services.add("Slice",
                             {collected, vector_of({-1}, services),
                              vector_of({std::numeric_limits<std::int64_t>::min()}, services),
                              vector_of({0}, services), vector_of({-1}, services)},
                             {});
  const auto rank = static_cast<std::int64_t>(services.value(collected).shape.size());
  if (axis < 0) axis += rank;
  if (axis == 0 || axis >= rank) return collected;
  std::vector<std::int64_t> order;
  for (std::int64_t d = 1; d < rank; ++d) order.push_back(d);
  order.insert(order.begin() + axis, 0);
  return services.add("Transpose", {collected}, {{"perm", order}});
}

/// The Scan as a Loop that counts the places of its sequences.
Values native_scan(const Sequence& of, const Values& state, const Values& sequences,
                   const Services& services) {
  std::vector<std::int64_t> axes = of.input_axes;
  const std::int64_t length = length_of(of, sequences, axes, services);
  const int around = services.frames.depth();
  NativeLoop loop;
  loop.trip_count = integer(length, services);
  loop.carried = state;
  for (std::size_t o = 0; o < of.output_axes.size(); ++o) {
    const int output = static_cast<int>(of.states + o);
    loop.is_collected.push_back(output < of.node.output_size() && !of.node.output(output).empty());
  }
  loop.read = [&](ValueId round, const Values& given) {
    Values made = read_in_body(of, given, brought_in(sequences, around, services), axes, length,
                               round, services);
    made.insert(made.begin(), truth(true, services));
    return made;
  };
  Values result = add_native_loop(loop, services);
  for (std::size_t o = 0; o < of.output_axes.size(); ++o) {
    ValueId& collected = result[of.states + o];
    if (collected != no_value)
      collected = arranged(collected, of.output_axes[o], of.output_directions[o] != 0, services);
  }
  return result;
}

Values scan(const Sequence& of, const Values& state, const Values& sequences, int& round,
            const Growth& growth, const Services& services) {
  if (services.unrolls)
    if (auto unrolled = unrolled_scan(of, state, sequences, round, growth, services))
      return *unrolled;
  return native_scan(of, state, sequences, services);
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
  for (const ValueId id : given)
    if (id <= no_value) fail("one of its inputs is no tensor");
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
