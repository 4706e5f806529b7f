#include <catch2/catch.hpp>

#include "graph/arena.h"
#include "graph/onnx/onnx_export.h"
#include "runtime/executable.h"
#include "runtime/kernel.h"
#include "unit/graph/models.h"

using namespace autopar;
using graph::Tensor;

namespace {

graph::Graph load(const std::string& text) {
  graph::ImportOptions how;
  how.evaluate = runtime::evaluate_constants;
  how.is_native = [](std::string_view domain, std::string_view op_type) {
    return runtime::cpu_kernels().find(domain, op_type) != nullptr;
  };
  return graph::import(graph::parse_graph(18, text), how);
}

Tensor floats(const std::vector<float>& values) {
  return Tensor::of_float({static_cast<std::int64_t>(values.size())}, values);
}

Tensor truth(bool value) {
  Tensor tensor = Tensor::zeros(graph::DataType::boolean, {});
  tensor.mutable_bytes()[0] = static_cast<std::byte>(value);
  return tensor;
}

Tensor integer(std::int64_t value) { return Tensor::of_int64({}, std::span(&value, 1)); }

std::vector<float> run(runtime::Executable& executable, const std::vector<Tensor>& inputs,
                       std::size_t output = 0) {
  for (std::size_t i = 0; i < inputs.size(); ++i) executable.write_input(i, inputs[i]);
  executable.run();
  const Tensor result = executable.read_output(output);
  const auto values = result.values<float>();
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("a loop runs until its condition fails, any number of times") {
  const graph::Graph graph = load(R"(
    (float[2] x, bool go) => (float[2] y) {
      y = Loop(, go, x) <body = b (int64 i, bool on, float[2] v) => (bool more, float[2] w)
          <float limit = {100}> {
        w = Add(v, v) s = ReduceSum<keepdims = 0>(w) more = Less(s, limit) }> })");
  runtime::Executable executable(graph, {});
  for (int again = 0; again < 3; ++again) {
    CHECK(run(executable, {floats({1, 2}), truth(true)}) == std::vector<float>{64, 128});
    CHECK(run(executable, {floats({30, 40}), truth(true)}) == std::vector<float>{60, 80});
    CHECK(run(executable, {floats({1, 2}), truth(false)}) == std::vector<float>{1, 2});
  }
}

TEST_CASE("a loop makes as many rounds as the run says, none where that is 0 or less") {
  const graph::Graph graph = load(R"(
    (float[2] x, float[2] z, int64 n) => (float[2] y, float[2] last) {
      y, last = Loop(n, , x, z) <body = b (int64 i, bool on, float[2] v, float[2] u)
          => (bool more, float[2] w, float[2] t) {
        more = Identity(on) f = Cast<to = 1>(i) w = Add(u, f) t = Identity(v) }> })");
  runtime::Executable executable(graph, {});
  const auto swapped = [](std::int64_t rounds) {
    std::vector<float> v{1, 2};
    std::vector<float> u{5, 7};
    for (std::int64_t i = 0; i < rounds; ++i) {
      std::swap(v, u);
      for (float& each : v) each += static_cast<float>(i);
    }
    return std::pair(v, u);
  };
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  for (const std::int64_t rounds : {std::int64_t{0}, std::int64_t{1}, std::int64_t{7},
                                    std::int64_t{1000}, std::int64_t{-1}, least}) {
    INFO(rounds << " rounds");
    const auto [v, u] = swapped(rounds);
    CHECK(run(executable, {floats({1, 2}), floats({5, 7}), integer(rounds)}, 0) == v);
    CHECK(run(executable, {floats({1, 2}), floats({5, 7}), integer(rounds)}, 1) == u);
  }
}

TEST_CASE("a loop collects what each of a known number of rounds makes") {
  const graph::Graph graph = load(R"(
    (float[1] x) => (float[1] y, float[12000, 1] all) <int64 n = {12000}> {
      y, all = Loop(n, , x) <body = b (int64 i, bool on, float[1] v)
          => (bool more, float[1] w, float[1] k) <float one = {1}> {
        more = Identity(on) w = Add(v, one) k = Neg(w) }> })");
  runtime::Executable executable(graph, {});
  const auto all = run(executable, {floats({3})}, 1);
  REQUIRE(all.size() == 12000);
  for (std::size_t i = 0; i < all.size(); ++i) REQUIRE(all[i] == -static_cast<float>(i + 4));
}

TEST_CASE("a loop's memory is within what is predicted, its body's included") {
  const graph::Graph graph = load(R"(
    (float[1, 300] x, float[300, 300] m, bool go) => (float[1, 300] y) {
      y = Loop(, go, x) <body = b (int64 i, bool on, float[1, 300] v)
          => (bool more, float[1, 300] w) <float limit = {100}> {
        a = MatMul(v, m) w = Tanh(a) s = ReduceSum<keepdims = 0>(w) more = Less(s, limit) }> })");
  for (const bool optimize : {false, true}) {
    const runtime::Executable executable(graph, {.optimize = optimize});
    CHECK(executable.arena_bytes() > 2 * 300 * 300 * 4);  // captured: a copy lies in the body's
    CHECK(executable.derived_constant_bytes() + executable.arena_bytes() -
              executable.scratch_bytes() <=
          graph::arena_bound(graph));
  }
}
