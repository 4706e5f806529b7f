#include <algorithm>
#include <limits>

#include "graph/onnx/attribute_proto.h"
#include "graph/onnx/control_flow/native_loop.h"

namespace autopar::graph {
namespace {

/// The attribute's integers, `size` of them; as many `otherwise` where it is absent.
std::vector<std::int64_t> integers(const onnx::NodeProto& node, std::string_view name,
                                   std::size_t size, std::int64_t otherwise) {
  const auto* attribute = find_attribute(node, name);
  if (attribute == nullptr) return std::vector<std::int64_t>(size, otherwise);
  if (attribute->ints_size() != static_cast<int>(size))
    fail("its attribute '{}' has {} numbers, not {}", name, attribute->ints_size(), size);
  return {attribute->ints().begin(), attribute->ints().end()};
}

/// The dimension of what is collected, which has so many, in which rounds are put together.
std::int64_t output_axis(std::int64_t given, std::size_t dimensions) {
  const auto rank = static_cast<std::int64_t>(dimensions);
  if (given < -rank || given >= rank)
    fail("its attribute 'scan_output_axes' has {}, but what it collects has {} dimension(s)", given,
         rank);
  return given < 0 ? given + rank : given;
}

/// One Scan over one sequence.
struct Sequence {
  const onnx::NodeProto& node;
  const onnx::GraphProto& body;
  std::size_t states = 0;
  std::vector<std::int64_t> input_axes;
  std::vector<std::int64_t> input_directions;
  std::vector<std::int64_t> output_axes;
  std::vector<std::int64_t> output_directions;
  std::int64_t length = 0;
};

/// Finds the sequences' length, and makes their axes count from the front.
void find_length(const Values& sequences, NodeReader& reader, Sequence& of) {
  std::optional<std::int64_t> length;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Shape& shape = reader.value(sequences[i]).shape;
    const auto rank = static_cast<std::int64_t>(shape.size());
    std::int64_t& axis = of.input_axes[i];
    const std::int64_t given = axis;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank)
      fail("its input '{}' {} has no dimension {}", reader.value(sequences[i]).name,
           to_string(shape), given);
    const std::int64_t extent = shape[static_cast<std::size_t>(axis)];
    if (length.value_or(extent) != extent)
      fail("its sequences have lengths of {} and {}", *length, extent);
    length = extent;
  }
  of.length = *length;
}

/// Reads a round whose number is a value, in the body of a loop.
Values read_in_body(const Sequence& of, Values given, const Values& sequences, ValueId round,
                    NodeReader& reader) {
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const ValueId place = of.input_directions[i] == 0
                              ? round
                              : reader.add("Sub", {integer(of.length - 1, reader), round}, {});
    given.push_back(reader.add("Gather", {sequences[i], place}, {{"axis", of.input_axes[i]}}));
  }
  return reader.read(of.body, given, -1);
}

/// nullopt where there are too many rounds.
std::optional<Values> unrolled_scan(const Sequence& of, Values state, const Values& sequences,
                                    int& round, const Growth& growth, NodeReader& reader) {
  std::vector<Values> collected(of.output_axes.size());
  for (std::int64_t t = 0; t < of.length; ++t) {
    if (growth.is_too_much(round)) return std::nullopt;
    Values given = state;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const std::int64_t place = of.input_directions[i] != 0 ? of.length - 1 - t : t;
      given.push_back(part(sequences[i], place, of.input_axes[i], reader));
    }
    reader.count_round();
    const Values made = reader.read(of.body, given, round++);
    std::copy_n(made.begin(), of.states, state.begin());
    for (std::size_t i = 0; i < collected.size(); ++i) collected[i].push_back(made[of.states + i]);
  }
  const int around = reader.frames().depth();
  std::vector<LoopOutput> of_none;
  if (of.length == 0 && !collected.empty())
    of_none = outputs_of_no_round(of.body, of.states, reader, [&](ValueId first) {
      return read_in_body(of, brought_in(state, around, reader),
                          brought_in(sequences, around, reader), first, reader);
    });
  for (std::size_t i = 0; i < collected.size(); ++i) {
    if (!of_none.empty()) {
      state.push_back(none_of(of_none[i], of.output_axes[i], reader));
      continue;
    }
    if (of.output_directions[i] != 0) std::ranges::reverse(collected[i]);
    const std::size_t rank = reader.value(collected[i][0]).shape.size() + 1;
    state.push_back(stacked(collected[i], output_axis(of.output_axes[i], rank), reader));
  }
  return state;
}

