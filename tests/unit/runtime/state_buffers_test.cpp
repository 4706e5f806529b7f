// States that go from graphs of one shape to graphs of another, against rows kept by plain loops.

#include "runtime/state_buffers.h"

#include "runtime/devices/cpu_device.h"
#include "runtime/run_bytes.h"
#include "unit/runtime/kernels_under_test.h"
#include "unit/runtime/loops.h"
#include "unit/runtime/passes/spelling.h"

namespace autopar::runtime {
namespace {

using namespace testing;

constexpr std::int64_t heads = 2;
constexpr std::int64_t features = 3;
constexpr std::int64_t most_rows = 9;

/// The device under test, the CPU where that is none.
struct Place {
  std::unique_ptr<CpuDevice> cpu = device_under_test() ? nullptr : std::make_unique<CpuDevice>(1);
  Device& device = cpu ? *cpu : *device_under_test();
};

/// present = Concat(past, rows), a sum of rows as a state that does not grow, and the sum of all
/// that past holds.
Graph decoder(std::int64_t past, std::int64_t rows) {
  Spelling s;
  const ValueId in = s.in("rows", {heads, rows, features});
  const ValueId before = s.in("past", {heads, past, features});
  const ValueId sum = s.in("sum", {heads, 1, features});
  const ValueId axis = s.integers({1});
  const auto over_rows = [&](ValueId x) {
    return s.op("ReduceSum", {x, axis}, {heads, 1, features}, {{"keepdims", std::int64_t{1}}});
  };
  const ValueId present = s.op("Concat", {before, s.unary("Neg", in)},
                               {heads, past + rows, features}, {{"axis", std::int64_t{1}}});
  s.ends(present);
  s.ends(s.binary("Add", sum, over_rows(in)));
  s.ends(over_rows(s.unary("Abs", before)));
  s.graph.states = {{0, 1}, {1, 2}};
  check_invariants(s.graph);
  return s.graph;
}

std::vector<StateBuffer> decoder_states(std::int64_t rows = most_rows) {
  return {{"present", "past", DataType::float32, {heads, rows, features}},
          {"total", "sum", DataType::float32, {heads, 1, features}}};
}

/// What the buffers should hold.
struct Expected {
  std::vector<double> past = std::vector<double>(heads * most_rows * features, 0);
  std::vector<double> sum = std::vector<double>(heads * features, 0);

  double& row(std::int64_t head, std::int64_t row, std::int64_t feature) {
    return past[static_cast<std::size_t>((head * most_rows + row) * features + feature)];
  }
  void add(const Tensor& rows, std::int64_t first) {
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t r = 0; r < rows.shape()[1]; ++r)
        for (std::int64_t f = 0; f < features; ++f) {
          const double x = at(rows, {h, r, f});
          row(h, first + r, f) = -x;
          sum[static_cast<std::size_t>(h * features + f)] += x;
        }
  }
  /// Over the first rows.
  std::vector<double> sizes(std::int64_t rows) {
    std::vector<double> all(heads * features, 0);
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t f = 0; f < features; ++f)
          all[static_cast<std::size_t>(h * features + f)] += std::abs(row(h, r, f));
    return all;
  }
};

TEST_CASE("a prompt, steps and another prompt go on from one another's rows") {
  Place place;
  StateBuffers buffers(place.device, decoder_states());
  const CompileOptions options{.device = &place.device, .states = &buffers};
  Executable prompt(decoder(0, 4), options);
  Executable step(decoder(most_rows, 1), options);
  Executable more(decoder(6, 2), options);  // behind 6 rows, which it is given
  CHECK(step.input(1).data != prompt.input(1).data);
  CHECK(step.input(2).data == prompt.input(2).data);

  Random random(6);
  Expected expected;
  std::int64_t held = 0;
  // Whole numbers, whose sums are exact.
  const auto go = [&](Executable& executable, std::int64_t rows, std::int64_t seen) {
    const Tensor in = random_in(DataType::float32, {heads, rows, features}, random, -9, 9);
    std::vector<double> whole = doubles(in);
    for (double& x : whole) x = std::floor(x);
    const Tensor exact = tensor_of(DataType::float32, in.shape(), whole);
    executable.fill_states();
    executable.write_input(0, exact);
    executable.run();
    CHECK(doubles(executable.read_output(2)) == expected.sizes(seen));
    executable.hand_on_states();
    expected.add(exact, held);
    held += rows;
    CHECK(doubles(buffers.read(0)) == expected.past);
    CHECK(doubles(buffers.read(1)) == expected.sum);
  };
  for (int sequence = 0; sequence < 2; ++sequence) {
    go(prompt, 4, 0);
    go(step, 1, most_rows);
    go(step, 1, most_rows);
    go(more, 2, 6);
    go(step, 1, most_rows);
    CHECK_THROWS_WITH(step.hand_on_states(),
                      Catch::Contains("has place for 9 rows, but rows 9 to 9"));
    buffers.begin(0);
    expected = {};
    held = 0;
  }
}

