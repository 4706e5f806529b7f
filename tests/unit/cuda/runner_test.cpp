#include "runtime/devices/cuda/runner.h"
#include "runtime/collectives.h"

#include <emulation.h>
#include <catch2/catch.hpp>

#include <array>
#include <atomic>
#include <random>
#include <thread>

#include "base/error.h"
#include "runtime/collectives.h"
#include "runtime/comm/thread_communicator.h"
#include "runtime/kernels/cuda/launch.h"
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
  MixTogether(Access access, std::uint8_t step, std::byte* arena, bool waits, Queue queue)
      : work_(mixing(access, step, arena)), waits_(waits), queue_(queue) {}
  void communicate(const KernelIo& io) override {
    auto* stream = static_cast<cudaStream_t>(io.stream);
    check(emulation::enqueue(stream, work_), "a test's collective");
    if (waits_) check(cudaStreamSynchronize(stream), "a test's collective");
  }
  std::span<const bundle::CollectiveTotal> payload() const override { return {}; }
  std::span<const int> ranks() const override { return {}; }
  bool waits_on_host() const override { return waits_; }
  Queue queue() const override { return queue_; }

 private:
  std::function<void()> work_;
  bool waits_;
  Queue queue_;
};

Place random_place(std::mt19937& random) {
  const auto begin = static_cast<std::int64_t>(random() % (arena_bytes - 16));
  return {begin, 1 + static_cast<std::int64_t>(random() % 16)};
}