/// What a Loop collects along its first dimension, as the Scan has it: along `axis`, in the order
/// that `is_reversed` says.
ValueId arranged(ValueId collected, std::int64_t axis, bool is_reversed, NodeReader& reader) {
  if (is_reversed)
    collected = reader.add("Slice",
                           {collected, vector_of({-1}, reader),
                            vector_of({std::numeric_limits<std::int64_t>::min()}, reader),
                            vector_of({0}, reader), vector_of({-1}, reader)},
                           {});
  const auto rank = static_cast<std::int64_t>(reader.value(collected).shape.size());
  axis = output_axis(axis, reader.value(collected).shape.size());
  if (axis == 0) return collected;
  std::vector<std::int64_t> order;
  for (std::int64_t d = 1; d < rank; ++d) order.push_back(d);
  order.insert(order.begin() + axis, 0);
  return reader.add("Transpose", {collected}, {{"perm", order}});
}

/// The Scan as a Loop that counts the places of its sequences.
Values native_scan(const Sequence& of, const Values& state, const Values& sequences,
                   NodeReader& reader) {
  const int around = reader.frames().depth();
  NativeLoop loop;
  loop.trip_count = integer(of.length, reader);
  loop.carried = state;
  loop.is_collected = has_outputs(of.node, of.states, of.states + of.output_axes.size());
  loop.read = [&](ValueId round, const Values& given) {
    Values made = read_in_body(of, given, brought_in(sequences, around, reader), round, reader);
    made.insert(made.begin(), truth(true, reader));
    return made;
  };
  Values result = add_native_loop(loop, reader);
  for (std::size_t o = 0; o < of.output_axes.size(); ++o) {
    ValueId& collected = result[of.states + o];
    if (collected != no_value)
      collected = arranged(collected, of.output_axes[o], of.output_directions[o] != 0, reader);
  }
  return result;
}

Values scan(Sequence of, const Values& state, const Values& sequences, int& round,
            const Growth& growth, NodeReader& reader) {
  find_length(sequences, reader, of);
  if (reader.unrolls())
    if (auto unrolled = unrolled_scan(of, state, sequences, round, growth, reader))
      return *unrolled;
  return native_scan(of, state, sequences, reader);
}

}  // namespace

Values read_scan(const onnx::NodeProto& node, const Values& inputs, NodeReader& reader) {
  const auto* count = find_attribute(node, "num_scan_inputs");
  const bool in_batches = reader.opset() < 9;
  if (in_batches && !inputs.empty() && inputs[0] != no_value)
    fail("its input 'sequence_lens' is not supported");
  const Values given(inputs.begin() + (in_batches && !inputs.empty() ? 1 : 0), inputs.end());
  if (count == nullptr || count->i() <= 0 || count->i() > std::ssize(given))
    fail("its attribute 'num_scan_inputs' does not fit its {} inputs", given.size());
  for (const ValueId id : given)
    if (id <= no_value) fail("one of its inputs is no tensor");
  const auto scanned = static_cast<std::size_t>(count->i());
  Sequence of{node, body_of(node, "body"), given.size() - scanned, {}, {}, {}, {}, 0};
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
  const Growth growth(reader);
  int round = 0;
  if (!in_batches) return scan(of, states, sequences, round, growth, reader);

  const Shape first = reader.value(sequences[0]).shape;
  for (const ValueId id : given)
    if (const Shape& shape = reader.value(id).shape;
        first.empty() || shape.empty() || shape[0] != first[0])
      fail("its inputs {} and {} are not of one batch", to_string(first), to_string(shape));
  std::vector<Values> by_output(outputs);
  for (std::int64_t b = 0; b < first[0]; ++b) {
    reader.count_round();
    const auto of_batch = [&](const Values& whole) {
      Values parts;
      for (const ValueId id : whole) parts.push_back(part(id, b, 0, reader));
      return parts;
    };
    const Values done = scan(of, of_batch(states), of_batch(sequences), round, growth, reader);
    for (std::size_t o = 0; o < outputs; ++o) by_output[o].push_back(done[o]);
  }
  Values result;
  for (const Values& parts : by_output) result.push_back(stacked(parts, 0, reader));
  return result;
}

}  // namespace autopar::graph
