#include "runtime/step_loop.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "graph_sketch.h"

namespace autopar::runtime {
namespace {

using namespace testing;
using Catch::Matchers::Contains;

using Ranges = std::vector<graph::Range>;

bundle::PortInfo port(const std::string& name, DataType type, const Shape& shape,
                      const std::vector<Ranges>& by_rank) {
  bundle::PortInfo info{.name = name, .type = type, .shape = shape};
  for (const Ranges& ranges : by_rank) info.ranges.emplace_back(ranges);
  return info;
}

/// Two ranks with half of the heads each; the cache has place for 4 rows of which a step makes one.
bundle::MetaInfo decoder() {
  bundle::MetaInfo info;
  info.stages.resize(1);
  bundle::ProfileInfo& profile = info.profiles.emplace_back();
  profile.inputs = {port("ids", DataType::int64, {1}, {{{0, 1}}, {{0, 1}}}),
                    port("past", DataType::float32, {2, 4}, {{{0, 1}, {0, 4}}, {{1, 2}, {0, 4}}})};
  profile.outputs = {
      port("logits", DataType::float32, {1, 8}, {{{0, 1}, {0, 4}}, {{0, 1}, {4, 8}}}),
      port("present", DataType::float32, {2, 5}, {{{0, 1}, {0, 5}}, {{1, 2}, {0, 5}}})};
  return info;
}

std::string error_of(bundle::MetaInfo info, const LoopOptions& options,
                     const std::vector<std::string>& states = {"present=past"}) {
  try {
    set_states(info, states);
    check_loop(info, info.profiles.front(), options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

const LoopOptions two_steps{.steps = 2};

}  // namespace

TEST_CASE("a loop needs outputs that lie as the inputs do which they follow") {
  CHECK(error_of(decoder(), two_steps) == "no error");
  bundle::MetaInfo swapped = decoder();
  std::swap(swapped.profiles[0].inputs[1].ranges[0], swapped.profiles[0].inputs[1].ranges[1]);
  CHECK_THAT(error_of(swapped, two_steps), Contains("--loop present=past"));
  bundle::MetaInfo cut = decoder();  // along the rows
  cut.profiles[0].inputs[1].ranges = {Ranges{{0, 2}, {0, 2}}, Ranges{{0, 2}, {2, 4}}};
  cut.profiles[0].outputs[1].ranges = {Ranges{{0, 2}, {0, 3}}, Ranges{{0, 2}, {3, 5}}};
  CHECK_THAT(error_of(cut, two_steps), Contains("another part of output 'present'"));
}

TEST_CASE("a loop that cannot be run is refused with the reason") {
  const auto with = [](auto change) {
    LoopOptions options = two_steps;
    change(options);
    return error_of(decoder(), options);
  };
  CHECK_THAT(with([](LoopOptions& loop) { loop.start = -1; }), Contains("--start -1"));
  CHECK_THAT(with([](LoopOptions& loop) { loop.steps = 0; }), Contains("--steps 0"));
  CHECK_THAT(error_of(decoder(), two_steps, {"present=future"}), Contains("no input 'future'"));
  CHECK_THAT(with([](LoopOptions& loop) {
               loop.choices = {{"scores", "ids"}};
             }),
             Contains("no such output"));
  CHECK_THAT(with([](LoopOptions& loop) {
               loop.choices = {{"logits", "words"}};
             }),
             Contains("no such input"));
  CHECK_THAT(with([](LoopOptions& loop) {
               loop.choices = {{"present", "ids"}};
             }),
             Contains("int64 or int32"));
  CHECK(with([](LoopOptions& loop) { loop.choices = {{"logits", "ids"}}; }) == "no error");
  bundle::MetaInfo batches = decoder();
  batches.microbatches = 2;
  CHECK_THAT(error_of(batches, two_steps), Contains("one microbatch"));
}

TEST_CASE("in stages, a state is on the ranks of one") {
  bundle::MetaInfo info = decoder();
  info.stages.resize(2);
  bundle::PortInfo& past = info.profiles[0].inputs[1];
  bundle::PortInfo& present = info.profiles[0].outputs[1];
  past.ranges = {std::nullopt, Ranges{{0, 2}, {0, 4}}};
  present.ranges = {std::nullopt, Ranges{{0, 2}, {0, 5}}};
  CHECK(error_of(info, two_steps) == "no error");
  std::swap(present.ranges[0], present.ranges[1]);
  CHECK_THAT(error_of(info, two_steps), Contains("rank 0 has another part of output 'present'"));
}

TEST_CASE("inputs of a step: an entry of those that have one, states at first, what was chosen") {
  bundle::MetaInfo info = decoder();
  LoopOptions options = two_steps;
  options.steps = 3;
  options.choices = {{"logits", "ids"}};
  set_states(info, {"present=past"});
  check_loop(info, info.profiles.front(), options);
  const graph::Tensor prompt = graph::Tensor::of_int64({2, 1}, {{7, 8}});
  const NamedTensors inputs = {{"ids", prompt}};
  CHECK_NOTHROW(check_inputs(info, info.profiles.front(), inputs, options));
  CHECK_THROWS_AS(check_inputs(info, info.profiles.front(), inputs), Error);
  const NamedTensors chosen = {{"ids", graph::Tensor::of_int64({1}, {{5}})}};

  const NamedTensors first = inputs_of_step(info, info.profiles.front(), inputs, options, 0, {});
  CHECK(first.at("ids").to_int64s() == std::vector<std::int64_t>{7});
  CHECK_FALSE(first.contains("past"));  // the session's buffers begin as zeros
  const NamedTensors second =
      inputs_of_step(info, info.profiles.front(), inputs, options, 1, chosen);
  CHECK(second.at("ids").to_int64s() == std::vector<std::int64_t>{8});
  CHECK_FALSE(second.contains("past"));
  const NamedTensors third =
      inputs_of_step(info, info.profiles.front(), inputs, options, 2, chosen);
  CHECK(third.at("ids").to_int64s() == std::vector<std::int64_t>{5});

  options.choices.clear();  // then three entries are wanted
  CHECK_THROWS_AS(check_inputs(info, info.profiles.front(), inputs, options), Error);
}

TEST_CASE("what is chosen is the place of the largest element, the first of equal ones") {
  const auto scores = tensor_of(DataType::float16, {2, 1, 4}, {1, 3, 3, 2, -5, -7, -4, -9});
  const graph::Tensor places = choose(scores, DataType::int32, {2, 1});
  CHECK(places.type() == DataType::int32);
  CHECK(places.shape() == Shape{2, 1});
  CHECK(places.to_int64s() == std::vector<std::int64_t>{1, 2});
}

}  // namespace autopar::runtime
