#include "graph/onnx/control_flow/native_loop.h"

#include <algorithm>

namespace autopar::graph {
namespace {

/// A body in a body is read anew each time that the outer one is.
constexpr int deepest_loops = 4;
/// A value that is found to change from round to round may let others change.
constexpr int most_readings = 4;
/// A trip count from here on stands for no end at all.
constexpr std::int64_t most_native_rounds = std::int64_t{1} << 30;

bool is_same(ValueId a, ValueId b, NodeReader& reader) {
  if (a == b) return true;
  if (a <= no_value || b <= no_value) return false;
  const Value& one = reader.value(a);
  const Value& other = reader.value(b);
  if (!one.constant || !other.constant || one.type != other.type || one.shape != other.shape ||
      !one.constant->has_data() || !other.constant->has_data() || bits_of(one.type) % 8 != 0)
    return false;
  const Tensor x = one.constant->contiguous_copy();
  const Tensor y = other.constant->contiguous_copy();
  return std::ranges::equal(x.bytes(), y.bytes());
}

/// One reading of the graph, some of the carried values taken as what they were at first.
struct Reading {
  Reading(const NativeLoop& loop, NodeReader& reader, const std::vector<bool>& changes)
      : body(reader.frames()) {
    const int around = reader.frames().depth() - 1;
    GraphBuilder& builder = reader.frames().builder();
    const ValueId round = builder.add_input({"round", false}, DataType::int64, {});
    for (std::size_t i = 0; i < loop.carried.size(); ++i) {
      if (!changes[i]) {
        given.push_back(reader.frames().bring_in(loop.carried[i], around));
        continue;
      }
      const Value value = reader.frames().builder(around).value(loop.carried[i]);
      given.push_back(builder.add_input({value.name, false}, value.type, value.shape));
    }
    made = loop.read(round, given);
  }

