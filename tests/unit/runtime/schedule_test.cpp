#include "runtime/schedule.h"

#include <bitset>
#include <catch2/catch.hpp>
#include <random>
#include <set>

namespace autopar::runtime {
namespace {

constexpr std::size_t memory_bytes = 64;
using Bytes = std::bitset<memory_bytes>;

/// A step as the test sees it: which bytes it touches.
struct Touched {
  Bytes read;
  Bytes written;
  Queue queue;
};

struct RandomSteps {
  std::vector<std::byte> memory = std::vector<std::byte>(memory_bytes);
  std::vector<StepAccess> accesses;
  std::vector<Touched> touched;

  RandomSteps(std::mt19937& random, std::size_t count) {
    const auto ranges = [&](std::vector<ByteRange>& list, Bytes& bytes, unsigned most) {
      for (unsigned i = random() % (most + 1); i > 0; --i) {
        const std::size_t begin = random() % memory_bytes;
        const std::size_t size = std::min<std::size_t>(random() % 9, memory_bytes - begin);
        list.push_back({memory.data() + begin, memory.data() + begin + size});
        for (std::size_t b = begin; b < begin + size; ++b) bytes.set(b);
      }
    };
    const unsigned others_of_8 = 1 + random() % 7;
    const unsigned other_queues = 1 + random() % 3;
    for (std::size_t s = 0; s < count; ++s) {
      StepAccess& access = accesses.emplace_back();
      Touched& bytes = touched.emplace_back();
      ranges(access.reads, bytes.read, 3);
      ranges(access.writes, bytes.written, 2);
      const bool is_other = random() % 8 < others_of_8;
      access.queue = bytes.queue =
          is_other ? static_cast<Queue>(1 + random() % other_queues) : Queue::computation;
    }
  }
};

/// before[i][j]: whether step i is complete before step j starts, by queues and waits alone.
std::vector<std::vector<bool>> happens_before(const std::vector<Touched>& steps,
                                              const std::vector<ScheduledStep>& scheduled) {
  const std::size_t count = steps.size();
  std::vector before(count, std::vector<bool>(count));
  for (std::size_t j = 0; j < count; ++j) {
    for (std::size_t i = 0; i < j; ++i) before[i][j] = steps[i].queue == steps[j].queue;
    for (const std::size_t earlier : scheduled[j].waits_for) before[earlier][j] = true;
  }
  for (std::size_t k = 0; k < count; ++k)
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t j = 0; j < count; ++j)
        if (before[i][k] && before[k][j]) before[i][j] = true;
  return before;
}

bool all_conflicts_are_ordered(const std::vector<Touched>& steps,
                               const std::vector<ScheduledStep>& scheduled) {
  const auto before = happens_before(steps, scheduled);
  for (std::size_t j = 0; j < steps.size(); ++j)
    for (std::size_t i = 0; i < j; ++i) {
      const Bytes shared = (steps[i].written & (steps[j].read | steps[j].written)) |
                           (steps[i].read & steps[j].written);
      if (shared.any() && !before[i][j]) return false;
    }
  return true;
}

TEST_CASE("Steps that conflict are ordered, and no wait can be left out") {
  std::mt19937 random(7);
  int waits = 0;
  for (int round = 0; round < 300; ++round) {
    const RandomSteps steps(random, random() % 25);
    const std::vector<ScheduledStep> scheduled = schedule(steps.accesses);
    REQUIRE(scheduled.size() == steps.touched.size());
    REQUIRE(all_conflicts_are_ordered(steps.touched, scheduled));
    std::vector<bool> is_waited_for(scheduled.size());
    for (std::size_t s = 0; s < scheduled.size(); ++s) {
      REQUIRE(scheduled[s].queue == steps.touched[s].queue);
      std::set<Queue> queues{scheduled[s].queue};
      for (std::size_t w = 0; w < scheduled[s].waits_for.size(); ++w) {
        const std::size_t earlier = scheduled[s].waits_for[w];
        REQUIRE(earlier < s);
        REQUIRE(queues.insert(scheduled[earlier].queue).second);
        is_waited_for[earlier] = true;
        ++waits;
        auto without = scheduled;
        auto& left = without[s].waits_for;
        left.erase(left.begin() + static_cast<std::ptrdiff_t>(w));
        REQUIRE(!all_conflicts_are_ordered(steps.touched, without));
      }
    }
    for (std::size_t s = 0; s < scheduled.size(); ++s)
      REQUIRE(scheduled[s].signals == is_waited_for[s]);
  }
  CHECK(waits > 500);
}

TEST_CASE("What a step touches: inputs, outputs and scratch memory, without left-out tensors") {
  std::vector<std::byte> memory(64);
  Step step;
  step.inputs = {{DataType::float32, {2}, memory.data()}, {}, {DataType::float32, {0}, nullptr}};
  step.outputs = {{DataType::uint8, {3}, memory.data() + 16}};
  step.scratch = memory.data() + 32;
  step.scratch_bytes = 5;
  const StepAccess access = access_of(step);
  REQUIRE(access.reads.size() == 1);
  CHECK(access.reads[0].begin == memory.data());
  CHECK(access.reads[0].end == memory.data() + 8);
  REQUIRE(access.writes.size() == 2);
  CHECK(access.writes[0].end == memory.data() + 19);
  CHECK(access.writes[1].begin == memory.data() + 32);
  CHECK(access.writes[1].end == memory.data() + 37);
  CHECK(access.queue == Queue::computation);
}

}  // namespace
}  // namespace autopar::runtime
