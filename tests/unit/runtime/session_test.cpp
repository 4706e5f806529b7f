#include "runtime/session.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "bundle/meta_info.h"
#include "graph/onnx/onnx_export.h"
#include "graph_sketch.h"
#include "runtime/shape_source.h"
#include "unit/runtime/comm/tcp_world.h"

namespace autopar::runtime {
namespace {

using namespace testing;
using Catch::Matchers::Contains;

constexpr int ranks = 2;
constexpr std::int64_t rows = 4;  ///< that `past` has place for
constexpr std::int64_t most_bytes = 4096;

/// next = sum and all rows of x, and present = past with sum added to x as its last rows: two
/// states, one that is replaced and one that grows. This is one rank's half along dimension 0.
graph::Graph accumulator(std::int64_t rows_of_x, std::int64_t rows_of_past) {
  Builder sketch;
  const ValueId x = sketch.input("x", {1, rows_of_x, 3});
  const ValueId sum = sketch.input("sum", {1, 1, 3});
  const ValueId past = sketch.input("past", {1, rows_of_past, 3});
  const ValueId axis = sketch.graph.add_constant("axis", Tensor::of_int64({1}, {{1}}));
  const ValueId all =
      sketch.node("ReduceSum", {x, axis}, {1, 1, 3}, {{"keepdims", std::int64_t{1}}});
  const ValueId next = sketch.node("Add", {all, sum}, {1, 1, 3});
  const ValueId added = sketch.node("Add", {x, sum}, {1, rows_of_x, 3});
  const ValueId present = sketch.node("Concat", {past, added}, {1, rows_of_past + rows_of_x, 3},
                                      {{"axis", std::int64_t{1}}});
  sketch.graph.value(next).name = "next";
  sketch.graph.value(present).name = "present";
  sketch.graph.outputs = {next, present};
  sketch.graph.states = {{0, 1}, {1, 2}};
  sketch.graph.opsets[""] = 18;
  return sketch.graph;
}

bundle::PortInfo port(const std::string& name, std::int64_t rows_of_port) {
  bundle::PortInfo info{.name = name, .type = DataType::float32, .shape = {2, rows_of_port, 3}};
  for (int rank = 0; rank < ranks; ++rank)
    info.ranges.push_back(std::vector<graph::Range>{{rank, rank + 1}, {0, rows_of_port}, {0, 3}});
  info.specs = {"S0RR"};
  return info;
}

bundle::ProfileInfo profile_of(std::int64_t rows_of_x, std::int64_t rows_of_past) {
  bundle::ProfileInfo profile;
  profile.peak_bytes.assign(ranks, 1);
  profile.inputs = {port("x", rows_of_x), port("sum", 1), port("past", rows_of_past)};
  profile.outputs = {port("next", 1), port("present", rows_of_past + rows_of_x)};
  return profile;
}

/// The accumulator over two ranks, as a bundle.
class AccumulatorBundle {
 public:
  AccumulatorBundle() {
    bundle::MetaInfo info;
    info.model = "accumulator.onnx";
    info.stages = {{.stage = 0, .mesh = {{"axis0", ranks}}, .ranks = {0, 1}}};
    info.profiles = {profile_of(1, rows)};
    info.memory_limit_bytes = most_bytes;
    info.states = {{"next", "sum"}, {"present", "past"}};
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string name = "rank" + std::to_string(rank);
      const auto written = graph::save_onnx(accumulator(1, rows), dir() / (name + ".onnx"),
                                            dir() / (name + ".data"));
      info.ranks.push_back(
          {rank, 0, {rank}, {{name + ".onnx", written.model.bytes, written.model.xxh3}}, 0, 1});
    }
    std::ofstream(dir() / "meta-info.json") << bundle::sealed_text(bundle::to_json(info));
  }

