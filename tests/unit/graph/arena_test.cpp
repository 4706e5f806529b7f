#include "graph/arena.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <random>

using namespace autopar::graph;

namespace {

/// The most bytes alive at one step: no arena is smaller.
std::int64_t lower_bound_bytes(std::span<const BufferLifetime> buffers) {
  std::int64_t result = 0;
  for (const BufferLifetime& at : buffers) {
    std::int64_t alive = 0;
    for (const BufferLifetime& b : buffers)
      if (b.first <= at.first && at.first <= b.last) alive += (b.bytes + 63) / 64 * 64;
    result = std::max(result, alive);
  }
  return result;
}

void check_no_overlap(std::span<const BufferLifetime> buffers, const ArenaPlan& plan) {
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    REQUIRE(plan.offsets[i] % 64 == 0);
    REQUIRE(plan.offsets[i] + buffers[i].bytes <= plan.bytes);
    for (std::size_t j = 0; j < i; ++j) {
      const bool together =
          buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
      const bool apart = plan.offsets[i] + buffers[i].bytes <= plan.offsets[j] ||
                         plan.offsets[j] + buffers[j].bytes <= plan.offsets[i];
      REQUIRE((!together || apart || buffers[i].bytes == 0 || buffers[j].bytes == 0));
    }
  }
}

/// Greedy by size, first gap that fits, every buffer held against every other.
std::int64_t greedy_bytes(std::span<const BufferLifetime> buffers) {
  std::vector<BufferLifetime> order(buffers.begin(), buffers.end());
  std::ranges::stable_sort(order, std::greater<>{}, &BufferLifetime::bytes);
  std::vector<std::int64_t> offsets;
  std::int64_t result = 0;
  for (const BufferLifetime& buffer : order) {
    const auto fits = [&](std::int64_t offset) {
      for (std::size_t j = 0; j < offsets.size(); ++j)
        if (buffer.first <= order[j].last && order[j].first <= buffer.last &&
            offset < offsets[j] + aligned(order[j].bytes) &&
            offsets[j] < offset + aligned(buffer.bytes))
          return false;
      return true;
    };
    std::int64_t offset = 0;
    while (!fits(offset)) offset += 64;
    offsets.push_back(offset);
    result = std::max(result, offset + aligned(buffer.bytes));
  }
  return result;
}

}  // namespace

TEST_CASE("buffers that live together never overlap, and the arena is near the lower bound") {
  std::mt19937 random(7);
  double worst = 1;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<BufferLifetime> buffers(1 + random() % 60);
    for (auto& buffer : buffers) {
      buffer.bytes = static_cast<std::int64_t>(random() % 5000);
      buffer.first = static_cast<int>(random() % 40);
      buffer.last = buffer.first + static_cast<int>(random() % 12);
    }
    const ArenaPlan plan = plan_arena(buffers);
    check_no_overlap(buffers, plan);
    REQUIRE(plan.bytes == greedy_bytes(buffers));
    const std::int64_t bound = lower_bound_bytes(buffers);
    REQUIRE(plan.bytes >= bound);
    if (bound > 0)
      worst = std::max(worst, static_cast<double>(plan.bytes) / static_cast<double>(bound));
  }
  CHECK(worst < 1.5);
}

TEST_CASE("a chain of equal buffers needs two places") {
  std::vector<BufferLifetime> buffers;
  for (int step = 0; step < 10; ++step) buffers.push_back({1000, step, step + 1});
  CHECK(plan_arena(buffers).bytes == 2 * 1024);
}

TEST_CASE("inputs live from the first step, outputs to the last, constants not at all") {
  Graph graph;
  const auto value = [&](const char* name) {
    return graph.add_value({name, DataType::float32, {4}, {}});
  };
  const ValueId x = value("x");
  const ValueId late = value("late input");
  const ValueId a = value("a");
  const ValueId b = value("b");
  const ValueId out = value("out");
  const ValueId unread = value("unread");
  const ValueId weight = graph.add_constant("w", Tensor::of_float({4}, std::vector<float>(4)));
  graph.inputs = {x, late};
  graph.outputs = {a, out};
  graph.nodes = {{"0", "Add", "", {x, weight}, {a}, {}},
                 {"1", "Split", "", {a}, {b, unread}, {}},
                 {"2", "Add", "", {b, late}, {out}, {}}};
  const auto lifetimes = value_lifetimes(graph);
  const auto is = [&](ValueId id, std::int64_t bytes, int first, int last) {
    const BufferLifetime& l = lifetimes[static_cast<std::size_t>(id)];
    return l.bytes == bytes && l.first == first && l.last == last;
  };
  CHECK(is(x, 16, 0, 0));
  CHECK(is(late, 16, 0, 2));
  CHECK(is(a, 16, 0, 2));
  CHECK(is(b, 16, 1, 2));
  CHECK(is(out, 16, 2, 2));
  CHECK(is(unread, 16, 1, 1));
  CHECK(is(weight, 0, 0, 0));
}
