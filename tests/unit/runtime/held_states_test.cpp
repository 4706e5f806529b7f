#include "runtime/held_states.h"

#include <catch2/catch.hpp>

#include "base/error.h"

namespace autopar::runtime {
namespace {

using Catch::Matchers::Contains;
using graph::DataType;
using graph::Shape;
using graph::Tensor;

constexpr int ranks = 2;

/// Cut in halves along the second dimension, the heads.
bundle::PortInfo cache(const std::string& name, const Shape& shape) {
  bundle::PortInfo port{.name = name, .type = DataType::float32, .shape = shape};
  for (int rank = 0; rank < ranks; ++rank)
    port.ranges.push_back(std::vector<graph::Range>{
        {0, shape[0]}, {2 * rank, 2 * rank + 2}, {0, shape[2]}, {0, shape[3]}});
  return port;
}

bundle::PortInfo ids(std::int64_t batch, std::int64_t tokens) {
  bundle::PortInfo port{.name = "ids", .type = DataType::int64, .shape = {batch, tokens}};
  port.ranges.assign(ranks, std::vector<graph::Range>{{0, batch}, {0, tokens}});
  return port;
}

bundle::ProfileInfo profile(std::int64_t batch, std::int64_t tokens, std::int64_t past) {
  bundle::ProfileInfo made;
  made.inputs = {ids(batch, tokens), cache("past", {batch, 4, past, 8})};
  made.outputs = {cache("present", {batch, 4, past + tokens, 8})};
  return made;
}

/// A prompt of 16 tokens, and steps behind 31 rows at most.
bundle::MetaInfo decoder() {
  bundle::MetaInfo info;
  info.ranks.resize(ranks);
  info.profiles = {profile(1, 16, 0), profile(1, 1, 31)};
  info.states = {{"present", "past"}};
  return info;
}

const PortSymbols symbols = {{"ids", {"batch", "tokens"}}, {"past", {"batch", "4", "rows", "8"}}};

NamedTensors tokens(const Shape& shape) { return {{"ids", Tensor::zeros(DataType::int64, shape)}}; }

Shape past_of(const NamedTensors& inputs, const LoopOptions& loop,
              const HeldStates* before = nullptr) {
  return step_shapes(decoder(), symbols, inputs, loop, before).at("past");
}

TEST_CASE("a state that is not given has the shape that symbols and the run's options tell") {
  CHECK(past_of(tokens({1, 16}), {}) == Shape{1, 4, 0, 8});
  CHECK(past_of(tokens({1, 1}), {}) == Shape{1, 4, 31, 8});
  CHECK(past_of(tokens({1, 5}), {.past = 0}) == Shape{1, 4, 0, 8});
  CHECK(past_of(tokens({3, 1}), {.past = 9}) == Shape{3, 4, 9, 8});
  CHECK(past_of(tokens({3, 1}), {.capacity = 64}) == Shape{3, 4, 64, 8});
  CHECK(past_of(tokens({2, 3, 1}), {.steps = 2}) == Shape{3, 4, 31, 8});  // an entry a step
  const NamedTensors given{{"ids", Tensor::zeros(DataType::int64, {1, 1})},
                           {"past", Tensor::zeros(DataType::float32, {1, 4, 7, 8})}};
  CHECK(past_of(given, {.steps = 2}) == Shape{1, 4, 7, 8});
}

TEST_CASE("what is held: buffers for the longest profile, or as many rows as are asked for") {
  const bundle::MetaInfo info = decoder();
  const auto& prompt = info.profiles[0];
  const HeldStates held = held_after(info, prompt, {.past = 0}, false, nullptr);
  REQUIRE(held.states.size() == 1);
  CHECK(held.states[0].shape == Shape{1, 4, 31, 8});
  CHECK(held.states[0].rows == 16);
  CHECK(buffers_of(held, 1).at(0).shape == Shape{1, 2, 31, 8});
  CHECK(bytes_beside(held, prompt, 0) == 2 * 31 * 8 * 4);
  CHECK(bytes_beside(held, info.profiles[1], 0) == 0);

  const LoopOptions longer{.past = 0, .capacity = 40};
  const HeldStates more = held_after(info, prompt, longer, false, nullptr);
  CHECK(more.states[0].shape == Shape{1, 4, 40, 8});
  CHECK_FALSE(are_alike(more, held));
  // Shapes that are given are the buffers'.
  const HeldStates given = held_after(info, profile(1, 1, 7), {.steps = 2}, true, nullptr);
  CHECK(given.states[0].shape == Shape{1, 4, 7, 8});
  CHECK(past_of(tokens({1, 1}), {.continues = true}, &more) == Shape{1, 4, 40, 8});
  CHECK(past_of(tokens({1, 1}), {.continues = true, .past = 16}, &more) == Shape{1, 4, 16, 8});
}

TEST_CASE("rows are counted over runs of all shapes, and those that have no place refused") {
  const bundle::MetaInfo info = decoder();
  const auto step = [&](int steps, std::int64_t start, const HeldStates* before) {
    return held_after(info, info.profiles[1], {.steps = steps, .start = start, .continues = true},
                      false, before);
  };
  HeldStates held = held_after(info, info.profiles[0], {.past = 0}, false, nullptr);
  held = step(14, 0, &held);
  CHECK(held.states[0].rows == 30);
  CHECK_THROWS_WITH(step(3, 0, &held), Contains("would hold 32 rows, but has place for 31"));
  held = step(2, 0, &held);  // the last one's row is never read
  CHECK_THROWS_WITH(step(1, 0, &held), Contains("'past' would hold 32 rows"));
  CHECK_THROWS_WITH(step(2, 31, nullptr), Contains("has place for 31"));
  CHECK_THROWS_WITH(
      held_after(info, profile(1, 1, 40), {.past = 40, .capacity = 31}, false, nullptr),
      Contains("40 rows of a state that has place for 31"));
}

TEST_CASE("a graph that splits a state otherwise does not go on from it") {
  const bundle::MetaInfo info = decoder();
  const HeldStates held = held_after(info, info.profiles[0], {.past = 0}, false, nullptr);
  bundle::ProfileInfo whole = info.profiles[1];
  for (auto& ranges : whole.inputs[1].ranges) (*ranges)[1] = {0, 4};
  CHECK_THROWS_WITH(held_after(info, whole, {.continues = true}, false, &held),
                    Contains("lies otherwise"));
}

}  // namespace
}  // namespace autopar::runtime
