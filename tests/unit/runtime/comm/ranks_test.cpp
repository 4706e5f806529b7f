#include "runtime/comm/ranks.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace autopar::runtime {
namespace {

using namespace std::chrono_literals;

TEST_CASE("tasks run as each rank of a process, one after the other, in that rank's thread") {
  Ranks ranks = Ranks::in_threads(3, 30s);
  CHECK(ranks.world_size() == 3);
  CHECK(ranks.are_all_here());
  CHECK(ranks.has_first());
  std::vector<std::thread::id> threads(3);
  ranks.run_as_rank([&](HostCommunicator& world, const LocalRanks& local) {
    threads[static_cast<std::size_t>(world.rank())] = std::this_thread::get_id();
    if (local.rank != world.rank() || local.count != 3) fail("another place on the machine");
    world.barrier();
  });
  CHECK(std::set<std::thread::id>(threads.begin(), threads.end()).size() == 3);
  std::atomic<int> in_the_same = 0;
  ranks.run_as_rank([&](HostCommunicator& world, const LocalRanks&) {
    if (threads[static_cast<std::size_t>(world.rank())] == std::this_thread::get_id())
      ++in_the_same;
  });
  CHECK(in_the_same == 3);
}

TEST_CASE("a rank that fails ends the others, and its error is the one that is told") {
  Ranks ranks = Ranks::in_threads(3, 30s);
  const auto fail_one = [](HostCommunicator& world, const LocalRanks&) {
    if (world.rank() == 1) fail("the cause");
    world.barrier();
  };
  CHECK_THROWS_WITH(ranks.run_as_rank(fail_one), "the cause");
  CHECK_THROWS_WITH(ranks.run_as_rank([](HostCommunicator&, const LocalRanks&) {}),
                    Catch::Contains("a rank has failed before"));
}

TEST_CASE("ranks of one machine share its cores, by NUMA node where nobody has bound them") {
  const CoreSet all = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<CoreSet> nodes = {{0, 1, 2, 3}, {4, 5, 6, 7}};
  const auto shared = [&](int rank, const std::vector<CoreSet>& cores, std::size_t quota = 1000) {
    LocalRanks local{.rank = rank, .count = static_cast<int>(cores.size())};
    share_cores(local, cores, quota, nodes);
    return local;
  };
  const LocalRanks third = shared(2, {all, all, all, all});
  CHECK(third.cores_of_node == nodes[1]);
  CHECK(third.cores == 2);
  CHECK(shared(2, {all, all, all, all}, 4).cores == 1);
  const LocalRanks one_of_three = shared(1, {all, all, all});
  CHECK(one_of_three.cores_of_node.empty());
  CHECK(one_of_three.cores == 2);
  const LocalRanks bound = shared(1, {{0, 1, 4, 5}, {2, 3, 6, 7}});
  CHECK(bound.cores_of_node.empty());
  CHECK(bound.cores == 4);
  const LocalRanks unknown = shared(0, {{}, {}});
  CHECK(unknown.cores_of_node.empty());
  CHECK(unknown.cores == 0);
}

TEST_CASE("options that do not tell one rank from all are refused with what to do") {
  const auto refusal = [](const LaunchOptions& options) {
    try {
      launch_ranks(options, {.count = 3, .what = "out", .digest = [] { return "digest"; }});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  CHECK(refusal({.launcher = "none"}) == "no error");
  CHECK_THAT(refusal({.rank = 1}), Catch::Contains("--rank 1: one rank cannot run alone"));
  CHECK_THAT(refusal({.rank = 3, .rendezvous = "localhost:1"}),
             Catch::Contains("--rank 3: out has ranks 0 to 2"));
  CHECK_THAT(refusal({.rendezvous = "localhost:1"}), Catch::Contains("give --rank too"));
  for (const char* place : {"localhost", "localhost:0", "localhost:70000", ":1", "::1:1", "[x]:"})
    CHECK_THAT(refusal({.rank = 1, .rendezvous = place}), Catch::Contains("give HOST:PORT"));
}

}  // namespace
}  // namespace autopar::runtime