  std::filesystem::path dir() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

const SessionOptions options{.device = {.threads = 1}, .launch = {.launcher = "none"}};

/// x of some steps: 6 numbers each, from 10 times the step's number on.
Tensor x_of(int first_step, int steps) {
  std::vector<double> values;
  for (int step = first_step; step < first_step + steps; ++step)
    for (int i = 0; i < 6; ++i) values.push_back(10 * step + i);
  return tensor_of(DataType::float32, {steps, 2, 1, 3}, values);
}
Tensor x_of(int step) { return x_of(step, 1).reshaped({2, 1, 3}); }

std::vector<float> floats(const Tensor& tensor) {
  const auto values = tensor.values<float>();
  return {values.begin(), values.end()};
}

TEST_CASE("a session tells its bundle's inputs and outputs, and how many ranks it has") {
  const AccumulatorBundle bundle;
  const Session session(bundle.dir(), options);
  REQUIRE(session.inputs().size() == 3);
  CHECK(session.inputs()[2].name == "past");
  CHECK(session.inputs()[2].type == DataType::float32);
  CHECK(session.inputs()[2].shape == Shape{2, rows, 3});
  REQUIRE(session.outputs().size() == 2);
  CHECK(session.outputs()[1].name == "present");
  CHECK(session.outputs()[1].shape == Shape{2, rows + 1, 3});
  CHECK(session.num_ranks() == ranks);
  CHECK(session.has_first_rank());
}

TEST_CASE("runs of one session give what each gives in a session of its own") {
  const AccumulatorBundle bundle;
  Session session(bundle.dir(), options);
  for (int step = 0; step < 3; ++step) {
    const NamedTensors inputs{{"x", x_of(step)},
                              {"sum", x_of(5)},
                              {"past", Tensor::zeros(DataType::float32, {2, rows, 3})}};
    const RunResult result = session.run(inputs);
    const RunResult alone = Session(bundle.dir(), options).run(inputs);
    for (const char* name : {"next", "present"})
      CHECK(floats(result.outputs.at(name)) == floats(alone.outputs.at(name)));
    CHECK(result.run_seconds.size() == 1);
    CHECK(result.peak_bytes.size() == ranks);
  }
}

/// One run of three steps behind one row that `past` holds; zeros at first.
RunResult three_steps(Session& session) {
  return session.run({{"x", x_of(0, 3)}}, {.loop = {.steps = 3, .start = 1}});
}

/// The same as a run of one step, one of two, or three of one.
RunResult continued(Session& session, const std::vector<int>& steps_of_runs) {
  RunResult result;
  int done = 0;
  for (const int steps : steps_of_runs) {
    const NamedTensors inputs{{"x", x_of(done, steps)}};
    result = session.run(inputs, {.loop = {.steps = steps, .start = 1, .continues = true}});
    done += steps;
  }
  return result;
}

TEST_CASE("a run continues the one before, as if both were one run of several steps") {
  const AccumulatorBundle bundle;
  Session session(bundle.dir(), options);
  const RunResult whole = three_steps(session);
  CHECK(floats(whole.outputs.at("next")) == std::vector<float>{30, 33, 36, 39, 42, 45});
  for (const std::vector<int>& steps : {std::vector{1, 1, 1}, {1, 2}, {2, 1}}) {
    Session anew(bundle.dir(), options);
    const RunResult result = continued(anew, steps);
    for (const char* name : {"next", "present"})
      CHECK(floats(result.outputs.at(name)) == floats(whole.outputs.at(name)));
  }
  // A run that does not continue begins with zeros, and so with what it gave at first.
  CHECK(floats(three_steps(session).outputs.at("present")) == floats(whole.outputs.at("present")));
}

TEST_CASE(
    "a run that is given a state begins anew, and only the outputs that are wanted are made") {
  const AccumulatorBundle bundle;
  Session session(bundle.dir(), options);
  const RunOptions next{.loop = {.continues = true}, .outputs = {"next"}};
  const RunResult first = session.run({{"x", x_of(0)}}, next);
  CHECK(first.outputs.size() == 1);
  for (int step = 1; step < 4; ++step) session.run({{"x", x_of(step)}}, next);
  const Tensor zero = Tensor::zeros(DataType::float32, x_of(0).shape());
  const RunResult again = session.run({{"x", x_of(0)}, {"sum", zero}}, next);
  CHECK(floats(again.outputs.at("next")) == floats(first.outputs.at("next")));
  // Rows are counted anew, too.
  for (int step = 1; step < 5; ++step) session.run({{"x", x_of(step)}}, next);
  CHECK_THROWS_WITH(session.run({{"x", x_of(5)}}, next), Contains("has place for 4"));
}

/// The accumulator for any number of rows.
ShapedProgram accumulator_for(const InputShapes& inputs) {
  const std::int64_t x = inputs.at("x")[1];
  const std::int64_t past = inputs.at("past")[1];
  return {.profile = profile_of(x, past),
          .shard = [=](int) { return accumulator(x, past); },
          .digest = std::to_string(x) + " " + std::to_string(past)};
}

/// What the states should be, by plain loops.
struct Accumulated {
  std::vector<float> sum = std::vector<float>(6, 0);
  std::vector<std::vector<float>> rows = {};  ///< of both ranks, 6 numbers each

