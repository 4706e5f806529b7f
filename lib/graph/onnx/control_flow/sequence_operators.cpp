#include "graph/onnx/control_flow/control_flow.h"

#include <algorithm>

#include "graph/onnx/attribute_proto.h"
#include "graph/onnx/constant_integers.h"

namespace autopar::graph {
namespace {

ValueId input_or_none(const Values& inputs, std::size_t i) {
  return i < inputs.size() ? inputs[i] : no_value;
}

Values elements_of(const Values& inputs, std::size_t i, NodeReader& reader) {
  const ValueId id = input_or_none(inputs, i);
  if (!Sequences::is_sequence(id)) fail("its input {} is no sequence", i);
  return reader.sequences().elements(id);
}

/// An axis that counts from the front.
std::int64_t axis_in(std::int64_t axis, std::size_t rank) {
  const auto dims = static_cast<std::int64_t>(rank);
  if (axis < -dims || axis >= dims) fail("its axis {} is none of {} dimensions", axis, rank);
  return axis < 0 ? axis + dims : axis;
}

/// The place that an input names among `size`, or one behind them where something is put there;
/// the last one where the input is left out.
std::size_t place_of(ValueId id, std::size_t size, bool may_be_behind, NodeReader& reader) {
  const auto count = static_cast<std::int64_t>(size);
  const std::int64_t last = count - (may_be_behind ? 0 : 1);
  std::int64_t place = last;
  if (id != no_value) {
    const auto told = known(id, reader);
    if (!told)
      fail(
          "its position in a sequence is not known before the run: give the model input that it "
          "depends on with --constant");
    place = *told;
  }
  if (place < -count || place > last)
    fail("its position {} is outside of a sequence of {} tensors", place, size);
  return static_cast<std::size_t>(place < 0 ? place + count : place);
}

Values sequence(Values elements, NodeReader& reader) {
  return {reader.sequences().add(std::move(elements))};
}

Values read_empty(const onnx::NodeProto&, const Values&, NodeReader& reader) {
  return sequence({}, reader);
}

Values read_construct(const onnx::NodeProto&, const Values& inputs, NodeReader& reader) {
  return sequence(inputs, reader);
}

Values read_insert(const onnx::NodeProto&, const Values& inputs, NodeReader& reader) {
  Values elements = elements_of(inputs, 0, reader);
  const std::size_t place = place_of(input_or_none(inputs, 2), elements.size(), true, reader);
  elements.insert(elements.begin() + static_cast<std::ptrdiff_t>(place), inputs.at(1));
  return sequence(std::move(elements), reader);
}

Values read_erase(const onnx::NodeProto&, const Values& inputs, NodeReader& reader) {
  Values elements = elements_of(inputs, 0, reader);
  const std::size_t place = place_of(input_or_none(inputs, 1), elements.size(), false, reader);
  elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(place));
  return sequence(std::move(elements), reader);
}

Values read_at(const onnx::NodeProto&, const Values& inputs, NodeReader& reader) {
  const Values elements = elements_of(inputs, 0, reader);
  return {elements[place_of(inputs.at(1), elements.size(), false, reader)]};
}

Values read_length(const onnx::NodeProto&, const Values& inputs, NodeReader& reader) {
  return {integer(std::ssize(elements_of(inputs, 0, reader)), reader)};
}

Values read_concat(const onnx::NodeProto& node, const Values& inputs, NodeReader& reader) {
  Values elements = elements_of(inputs, 0, reader);
  if (elements.empty()) fail("it concatenates a sequence of no tensors");
  const bool is_new = int_or(node, "new_axis", 0) != 0;
  const std::size_t rank = reader.value(elements[0]).shape.size();
  const std::int64_t axis = axis_in(int_or(node, "axis", 0), rank + (is_new ? 1 : 0));
  if (is_new) return {stacked(elements, axis, reader)};
  if (elements.size() == 1) return elements;
  return {reader.add("Concat", elements, {{"axis", axis}})};
}

/// The lengths of the pieces that SplitToSequence makes of `extent`.
std::vector<std::int64_t> piece_lengths(ValueId split, std::int64_t extent, NodeReader& reader) {
  if (split == no_value) return std::vector<std::int64_t>(static_cast<std::size_t>(extent), 1);
  const Value& value = reader.value(split);
  if (!value.constant || !value.constant->has_data())
    throw UnknownShape(
        "the lengths that it splits into are not known before the run: give the model input that "
        "they depend on with --constant");
  std::vector<std::int64_t> lengths = constant_integers(value);
  if (value.shape.empty()) {
    const std::int64_t length = lengths.at(0);
    if (length <= 0) fail("it splits into pieces of {}", length);
    lengths.clear();
    for (std::int64_t begin = 0; begin < extent; begin += length)
      lengths.push_back(std::min(length, extent - begin));
  }
  std::int64_t sum = 0;
  for (const std::int64_t length : lengths) {
    if (length < 0 || length > extent - sum)
      fail("the lengths that it splits into do not fit an extent of {}", extent);
    sum += length;
  }
  if (sum != extent) fail("it splits an extent of {} into pieces of {} together", extent, sum);
  return lengths;
}

Values read_split(const onnx::NodeProto& node, const Values& inputs, NodeReader& reader) {
  const ValueId split = input_or_none(inputs, 1);
  const Shape shape = reader.value(inputs.at(0)).shape;
  const std::int64_t axis = axis_in(int_or(node, "axis", 0), shape.size());
  // PyTorch's exporter writes unbind with pieces of 1; other runtimes drop the axis there, too.
  const bool is_single =
      split == no_value || (reader.value(split).shape.empty() && known(split, reader) == 1);
  const bool drops_axis = is_single && int_or(node, "keepdims", 1) == 0;
  const std::int64_t extent = shape[static_cast<std::size_t>(axis)];
  if (extent > most_rounds)
    fail("it makes a sequence of {} tensors; more than {} are not supported", extent, most_rounds);
  Values elements;
  std::int64_t begin = 0;
  for (const std::int64_t length : piece_lengths(split, extent, reader)) {
    elements.push_back(
        drops_axis ? part(inputs[0], begin, axis, reader)
                   : reader.add("Slice",
                                {inputs[0], vector_of({begin}, reader),
                                 vector_of({begin + length}, reader), vector_of({axis}, reader)},
                                {}));
    begin += length;
  }
  return sequence(std::move(elements), reader);
}

/// The nested graph, once for each tensor of the first sequence.
Values read_map(const onnx::NodeProto& node, const Values& inputs, NodeReader& reader) {
  const onnx::GraphProto& body = body_of(node, "body");
  const std::size_t count = elements_of(inputs, 0, reader).size();
  const auto outputs = static_cast<std::size_t>(node.output_size());
  if (body.input_size() != std::ssize(inputs) || body.output_size() < node.output_size())
    fail("its graph has {} inputs and {} outputs, not {} and {}", body.input_size(),
         body.output_size(), inputs.size(), outputs);
  std::vector<Values> made(outputs);
  for (std::size_t at = 0; at < count; ++at) {
    Values given;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!Sequences::is_sequence(inputs[i])) {
        given.push_back(inputs[i]);
        continue;
      }
      const Values elements = elements_of(inputs, i, reader);
      if (elements.size() != count)
        fail("its sequences have {} and {} tensors", count, elements.size());
      given.push_back(elements[at]);
    }
    const Values results = reader.read(body, given, static_cast<int>(at));
    for (std::size_t o = 0; o < outputs; ++o) made[o].push_back(results[o]);
  }
  Values sequences;
  for (Values& elements : made) sequences.push_back(reader.sequences().add(std::move(elements)));
  return sequences;
}

