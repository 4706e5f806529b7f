#include "runtime/rank_device.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <set>
#include <thread>

#include "base/usable_cores.h"

namespace autopar::runtime {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a rank on the CPU is bound to its node's cores, with the threads that it starts") {
  const CoreSet all = cores_of_process();
  REQUIRE_FALSE(all.empty());
  const CoreSet node = {all.back()};
  std::set<CoreSet> seen;
  Ranks::in_threads(1, 30s).run_as_rank([&](HostCommunicator& world, const LocalRanks&) {
    const LocalRanks local{.in_world = {0}, .cores_of_node = node};
    RankDevice device({.kind = DeviceOptions::Kind::cpu, .threads = 3}, world, local, 30s);
    seen.insert(cores_of_process());
    std::thread([&] { seen.insert(cores_of_process()); }).join();
  });
  CHECK(seen == std::set<CoreSet>{node});
  CHECK(cores_of_process() == all);
}

}  // namespace
}  // namespace autopar::runtime
