#include "graph/onnx/native_loop.h"

#include <algorithm>
#include <optional>

#include "graph/onnx/control_flow_parts.h"
#include "graph/onnx/unknown_shape.h"

namespace autopar::graph {
namespace {

using Values = std::vector<ValueId>;
using Services = ControlFlowServices;

/// A body in a body is read anew each time that the outer one is.
constexpr int deepest_loops = 4;
/// What is found to change from round to round may let more change.
constexpr int most_readings = 4;
/// A trip count from here on stands for no end at all.
constexpr std::int64_t most_native_rounds = std::int64_t{1} << 30;

bool is_same(ValueId a, ValueId b, const Services& services) {
  if (a == b) return true;
  if (a <= no_value || b <= no_value) return false;
  const Value& one = services.value(a);
  const Value& other = services.value(b);
  if (!one.constant || !other.constant || one.type != other.type || one.shape != other.shape ||
      !one.constant->has_data() || !other.constant->has_data() || bits_of(one.type) % 8 != 0)
    return false;
  const Tensor x = one.constant->contiguous_copy();
  const Tensor y = other.constant->contiguous_copy();
  return std::ranges::equal(x.bytes(), y.bytes());
}

std::string describe(const Value& value) {
  return fmt::format("{} {}", name_of(value.type), to_string(value.shape));
}

/// One reading of the graph, some of the carried values taken as what they were at first.
class Reading {
 public:
  Reading(const NativeLoop& loop, const Services& services, const std::vector<bool>& changes)
      : services_(services), around_(services.frames.depth()), body_(services.frames) {
    round_ = services.frames.builder().add_input({"round", false}, DataType::int64, {});
    for (std::size_t i = 0; i < loop.carried.size(); ++i)
      given_.push_back(changes[i] ? input_like(loop.carried[i])
                                  : services.frames.bring_in(loop.carried[i], around_));
    made_ = loop.read(round_, given_);
  }

  const Values& given() const { return given_; }
  const Values& made() const { return made_; }
  bool keeps(std::size_t i) const { return is_same(made_[1 + i], given_[i], services_); }
  BodyFrames::Finished finish(const Values& outputs) { return body_.finish(outputs); }

 private:
  ValueId input_like(ValueId first) {
    const Value value = services_.frames.value(first, around_);
    return services_.frames.builder().add_input({value.name, false}, value.type, value.shape);
  }