/// An optional value is the value, or no_value where there is none.
Values read_optional(const onnx::NodeProto&, const Values& inputs, NodeReader&) {
  return {input_or_none(inputs, 0)};
}

Values read_has_element(const onnx::NodeProto&, const Values& inputs, NodeReader& reader) {
  return {truth(input_or_none(inputs, 0) != no_value, reader)};
}

Values read_get_element(const onnx::NodeProto&, const Values& inputs, NodeReader&) {
  if (input_or_none(inputs, 0) == no_value) fail("it takes the value of an optional without one");
  return {inputs[0]};
}

}  // namespace

ReadNode find_sequence_operator(std::string_view op_type) {
  static const std::map<std::string_view, ReadNode> table = {
      {"SequenceEmpty", read_empty},
      {"SequenceConstruct", read_construct},
      {"SequenceInsert", read_insert},
      {"SequenceErase", read_erase},
      {"SequenceAt", read_at},
      {"SequenceLength", read_length},
      {"SequenceMap", read_map},
      {"ConcatFromSequence", read_concat},
      {"SplitToSequence", read_split},
      {"Optional", read_optional},
      {"OptionalHasElement", read_has_element},
      {"OptionalGetElement", read_get_element},
  };
  const auto found = table.find(op_type);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace autopar::graph
