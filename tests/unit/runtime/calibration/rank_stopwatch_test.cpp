#include "runtime/calibration/rank_stopwatch.h"

#include <catch2/catch.hpp>
#include <mutex>
#include <vector>

#include "runtime/comm/ranks.h"
#include "unit/runtime/graph_sketch.h"

namespace autopar::runtime {
namespace {

using testing::Builder;

/// x -> Neg -> Tanh.
graph::Graph small_graph(const char* second = "Tanh", const Shape& shape = {4, 8}) {
  Builder builder;
  builder.graph.opsets[""] = 20;
  const auto x = builder.input("x", shape);
  const auto y = builder.node("Neg", {x}, shape);
  builder.graph.outputs.push_back(builder.node(second, {y}, shape));
  return builder.graph;
}

constexpr TimingOptions quick{.seconds = 0.001, .least_runs = 2, .most_runs = 3};
constexpr std::chrono::seconds timeout(30);

TEST_CASE("all ranks get the slowest rank's time of a graph") {
  for (const int ranks : {1, 2, 3}) {
    std::mutex mutex;
    std::vector<std::optional<double>> seconds;
    Ranks::in_threads(ranks, timeout)
        .run_as_rank([&](HostCommunicator& host, const LocalRanks& local) {
          RankStopwatch stopwatch({.threads = 1}, host, local, timeout);
          const auto mine = stopwatch.time(small_graph(), quick);
          const std::int64_t memory = stopwatch.memory_bytes();  // a collective
          const std::lock_guard lock(mutex);  // Catch's checks, too, are one thread's at a time
          CHECK(stopwatch.is_cpu());
          CHECK(memory > 1 << 20);
          seconds.push_back(mine);
        });
    REQUIRE(seconds.size() == static_cast<std::size_t>(ranks));
    REQUIRE(seconds.front());
    CHECK(*seconds.front() > 0);
    for (const auto& each : seconds) CHECK(each == seconds.front());
  }
}

TEST_CASE("one rank's longer work is the time that all ranks get") {
  std::mutex mutex;
  Ranks::in_threads(2, timeout).run_as_rank([&](HostCommunicator& host, const LocalRanks& local) {
    RankStopwatch stopwatch({.threads = 1}, host, local, timeout);
    const Shape of_rank = host.rank() == 0 ? Shape{4, 8} : Shape{2048, 1024};
    const auto short_time = stopwatch.time(small_graph(), quick);
    const auto long_time = stopwatch.time(small_graph("Tanh", of_rank), quick);
    const std::lock_guard lock(mutex);
    REQUIRE((short_time && long_time));
    CHECK(*long_time > 3 * *short_time);
  });
}

TEST_CASE("what has no kernel has no time, on any rank, and the next graph is timed") {
  std::mutex mutex;
  Ranks::in_threads(2, timeout).run_as_rank([&](HostCommunicator& host, const LocalRanks& local) {
    RankStopwatch stopwatch({.threads = 1}, host, local, timeout);
    const char* const second = host.rank() == 1 ? "NoSuchOperator" : "Tanh";
    const auto without_kernel = stopwatch.time(small_graph(second), quick);
    const auto next = stopwatch.time(small_graph(), quick);
    const std::lock_guard lock(mutex);
    CHECK_FALSE(without_kernel);
    CHECK(next);
  });
}

}  // namespace
}  // namespace autopar::runtime
