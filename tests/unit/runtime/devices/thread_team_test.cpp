#include "runtime/devices/thread_team.h"

#include <sched.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

namespace autopar::runtime {
namespace {

std::vector<int> moves_apart(const std::vector<int>& cores, const CoreSet& usable) {
  std::vector<int> moves(cores.size());
  find_moves_apart(cores, usable, moves);
  return moves;
}

TEST_CASE("threads that share a core move to cores that have none") {
  CHECK(moves_apart({0, 0}, {0, 1}) == std::vector{-1, 1});
  CHECK(moves_apart({3, 1, 3, 1, 3}, {0, 1, 2, 3, 4}) == std::vector{-1, -1, 0, 2, 4});
  CHECK(moves_apart({5, 7}, {5, 7}) == std::vector{-1, -1});
}

TEST_CASE("threads stay where no core is left to them") {
  CHECK(moves_apart({0, 0, 0}, {0, 2}) == std::vector{-1, 2, -1});
  CHECK(moves_apart({0, 0}, {0}) == std::vector{-1, -1});
  CHECK(moves_apart({0, 0}, {}) == std::vector{-1, -1});
}

#if !defined(__SANITIZE_THREAD__)  // which does not know libgomp's barriers

/// Lets all threads of the process run on these cores.
void bind_all_threads(const cpu_set_t& cores) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    sched_setaffinity(std::stoi(task.path().filename().string()), sizeof cores, &cores);
}

TEST_CASE("threads that moved apart may run where they could before") {
  cpu_set_t all;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  const CoreSet usable = cores_of_process();
  if (usable.size() < 2) return;
  ThreadTeam team(2);
  team.move_apart_now(usable);  // starts them
  cpu_set_t one_core;
  CPU_ZERO(&one_core);
  CPU_SET(usable[0], &one_core);
  bind_all_threads(one_core);
  team.move_apart_now(usable);
  int may_run_anywhere = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    cpu_set_t after;
    const int thread = std::stoi(task.path().filename().string());
    if (sched_getaffinity(thread, sizeof after, &after) == 0)
      may_run_anywhere += CPU_EQUAL(&after, &all);
  }
  bind_all_threads(all);
  CHECK(may_run_anywhere == 1);  // the other is bound as it was
}

#endif

}  // namespace
}  // namespace autopar::runtime
