#include "runtime/devices/cuda/runner.h"

#include <emulation.h>
#include <catch2/catch.hpp>

#include <cstring>
#include <random>

#include "graph/error.h"
#include "unit/runtime/run_node.h"

namespace autopar::runtime::cuda {
namespace {

constexpr std::int64_t arena_bytes = 256;
using Arena = std::array<std::uint8_t, arena_bytes>;

/// Where a step reads and writes, as offsets of an arena.
struct Place {
  std::int64_t begin;
  std::int64_t size;
};
struct Access {
  std::vector<Place> reads;
  Place writes;
};

/// Every byte that is written depends on every byte that is read, and on the step.
void mix(const Access& access, std::uint8_t step, std::uint8_t* arena) {
  unsigned sum = step;
  for (const Place& place : access.reads)
    for (std::int64_t b = place.begin; b < place.begin + place.size; ++b) sum = sum * 31 + arena[b];
  for (std::int64_t b = 0; b < access.writes.size; ++b)
    arena[access.writes.begin + b] = static_cast<std::uint8_t>((sum + 7 * b) >> (b % 5));
}

std::function<void()> mixing(const Access& access, std::uint8_t step, std::byte* arena) {
  return [=] { mix(access, step, reinterpret_cast<std::uint8_t*>(arena)); };
}

class Mix final : public Kernel {
 public:
  Mix(Access access, std::uint8_t step, std::byte* arena) : work_(mixing(access, step, arena)) {}
  void run(const KernelIo& io) override {
    check(emulation::enqueue(static_cast<cudaStream_t>(io.stream), work_), "a test's kernel");
  }

 private:
  std::function<void()> work_;
};

class MixTogether final : public CollectiveKernel {
 public:
  MixTogether(Access access, std::uint8_t step, std::byte* arena, bool waits)
      : work_(mixing(access, step, arena)), waits_(waits) {}
  void communicate(const KernelIo& io) override {
    auto* stream = static_cast<cudaStream_t>(io.stream);
    check(emulation::enqueue(stream, work_), "a test's collective");
    if (waits_) check(cudaStreamSynchronize(stream), "a test's collective");
  }
  std::span<const bundle::CollectiveTotal> payload() const override { return {}; }
  std::span<const int> ranks() const override { return {}; }
  bool waits_on_host() const override { return waits_; }

 private:
  std::function<void()> work_;
  bool waits_;
};

Place random_place(std::mt19937& random) {
  const auto begin = static_cast<std::int64_t>(random() % (arena_bytes - 16));
  return {begin, 1 + static_cast<std::int64_t>(random() % 16)};
}

TEST_CASE("Two streams give what one queue gives, whatever order the device takes") {
  const bool waits_on_host = GENERATE(false, true);
  std::mt19937 random(3);
  CudaDevice device({});
  for (unsigned round = 0; round < 40; ++round) {
    emulation::set_seed(round);
    const auto memory = device.allocate(arena_bytes);
    std::vector<Step> steps;
    std::vector<Access> accesses;
    for (std::uint8_t s = 0; s < 30; ++s) {
      Access& access = accesses.emplace_back();
      Step& step = steps.emplace_back();
      step.node = "node " + std::to_string(s);
      const auto view = [&](const Place& place) {
        return TensorView{DataType::uint8, {place.size}, memory.get() + place.begin};
      };
      for (unsigned reads = random() % 3; reads > 0; --reads) {
        access.reads.push_back(random_place(random));
        step.inputs.push_back(view(access.reads.back()));
      }
      access.writes = random_place(random);
      // Scratch memory counts like outputs.
      if (random() % 4 == 0) {
        step.scratch = memory.get() + access.writes.begin;
        step.scratch_bytes = access.writes.size;
      } else {
        step.outputs.push_back(view(access.writes));
      }
      if (random() % 2 == 0)
        step.kernel = std::make_unique<Mix>(access, s, memory.get());
      else
        step.kernel = std::make_unique<MixTogether>(access, s, memory.get(), waits_on_host);
    }
    CudaRunner runner(device, std::move(steps), nullptr);
    for (int run = 0; run < 3; ++run) {
      Arena expected;
      for (auto& byte : expected) byte = static_cast<std::uint8_t>(random());
      device.write(memory.get(), std::as_bytes(std::span(expected)));
      for (std::uint8_t s = 0; s < accesses.size(); ++s) mix(accesses[s], s, expected.data());
      const auto before = emulation::counters();
      runner.run();
      const auto after = emulation::counters();
      CHECK(after.graph_launches - before.graph_launches == (run > 0 && !waits_on_host ? 1 : 0));
      CHECK(after.allocations == before.allocations);
      Arena result;
      device.read(std::as_writable_bytes(std::span(result)), memory.get());
      REQUIRE(result == expected);
    }
  }
}

TEST_CASE("A step's launch is named for profilers, once a step") {
  CudaDevice device({});
  const auto memory = device.allocate(arena_bytes);
  std::vector<Step> steps(2);
  for (std::uint8_t s = 0; s < 2; ++s) {
    steps[s].node = "layer/" + std::to_string(s);
    steps[s].kernel = std::make_unique<Mix>(Access{{}, {s, 1}}, s, memory.get());
  }
  CudaRunner runner(device, std::move(steps), nullptr);
  const std::size_t before = emulation::nvtx_ranges().size();
  runner.run();
  const auto ranges = emulation::nvtx_ranges();
  REQUIRE(ranges.size() >= before + 2);
  CHECK(ranges[before] == "layer/0");
  CHECK(ranges[before + 1] == "layer/1");
  CHECK(emulation::nvtx_depth() == 0);
}

/// Fails when it is launched the second time, that is, captured.
class FailsInCapture final : public Kernel {
 public:
  void run(const KernelIo&) override {
    if (++launches_ == 2) throw Error("not while it is captured");
  }

 private:
  int launches_ = 0;
};

TEST_CASE("A step that fails while it is captured leaves the streams usable") {
  CudaDevice device({});
  std::vector<Step> steps(1);
  steps[0].kernel = std::make_unique<FailsInCapture>();
  CudaRunner runner(device, std::move(steps), nullptr);
  CHECK_THROWS_WITH(runner.run(), "not while it is captured");
  CHECK(cudaStreamSynchronize(device.compute_stream()) == cudaSuccess);
  CHECK_NOTHROW(runner.run());
}

}  // namespace
}  // namespace autopar::runtime::cuda