  const Services& services_;
  int around_;
  BodyFrames::Body body_;
  ValueId round_ = no_value;
  Values given_;
  Values made_;
};

void check_carried(const Reading& reading, std::size_t i, bool changes, const std::string& name,
                   const Services& services) {
  const ValueId before = reading.given()[i];
  const ValueId after = reading.made()[1 + i];
  if (!changes && reading.keeps(i)) return;
  if (before <= no_value || after <= no_value)
    fail(
        "it carries a sequence or an optional value that changes, and too much of it is known in "
        "a run alone to unroll it: let it carry tensors, or make a known number of rounds");
  const Value& first = services.value(before);
  const Value& then = services.value(after);
  if (first.type == then.type && first.shape == then.shape) return;
  throw UnknownShape(fmt::format(
      "'{}', which it carries, is {} before a round and {} after it: a loop that only the run ends "
      "must keep types and shapes (or give the model input that its rounds depend on with "
      "--constant)",
      name, describe(first), describe(then)));
}

std::vector<bool> all_tensors(const NativeLoop& loop) {
  std::vector<bool> is_tensor;
  for (const ValueId id : loop.carried) is_tensor.push_back(id > no_value);
  return is_tensor;
}

/// Which carried values change from round to round: those are found by readings that take them as
/// constant until one makes something else of them.
std::vector<bool> find_changes(const NativeLoop& loop, const Services& services) {
  std::vector<bool> changes(loop.carried.size(), false);
  for (int readings = 0; readings < most_readings; ++readings) {
    bool is_stable = true;
    try {
      const Reading reading(loop, services, changes);
      for (std::size_t i = 0; i < changes.size(); ++i) {
        if (changes[i] || reading.keeps(i)) continue;
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
                                         const Services& services) {
  if (loop.trip_count == no_value || may_end_early) return std::nullopt;
  const auto trips = known(loop.trip_count, services);
  if (!trips || (loop.condition != no_value && !known(loop.condition, services)))
    return std::nullopt;
  if (loop.condition != no_value && known(loop.condition, services) == 0) return 0;
  return std::max<std::int64_t>(*trips, 0);
}

/// Some end must be in sight, as what runs for ever tells nobody why.
void require_an_end(const NativeLoop& loop, const Services& services) {
  const bool may_not_begin = loop.condition != no_value && known(loop.condition, services) != 1;
  const auto trips = loop.trip_count == no_value ? std::nullopt : known(loop.trip_count, services);
  if (loop.trip_count == no_value && !may_not_begin)
    fail("nothing ends it: it has no trip count, and its condition holds for ever");
  if (trips.value_or(0) > most_native_rounds)
    fail("it makes {} rounds, and no condition ends it before; more than {} are not supported",
         *trips, most_native_rounds);
}

[[noreturn]] void fail_collected(const NativeLoop& loop, const Services& services) {
  const bool is_counted = loop.trip_count != no_value && known(loop.trip_count, services);
  throw UnknownShape(fmt::format(
      "{} is not known before the run, but decides how much it collects: give a model input's "
      "value with --constant",
      is_counted ? "its condition" : "its trip count"));
}

/// For a loop that makes nothing.
Values left_as_it_was(const NativeLoop& loop) {
  Values result = loop.carried;
  result.resize(result.size() + loop.is_collected.size(), no_value);
  return result;
}

}  // namespace

std::vector<ValueId> add_native_loop(const NativeLoop& loop, const ControlFlowServices& services) {
  if (services.frames.depth() >= deepest_loops)
    fail("loops whose rounds only the run counts are nested more than {} deep", deepest_loops);
  // What is left of loops in a shard carries nothing that does not change.
  const std::vector<bool> changes =
      services.unrolls ? find_changes(loop, services) : all_tensors(loop);
  std::vector<std::string> names;
  for (const ValueId id : loop.carried)
    names.push_back(id > no_value ? services.value(id).name : std::string());
  Reading reading(loop, services, changes);
  const bool may_end_early = known(reading.made()[0], services) != 1;
  Values outputs{reading.made()[0]};
  std::vector<LoopOutput> types;
  const auto leaves = [&](ValueId id) {
    outputs.push_back(id);
    types.push_back({services.value(id).type, services.value(id).shape});
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    check_carried(reading, i, changes[i], names[i], services);
    if (changes[i]) leaves(reading.made()[1 + i]);
  }
  const std::size_t carried = types.size();
  for (std::size_t i = 0; i < loop.is_collected.size(); ++i)
    if (loop.is_collected[i]) leaves(reading.made()[1 + changes.size() + i]);
  if (types.empty()) return left_as_it_was(loop);
  BodyFrames::Finished finished = reading.finish(outputs);

  if (!may_end_early) require_an_end(loop, services);
  const auto rounds = known_rounds(loop, may_end_early, services);
  if (types.size() > carried && !rounds) fail_collected(loop, services);
  for (std::size_t o = carried; o < types.size(); ++o) {
    types[o].shape.insert(types[o].shape.begin(), *rounds);
    if (!is_possible(types[o].shape))
      fail("what it collects would have the impossible shape {}", to_string(types[o].shape));
  }
  Values inputs{loop.trip_count, loop.condition};
  for (std::size_t i = 0; i < changes.size(); ++i)
    if (changes[i]) inputs.push_back(loop.carried[i]);
  inputs.insert(inputs.end(), finished.captured.begin(), finished.captured.end());
  const Values made =
      services.add_loop(std::move(inputs), {std::move(finished.body), carried}, types);

  Values result;
  std::size_t next = 0;
  for (std::size_t i = 0; i < changes.size(); ++i)
    result.push_back(changes[i] ? made[next++] : loop.carried[i]);
  for (const bool is_collected : loop.is_collected)
    result.push_back(is_collected ? made[next++] : no_value);
  return result;
}

}  // namespace autopar::graph