  void add(const Tensor& x) {
    const std::int64_t count = x.shape()[1];
    const std::vector<float> before = sum;
    for (std::int64_t r = 0; r < count; ++r) {
      std::vector<float>& row = rows.emplace_back();
      for (std::int64_t half = 0; half < 2; ++half)
        for (std::int64_t i = 0; i < 3; ++i) {
          const auto at_sum = static_cast<std::size_t>(half * 3 + i);
          const float value = floats(x)[static_cast<std::size_t>((half * count + r) * 3 + i)];
          row.push_back(value + before[at_sum]);
          sum[at_sum] += value;
        }
    }
  }
  /// The output `present` of a run with so many rows of past, with zeros where none is written.
  std::vector<float> present(std::int64_t past, std::int64_t count) const {
    std::vector<float> values;
    const std::int64_t before = std::ssize(rows) - count;
    for (std::size_t half = 0; half < 2; ++half) {
      for (std::int64_t r = 0; r < past + count; ++r) {
        const std::int64_t row = r < past ? r : before + r - past;
        const bool is_there = r >= past || r < before;
        for (std::size_t i = 0; i < 3; ++i)
          values.push_back(is_there ? rows[static_cast<std::size_t>(row)][half * 3 + i] : 0);
      }
    }
    return values;
  }
};

/// A prompt and steps, led by rank 0, with states for so many rows.
void check_texts(Session& session, std::int64_t capacity) {
  for (const std::int64_t prompt : {3, 1, 5}) {
    Accumulated expected;
    const auto run = [&](std::int64_t count, std::optional<std::int64_t> past) {
      const bool is_first = expected.rows.empty();
      std::vector<double> values;
      for (std::int64_t i = 0; i < 6 * count; ++i)
        values.push_back(static_cast<double>(std::ssize(expected.rows) * 7 + i * i % 11));
      const Tensor x = tensor_of(DataType::float32, {2, count, 3}, values);
      LoopOptions loop{.continues = !is_first, .past = past};
      if (is_first) loop.capacity = capacity;
      const RunResult result = session.lead({{"x", x}}, {.loop = loop});
      expected.add(x);
      CHECK(floats(result.outputs.at("next")) == expected.sum);
      CHECK(floats(result.outputs.at("present")) ==
            expected.present(past.value_or(capacity), count));
    };
    run(prompt, 0);
    run(1, std::nullopt);
    run(1, std::nullopt);
    run(2, prompt + 2);  // its past has no other rows
    run(1, 1);           // and this one's not all
    run(1, std::nullopt);
    const std::int64_t missing = prompt + 6 - capacity;
    const LoopOptions more{.steps = static_cast<int>(2 - missing), .continues = true};
    CHECK_THROWS_WITH(session.lead({{"x", x_of(0)}}, {.loop = more}), Contains("has place for"));
    run(1, std::nullopt);
  }
}

TEST_CASE("a prompt, steps and what reads the past's first rows go on from one another") {
  const AccumulatorBundle bundle;
  SessionOptions any_shape = options;
  any_shape.shapes = accumulator_for;
  {
    Session session(bundle.dir(), any_shape);
    for (const std::int64_t capacity : {12, 11, 12}) check_texts(session, capacity);
    // The states begin anew in a loop that says nothing of them.
    CHECK(floats(three_steps(session).outputs.at("next")) ==
          std::vector<float>{30, 33, 36, 39, 42, 45});
    const LoopOptions too_many{.past = 0, .capacity = 1000};
    CHECK_THROWS_WITH(session.run({{"x", x_of(0)}}, {.loop = too_many}),
                      Contains("the limit is 4096"));
    check_texts(session, 11);
  }
  any_shape.shape_cache_bytes = 0;  // every shape is made anew
  Session session(bundle.dir(), any_shape);
  check_texts(session, 12);
}

TEST_CASE("a loop goes on from a loop alone") {
  const AccumulatorBundle bundle;
  Session session(bundle.dir(), options);
  const RunOptions next{.loop = {.continues = true}};
  session.run({{"x", x_of(0)}}, next);
  session.run(
      {{"x", x_of(0)}, {"sum", x_of(1)}, {"past", Tensor::zeros(DataType::float32, {2, rows, 3})}});
  CHECK_THROWS_WITH(session.run({{"x", x_of(1)}}, next), Contains("was no loop"));
  const LoopOptions other{.past = 2};
  CHECK_THROWS_WITH(session.run({{"x", x_of(1)}}, {.loop = other}), Contains("2x4x3"));
}

TEST_CASE("states of ranks that meet over TCP go from shape to shape, too") {
  const AccumulatorBundle bundle;
  SessionOptions any_shape = options;
  any_shape.shapes = accumulator_for;
  const auto errors = errors_of_sessions(
      bundle.dir(), ranks,
      [&](Session& session) {
        if (!session.has_first_rank()) return session.follow();
        check_texts(session, 12);
        session.end_lead();
      },
      any_shape);
  CHECK(errors == std::vector<std::string>(ranks));
}

TEST_CASE("sessions of ranks that meet over TCP hold their states, too") {
  const AccumulatorBundle bundle;
  Session here(bundle.dir(), options);
  const RunResult whole = three_steps(here);
  RunResult result;
  const auto errors = errors_of_sessions(bundle.dir(), ranks, [&](Session& session) {
    if (session.num_ranks() != ranks) fail("a session of {} ranks", session.num_ranks());
    RunResult of_rank = continued(session, {1, 1, 1});
    if (session.has_first_rank()) result = std::move(of_rank);
  });
  REQUIRE(errors == std::vector<std::string>(ranks));
  for (const char* name : {"next", "present"})
    CHECK(floats(result.outputs.at(name)) == floats(whole.outputs.at(name)));
}

TEST_CASE("what a run may not be asked is refused before it begins, and the session goes on") {
  const AccumulatorBundle bundle;
  Session session(bundle.dir(), options);
  const LoopOptions next{.start = 1, .continues = true};
  CHECK_THROWS_WITH(session.run({{"y", x_of(0)}}), Contains("the model has no such input"));
  CHECK_THROWS_WITH(session.run({{"x", x_of(0)}}),
                    Contains("inputs 'sum', 'past' are missing; the model has x, sum, past"));
  CHECK_THROWS_WITH(session.run({{"x", x_of(0)}}, {.loop = next, .repeat = 2}),
                    Contains("neither be repeated nor profiled"));
  session.run({{"x", x_of(0)}}, {.loop = next});
  CHECK_THROWS_WITH(session.run({{"y", x_of(0)}}), Contains("the model has no such input"));
  for (int step = 1; step < 4; ++step) session.run({{"x", x_of(step)}}, {.loop = next});
  CHECK_THROWS_WITH(session.run({{"x", x_of(4)}}, {.loop = next}),
                    Contains("would hold 5 rows, but has place for 4"));
  session.run({{"x", x_of(0, 2)}}, {.loop = {.steps = 2}, .profile = true});
  CHECK_THROWS_WITH(session.run({{"x", x_of(2)}}, {.loop = next}), Contains("was profiled"));
  three_steps(session);
}

TEST_CASE("a rank that fails ends its session, on all ranks, and later runs tell why") {
  const AccumulatorBundle bundle;
  std::ofstream(bundle.dir() / "rank1.onnx", std::ios::app) << "damage";
  Session session(bundle.dir(), options);
  CHECK_THROWS_WITH(session.load(), Contains("rank1.onnx"));
  CHECK_THROWS_WITH(session.run({{"x", x_of(0, 3)}}, {.loop = {.steps = 3}}),
                    Contains("the session is over") && Contains("rank1.onnx"));
  const auto errors = errors_of_sessions(bundle.dir(), ranks, [](Session& of_rank) {
    try {
      of_rank.load();
    } catch (const Error&) {
    }
    of_rank.run({{"x", x_of(0, 3)}}, {.loop = {.steps = 3}});
  });
  // A rank may hear of it while it still begins its session.
  for (const std::string& error : errors)
    CHECK_THAT(error, Contains("the session is over") || Contains("another rank failed (rank 1)"));
}

/// What a run of one step wants, with the row sums of `step`.
NamedTensors inputs_of(int step) {
  return {{"x", x_of(step)},
          {"sum", x_of(1)},
          {"past", Tensor::zeros(DataType::float32, {2, rows, 3})}};
}

TEST_CASE("one process leads and the others follow: what it may not ask is one run's error") {
  const AccumulatorBundle bundle;
  Session here(bundle.dir(), options);
  const auto errors = errors_of_sessions(bundle.dir(), ranks, [&](Session& session) {
    if (!session.has_first_rank()) return session.follow();
    for (const int step : {2, 0, 7}) {
      NamedTensors unknown = inputs_of(step);
      unknown.emplace("y", x_of(0));
      CHECK_THROWS_WITH(session.lead(unknown), Contains("the model has no such input"));
      session.check_ranks();
      const RunResult led = session.lead(inputs_of(step));
      const RunResult alone = here.lead(inputs_of(step));
      for (const char* name : {"next", "present"})
        CHECK(floats(led.outputs.at(name)) == floats(alone.outputs.at(name)));
    }
    CHECK_FALSE(session.is_over());
    session.end_lead();
  });
  CHECK(errors == std::vector<std::string>(ranks));
  here.end_lead();
  CHECK_FALSE(here.is_over());
}

TEST_CASE("a leader that ends without a word ends those that follow") {
  const AccumulatorBundle bundle;
  const auto errors = errors_of_sessions(bundle.dir(), ranks, [](Session& session) {
    if (!session.has_first_rank()) return session.follow();
    session.lead(inputs_of(1));
    fail("the leader has had enough");
  });
  CHECK_THAT(errors[0], Contains("had enough"));
  CHECK_THAT(errors[1], Contains("rank 0"));
}

TEST_CASE("a follower that ends is known to the leader without a run, and the session is over") {
  const AccumulatorBundle bundle;
  const auto errors = errors_of_sessions(bundle.dir(), ranks, [](Session& session) {
    if (!session.has_first_rank()) fail("this rank follows nobody");
    while (true) session.check_ranks();  // until that is heard
  });
  CHECK_THAT(errors[0], Contains("rank 1"));
}

}  // namespace
}  // namespace autopar::runtime