TEST_CASE("Streams give what one queue gives, whatever order the device takes") {
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
        step.kernel = std::make_unique<MixTogether>(access, s, memory.get(), waits_on_host,
                                                    static_cast<Queue>(1 + random() % 3));
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

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

__global__ void first_used_behind_a_collective() {}

/// Launches a kernel that nothing else launches.
class LaunchesItsOwn final : public Kernel {
 public:
  void run(const KernelIo& io) override {
    launch(static_cast<cudaStream_t>(io.stream), {}, first_used_behind_a_collective);
  }
};

/// Work on the device that lasts until `is_over`, or until a rank has given up: what an abort of
/// NCCL's communicator does to its kernels.
void enqueue_waiting(cudaStream_t stream, HostCommunicator& world, std::function<bool()> is_over) {
  check(emulation::enqueue_polled(stream,
                                  [&world, is_over = std::move(is_over)] {
                                    try {
                                      world.check_members();
                                    } catch (const Error&) {
                                      return true;
                                    }
                                    return is_over();
                                  }),
        "a test's kernel");
}

/// Is over when all ranks' kernels have started it as often.
class Meeting final : public CollectiveKernel {
 public:
  Meeting(HostCommunicator& world, std::atomic<int>& arrived) : world_(world), arrived_(arrived) {
    for (int rank = 0; rank < world.size(); ++rank) ranks_.push_back(rank);
  }
  void communicate(const KernelIo& io) override {
    auto* stream = static_cast<cudaStream_t>(io.stream);
    check(emulation::enqueue(stream, [this] { goal_ = ++rounds_ * world_.size(), ++arrived_; }),
          "a test's collective");
    enqueue_waiting(stream, world_, [this] { return arrived_ >= goal_; });
  }
  std::span<const bundle::CollectiveTotal> payload() const override { return {&payload_, 1}; }
  std::span<const int> ranks() const override { return ranks_; }

 private:
  HostCommunicator& world_;
  std::atomic<int>& arrived_;
  int rounds_ = 0;
  int goal_ = 0;
  std::vector<int> ranks_;
  bundle::CollectiveTotal payload_{"all-reduce", {0}, 1, 64};
};

/// Takes a time that its rank chooses, of the device.
class Busy final : public Kernel {
 public:
  Busy(HostCommunicator& world, Clock::duration duration) : world_(world), duration_(duration) {}
  void run(const KernelIo& io) override {
    auto* stream = static_cast<cudaStream_t>(io.stream);
    check(emulation::enqueue(stream, [this] { end_ = Clock::now() + duration_; }), "a test");
    enqueue_waiting(stream, world_, [this] { return Clock::now() >= end_; });
  }

 private:
  HostCommunicator& world_;
  Clock::duration duration_;
  Clock::time_point end_;
};

/// Counts launches.
class Counts final : public Kernel {
 public:
  explicit Counts(std::atomic<int>& launches) : launches_(launches) {}
  void run(const KernelIo& io) override {
    ++launches_;
    check(emulation::enqueue(static_cast<cudaStream_t>(io.stream), [] {}), "a test's kernel");
  }

 private:
  std::atomic<int>& launches_;
};

class Fails final : public Kernel {
 public:
  void run(const KernelIo&) override { throw Error("this rank has a fault"); }
};

/// What became of each rank of two, which run in threads, on a GPU each: its error, if any. Rank
/// r's steps are a kernel that `first` makes, then the collective 'x' of its result, then `more`
/// steps, whose launches are counted.
using MakeKernel = std::function<std::unique_ptr<Kernel>(HostCommunicator& world)>;
std::array<std::string, 2> errors_of_ranks(const MakeKernel& first, milliseconds timeout, int runs,
                                           std::size_t more = 0,
                                           std::array<std::atomic<int>, 2>* launches = nullptr) {
  auto worlds = make_thread_communicators(2, std::chrono::seconds(60));
  std::array<std::string, 2> errors;
  std::atomic<int> arrived = 0;
  const auto run_rank = [&](std::size_t rank) {
    try {
      CollectiveContext collectives(*worlds[rank], timeout);
      CudaDevice device({.gpu = static_cast<int>(rank)});
      const auto memory = device.allocate(64);
      const TensorView value{DataType::uint8, {64}, memory.get()};
      std::vector<Step> steps(2 + more);
      for (Step& step : steps)
        if (launches != nullptr) step.kernel = std::make_unique<Counts>((*launches)[rank]);
      steps[0].node = "first";
      steps[0].outputs = {value};
      steps[0].kernel = first(*worlds[rank]);
      steps[1].node = "x";
      steps[1].inputs = {value};
      steps[1].kernel = std::make_unique<Meeting>(*worlds[rank], arrived);
      CudaRunner runner(device, std::move(steps), &collectives);
      for (int run = 0; run < runs; ++run) runner.run();
    } catch (const Error& error) {
      errors[rank] = error.what();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < 2; ++rank) threads.emplace_back(run_rank, rank);
  }
  return errors;
}

TEST_CASE("A collective that one rank does not reach in time is named, with that rank") {
  const auto first = [](HostCommunicator& world) {
    return std::make_unique<Busy>(world, milliseconds(world.rank() == 1 ? 3'600'000 : 0));
  };
  const auto [error, error_of_late] = errors_of_ranks(first, milliseconds(300), 1);
  CHECK(error ==
        "rank 0: all-reduce of node 'x' among ranks 0, 1 did not finish within 0.3 s; rank(s) that "
        "did not start it: 1");
  CHECK_THAT(error_of_late, Catch::Contains("another rank failed"));
}

TEST_CASE("The host watches while it launches, and is never far ahead of its device") {
  const auto first = [](HostCommunicator& world) {
    return std::make_unique<Busy>(world, milliseconds(world.rank() == 1 ? 3'600'000 : 0));
  };
  std::array<std::atomic<int>, 2> launches{};
  const auto errors = errors_of_ranks(first, milliseconds(300), 1, 2000, &launches);
  CHECK_THAT(errors[0], Catch::Contains("did not finish within 0.3 s"));
  CHECK(launches[0] < 200);

  for (auto& each : launches) each = 0;
  const auto none = [](HostCommunicator& world) {
    return std::make_unique<Busy>(world, milliseconds(0));
  };
  for (const std::string& error : errors_of_ranks(none, std::chrono::minutes(1), 1, 500, &launches))
    CHECK(error.empty());
  CHECK(launches[0] == 1000);  // once, and once to be captured
}

TEST_CASE("No kernel is loaded while a collective of its GPU is under way") {
  emulation::reset();
  auto worlds = make_thread_communicators(2, std::chrono::seconds(60));
  std::array<std::string, 2> errors;
  std::array<std::atomic<int>, 3> arrived{};
  const auto run_rank = [&](std::size_t rank) {
    try {
      CollectiveContext collectives(*worlds[rank], std::chrono::minutes(1));
      CudaDevice device({.gpu = static_cast<int>(rank)});
      std::vector<Step> steps(6);
      for (std::size_t s = 0; s < steps.size(); s += 2) {
        steps[s].kernel = std::make_unique<Meeting>(*worlds[rank], arrived[s / 2]);
        steps[s + 1].kernel = std::make_unique<LaunchesItsOwn>();
      }
      CudaRunner runner(device, std::move(steps), &collectives);
      for (int run = 0; run < 3; ++run) runner.run();
    } catch (const std::exception& error) {
      errors[rank] = error.what();
      worlds[rank]->abort();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < 2; ++rank) threads.emplace_back(run_rank, rank);
  }
  for (const std::string& error : errors) CHECK(error == "");
  CHECK(emulation::last_fault() == "");
}

TEST_CASE("Computation may take longer than a collective may wait") {
  const auto first = [](HostCommunicator& world) {
    return std::make_unique<Busy>(world, milliseconds(1500));
  };
  const auto errors = errors_of_ranks(first, milliseconds(1000), 2);
  CHECK(errors[0].empty());
  CHECK(errors[1].empty());
}

TEST_CASE("A rank that fails ends one that waits for it on its device, long before the timeout") {
  const auto first = [](HostCommunicator& world) -> std::unique_ptr<Kernel> {
    if (world.rank() == 0) return std::make_unique<Fails>();
    return std::make_unique<Busy>(world, milliseconds(0));
  };
  const auto start = Clock::now();
  const auto errors = errors_of_ranks(first, std::chrono::minutes(10), 1);
  CHECK(errors[0] == "this rank has a fault");
  CHECK_THAT(errors[1], Catch::Contains("another rank failed"));
  CHECK(Clock::now() - start < std::chrono::seconds(60));
}

TEST_CASE("A profiled run tells of every step once, and of no two at a time in one queue") {
  auto worlds = make_thread_communicators(1, std::chrono::seconds(60));
  CollectiveContext collectives(*worlds.front());
  CudaDevice device({});
  std::array<std::atomic<int>, 6> arrived{};
  std::vector<Step> steps(6);
  for (std::size_t s = 0; s < steps.size(); ++s) {
    steps[s].node = "node " + std::to_string(s);
    steps[s].op_type = s % 2 == 0 ? "Busy" : "AllReduce";
    if (s % 2 == 0)
      steps[s].kernel = std::make_unique<Busy>(*worlds.front(), milliseconds(2));
    else
      steps[s].kernel = std::make_unique<Meeting>(*worlds.front(), arrived[s]);
  }
  CudaRunner runner(device, std::move(steps), &collectives);
  const bool has_run = GENERATE(false, true);
  if (has_run) runner.run();
  const auto before = std::chrono::system_clock::now().time_since_epoch();
  const std::vector<Span> spans = runner.profile();
  const auto after = std::chrono::system_clock::now().time_since_epoch();
  REQUIRE(spans.size() == 6);
  std::map<Queue, std::chrono::nanoseconds> end;
  for (std::size_t s = 0; s < spans.size(); ++s) {
    const Span& span = spans[s];
    CHECK(span.node == "node " + std::to_string(s));
    CHECK(span.queue == (s % 2 == 0 ? Queue::computation : Queue::communication));
    CHECK(span.bytes == (s % 2 == 0 ? std::nullopt : std::optional<std::int64_t>(64)));
    CHECK(span.duration >= (s % 2 == 0 ? milliseconds(2) : milliseconds(0)));
    CHECK(span.begin >= before);
    CHECK(span.begin + span.duration <= after + milliseconds(1));
    CHECK(span.begin >= end[span.queue]);
    end[span.queue] = span.begin + span.duration;
  }
}

}  // namespace
}  // namespace autopar::runtime::cuda