TEST_CASE("buffers of states are in no arena, and count once") {
  Place place;
  const Graph graph = decoder(most_rows, 1);
  StateBuffers buffers(place.device, decoder_states());
  const Executable with(graph, {.device = &place.device, .states = &buffers});
  const PackedGraph packed = packed_graph(graph, place.device.kernels(), 1, {"past", "sum"});
  CHECK(packed.bytes == with.arena_bytes() - with.scratch_bytes() + with.derived_constant_bytes());
  const Executable without(graph, {.device = &place.device});
  CHECK(with.arena_bytes() < without.arena_bytes());
  CHECK(buffers.bytes() == 256 + 64);
}

TEST_CASE("an Executable that goes leaves the states to the others") {
  Place place;
  StateBuffers buffers(place.device, decoder_states());
  const CompileOptions options{.device = &place.device, .states = &buffers};
  const std::vector<double> ones(heads * 4 * features, 1);
  auto prompt = std::make_unique<Executable>(decoder(0, 4), options);
  prompt->write_input(0, tensor_of(DataType::float32, {heads, 4, features}, ones));
  prompt->run();
  prompt->hand_on_states();
  prompt.reset();
  Executable step(decoder(most_rows, 1), options);
  step.write_input(0,
                   tensor_of(DataType::float32, {heads, 1, features}, std::vector<double>(6, 2)));
  step.run();
  CHECK(doubles(step.read_output(2)) == std::vector<double>(heads * features, 4));
}

/// Rows go to where `place` says, in a buffer that stays as long as it is, or becomes longer.
Graph placed_rows(std::int64_t capacity, std::int64_t rows, std::int64_t longer) {
  Spelling s;
  const ValueId in = s.in("rows", {1, rows, 2});
  const ValueId place = s.in("place", {1}, DataType::int64);
  const ValueId past = s.in("past", {1, capacity, 2});
  ValueId buffer = past;
  if (longer > 0)
    buffer = s.op("Pad", {past, s.integers({0, 0, 0, 0, longer, 0})}, {1, capacity + longer, 2});
  s.ends(s.op("TensorScatter", {buffer, in, place}, {1, capacity + longer, 2},
              {{"axis", std::int64_t{1}}}));
  s.graph.states = {{0, 2}};
  return s.graph;
}

TEST_CASE("rows that the model puts into a buffer itself stay where it has put them") {
  Place place;
  for (const std::int64_t longer : {0, 1}) {
    CAPTURE(longer);
    StateBuffers buffers(place.device, {{"present", "past", DataType::float32, {1, 8, 2}}});
    buffers.begin(99);  // which row is the model's affair
    const CompileOptions options{.device = &place.device, .states = &buffers};
    Executable prompt(placed_rows(5, 3, longer), options);  // of a shorter buffer
    Executable step(placed_rows(8, 1, longer), options);
    std::vector<double> expected(16, 0);
    const auto go = [&](Executable& executable, std::int64_t rows, std::int64_t to, double value) {
      const auto count = static_cast<std::size_t>(2 * rows);
      executable.fill_states();
      executable.write_input(
          0, tensor_of(DataType::float32, {1, rows, 2}, std::vector<double>(count, value)));
      executable.write_input(1, Tensor::of_int64({1}, std::span(&to, 1)));
      executable.run();
      executable.hand_on_states();
      std::fill_n(expected.begin() + 2 * to, count, value);
      CHECK(doubles(buffers.read(0)) == expected);
    };
    go(prompt, 3, 0, 1);
    go(step, 1, 3, 2);
    go(step, 1, 7, 3);
    go(prompt, 3, 1, 4);
    go(step, 1, 2, 5);
  }
}

TEST_CASE("states that do not fit a graph are refused with both shapes") {
  Place place;
  const auto error = [&](std::vector<StateBuffer> states) -> std::string {
    try {
      StateBuffers buffers(place.device, std::move(states));
      const Executable executable(decoder(4, 1), {.device = &place.device, .states = &buffers});
      return "none";
    } catch (const Error& refused) {
      return refused.what();
    }
  };
  CHECK(error(decoder_states()) == "none");
  CHECK_THAT(error(decoder_states(3)), Catch::Contains("2x4x3") && Catch::Contains("2x3x3"));
  auto states = decoder_states();
  states[0].type = DataType::float16;
  CHECK_THAT(error(states), Catch::Contains("float16"));
  states = decoder_states();
  states[0].shape = {heads, most_rows, features + 1};
  CHECK_THAT(error(states), Catch::Contains("2x9x4"));
  states.erase(states.begin());
  CHECK_THAT(error(states), Catch::Contains("'past'"));
  states = decoder_states();
  states[1].type = DataType::int4;
  CHECK_THAT(error(states), Catch::Contains("do not begin at bytes"));
}

}  // namespace
}  // namespace autopar::runtime