  BodyFrames::Body body;
  Values given;  ///< for what is carried
  Values made;   ///< by the round: whether another follows, what is carried, what is collected
};

bool keeps(const Reading& reading, std::size_t i, NodeReader& reader) {
  return is_same(reading.made[1 + i], reading.given[i], reader);
}

void check_carried(const Reading& reading, std::size_t i, bool changes, const std::string& name,
                   NodeReader& reader) {
  const ValueId before = reading.given[i];
  const ValueId after = reading.made[1 + i];
  if (!changes && keeps(reading, i, reader)) return;
  if (before <= no_value || after <= no_value)
    fail(
        "it carries a sequence or an optional value that changes, and too much of it is known in "
        "a run alone to unroll it: let it carry tensors, or make a known number of rounds");
  const Value& first = reader.value(before);
  const Value& then = reader.value(after);
  if (first.type == then.type && first.shape == then.shape) return;
  throw UnknownShape(fmt::format(
      "'{}', which it carries, is {} before a round and {} after it: a loop that only the run ends "
      "must keep types and shapes (or give the model input that its rounds depend on with "
      "--constant)",
      name, described(first), described(then)));
}

std::vector<bool> all_tensors(const NativeLoop& loop) {
  std::vector<bool> is_tensor;
  for (const ValueId id : loop.carried) is_tensor.push_back(id > no_value);
  return is_tensor;
}

/// Which carried values change from round to round: those are found by readings that take them as
/// constant until one makes something else of them.
std::vector<bool> find_changes(const NativeLoop& loop, NodeReader& reader) {
  std::vector<bool> changes(loop.carried.size(), false);
  for (int readings = 0; readings < most_readings; ++readings) {
    bool is_stable = true;
    try {
      const Reading reading(loop, reader, changes);
      for (std::size_t i = 0; i < changes.size(); ++i) {
        if (changes[i] || keeps(reading, i, reader)) continue;
        if (loop.carried[i] <= no_value) continue;
        changes[i] = true;
        is_stable = false;
      }
    } catch (const Error&) {
      // What was taken for constant may be why: with all that may change changing, it tells.
      break;
    }
    if (is_stable) return changes;
  }
  return all_tensors(loop);
}

/// How many rounds there are where no run is needed to tell.
std::optional<std::int64_t> known_rounds(const NativeLoop& loop, bool may_end_early,
                                         NodeReader& reader) {
  if (loop.trip_count == no_value || may_end_early) return std::nullopt;
  const auto trips = known_trips(loop, reader);
  const auto begins =
      loop.condition == no_value ? std::optional<std::int64_t>(1) : known(loop.condition, reader);
  if (!trips || !begins) return std::nullopt;
  return *begins == 0 ? 0 : std::max<std::int64_t>(*trips, 0);
}

/// Some end must be in sight, as what runs for ever tells nobody why.
void require_an_end(const NativeLoop& loop, NodeReader& reader) {
  const bool may_not_begin = loop.condition != no_value && known(loop.condition, reader) != 1;
  if (loop.trip_count == no_value && !may_not_begin)
    fail("nothing ends it: it has no trip count, and its condition holds for ever");
  const auto trips = known_trips(loop, reader);
  if (trips.value_or(0) > most_native_rounds)
    fail("it makes {} rounds, and no condition ends it before; more than {} are not supported",
         *trips, most_native_rounds);
}

[[noreturn]] void fail_collected(const NativeLoop& loop, NodeReader& reader) {
  fail_unknown(fmt::format("{} is not known before the run, but decides how much it collects",
                           known_trips(loop, reader) ? "its condition" : "its trip count"));
}

/// The body of a loop, what it captures, and the outputs of its node: first what is carried.
struct NativeBody {
  BodyFrames::Finished finished;
  std::vector<LoopOutput> outputs;  ///< of one round, where they are collected
  std::size_t carried = 0;
  bool may_end_early = false;
};

/// Reads the body; nullopt where it carries and collects nothing.
std::optional<NativeBody> read_body(const NativeLoop& loop, const std::vector<bool>& changes,
                                    NodeReader& reader) {
  std::vector<std::string> names;
  for (const ValueId id : loop.carried)
    names.push_back(id > no_value ? reader.value(id).name : std::string());
  Reading reading(loop, reader, changes);
  NativeBody body;
  const Value& goes_on = reader.value(reading.made[0]);
  if (goes_on.type != DataType::boolean || num_elements(goes_on.shape) != 1)
    fail("the condition that its graph makes is {} of {}, not one truth", to_string(goes_on.shape),
         name_of(goes_on.type));
  body.may_end_early = known(reading.made[0], reader) != 1;
  Values outputs{reading.made[0]};
  const auto leaves = [&](ValueId id) {
    outputs.push_back(id);
    body.outputs.push_back({reader.value(id).type, reader.value(id).shape});
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    check_carried(reading, i, changes[i], names[i], reader);
    if (changes[i]) leaves(reading.made[1 + i]);
  }
  body.carried = body.outputs.size();
  for (std::size_t i = 0; i < loop.is_collected.size(); ++i)
    if (loop.is_collected[i]) leaves(reading.made[1 + changes.size() + i]);
  if (body.outputs.empty()) return std::nullopt;
  body.finished = reading.body.finish(outputs);
  return body;
}

/// Gives what is collected its first dimension, the rounds.
void add_rounds(const NativeLoop& loop, NodeReader& reader, NativeBody& body) {
  if (!body.may_end_early) require_an_end(loop, reader);
  const auto rounds = known_rounds(loop, body.may_end_early, reader);
  if (body.outputs.size() > body.carried && !rounds) fail_collected(loop, reader);
  for (std::size_t o = body.carried; o < body.outputs.size(); ++o) {
    Shape& shape = body.outputs[o].shape;
    shape.insert(shape.begin(), *rounds);
    if (!is_possible(shape))
      fail("what it collects would have the impossible shape {}", to_string(shape));
  }
}

}  // namespace

std::optional<std::int64_t> known_trips(const NativeLoop& loop, NodeReader& reader) {
  return loop.trip_count == no_value ? std::nullopt : known(loop.trip_count, reader);
}

std::vector<bool> has_outputs(const onnx::NodeProto& node, std::size_t first, std::size_t last) {
  std::vector<bool> has;
  for (auto o = static_cast<int>(first); o < static_cast<int>(last); ++o)
    has.push_back(o < node.output_size() && !node.output(o).empty());
  return has;
}

Values add_native_loop(const NativeLoop& loop, NodeReader& reader) {
  if (reader.frames().depth() >= deepest_loops)
    fail("loops whose rounds only the run counts are nested more than {} deep", deepest_loops);
  // Loops in a shard carry only what changes.
  const std::vector<bool> changes =
      reader.unrolls() ? find_changes(loop, reader) : all_tensors(loop);
  Values made;
  if (auto body = read_body(loop, changes, reader)) {
    add_rounds(loop, reader, *body);
    Values inputs{loop.trip_count, loop.condition};
    for (std::size_t i = 0; i < changes.size(); ++i)
      if (changes[i]) inputs.push_back(loop.carried[i]);
    const Values& captured = body->finished.captured;
    inputs.insert(inputs.end(), captured.begin(), captured.end());
    made = reader.add_loop(std::move(inputs), {std::move(body->finished.body), body->carried},
                           body->outputs);
  }
  Values result;
  std::size_t next = 0;
  for (std::size_t i = 0; i < changes.size(); ++i)
    result.push_back(changes[i] ? made[next++] : loop.carried[i]);
  for (const bool is_collected : loop.is_collected)
    result.push_back(is_collected ? made[next++] : no_value);
  return result;
}

}  // namespace autopar::graph
