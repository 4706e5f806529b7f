#include <algorithm>

#include "graph/onnx/control_flow/native_loop.h"

namespace autopar::graph {
namespace {

/// Appends what the rounds have made for each output that is collected.
template <typename OutputsOfNone>
void append_collected(const NativeLoop& loop, const std::vector<Values>& by_output,
                      const OutputsOfNone& outputs_of_none, NodeReader& reader, Values& outputs) {
  const bool collects = std::ranges::find(loop.is_collected, true) != loop.is_collected.end();
  std::vector<LoopOutput> of_none;
  if (collects && by_output.front().empty()) of_none = outputs_of_none();
  for (std::size_t i = 0; i < by_output.size(); ++i) {
    if (!loop.is_collected[i])
      outputs.push_back(no_value);
    else
      outputs.push_back(of_none.empty() ? stacked(by_output[i], 0, reader)
                                        : none_of(of_none[i], 0, reader));
  }
}

/// The rounds one after the other; nullopt where the run alone knows how many there are at most, or
/// there are too many. `read` reads the body for a round; `outputs_of_none` tells what it would
/// have collected where it makes none.
template <typename Read, typename OutputsOfNone>
std::optional<Values> unroll(const NativeLoop& loop, NodeReader& reader, const Read& read,
                             const OutputsOfNone& outputs_of_none) {
  const auto trips = known_trips(loop, reader);
  if (loop.trip_count != no_value && !trips) return std::nullopt;
  Values state = loop.carried;
  std::vector<Values> collected(loop.is_collected.size());
  ValueId goes_on = loop.condition == no_value ? truth(true, reader) : loop.condition;
  const Growth growth(reader);
  for (std::int64_t round = 0; !trips || round < *trips; ++round) {
    const auto goes = known(goes_on, reader);
    if (goes == 0) break;
    if (!goes && (!trips || *trips > most_rounds)) return std::nullopt;
    if (!goes && std::ranges::find(loop.is_collected, true) != loop.is_collected.end())
      fail_unknown("its condition is not known before the run, but decides how much it collects");
    Values given{integer(round, reader), goes ? goes_on : truth(true, reader)};
    given.insert(given.end(), state.begin(), state.end());
    reader.count_round();
    const Values made = read(given, static_cast<int>(round));
    for (std::size_t i = 0; i < state.size(); ++i)
      state[i] = goes ? made[i + 1] : either(goes_on, made[i + 1], state[i], reader);
    for (std::size_t i = 0; i < collected.size(); ++i)
      collected[i].push_back(made[1 + state.size() + i]);
    if (goes)
      goes_on = made[0];
    else if (known(made[0], reader) != 1)
      goes_on = reader.add("And", {goes_on, made[0]}, {});
    if (growth.is_too_much(round)) return std::nullopt;
  }
  append_collected(loop, collected, outputs_of_none, reader, state);
  return state;
}

/// The body of a loop takes the input for one number, or one truth.
void check_scalar(NodeReader& reader, const char* name, ValueId id, DataType type) {
  if (id == no_value) return;
  if (id < no_value) fail("its input '{}' is no tensor", name);
  const Value& value = reader.value(id);
  if (value.type != type || num_elements(value.shape) != 1)
    fail("its input '{}' is {} of {}, but must be one of {}", name, to_string(value.shape),
         name_of(value.type), name_of(type));
}

}  // namespace

Values read_loop(const onnx::NodeProto& node, const Values& inputs, NodeReader& reader) {
  const onnx::GraphProto& body = body_of(node, "body");
  NativeLoop loop;
  if (!inputs.empty()) loop.trip_count = inputs[0];
  if (inputs.size() > 1) loop.condition = inputs[1];
  check_scalar(reader, "M", loop.trip_count, DataType::int64);
  check_scalar(reader, "cond", loop.condition, DataType::boolean);
  loop.carried.assign(inputs.begin() + std::min<std::ptrdiff_t>(2, std::ssize(inputs)),
                      inputs.end());
  const std::size_t carried = loop.carried.size();
  const auto outputs = static_cast<std::size_t>(std::max(body.output_size(), 1));
  check_ports(node, body, carried + 2, outputs);
  if (outputs < carried + 1) fail("its graph has {} outputs for {} values", outputs, carried);
  if (node.output_size() >= static_cast<int>(outputs))
    fail("it has {} outputs, its graph {} beside its condition", node.output_size(), outputs - 1);
  loop.is_collected = has_outputs(node, carried, outputs - 1);
  const auto read_round = [&](const Values& given, int round) {
    return reader.read(body, given, round);
  };
  // The condition holds in every round that is made.
  loop.read = [&](ValueId round, const Values& given) {
    Values all{round, truth(true, reader)};
    all.insert(all.end(), given.begin(), given.end());
    return reader.read(body, all, -1);
  };
  const int around = reader.frames().depth();
  const auto outputs_of_none = [&] {
    return outputs_of_no_round(body, 1 + carried, reader, [&](ValueId round) {
      return loop.read(round, brought_in(loop.carried, around, reader));
    });
  };
  if (reader.unrolls())
    if (auto unrolled = unroll(loop, reader, read_round, outputs_of_none)) return *unrolled;
  return add_native_loop(loop, reader);
}

}  // namespace autopar::graph
