#include "runtime/worker_threads.h"

#include <array>
#include <atomic>
#include <catch2/catch.hpp>

using autopar::runtime::WorkerThreads;

TEST_CASE("each worker does its part of each task, all of them at once") {
  WorkerThreads workers(3);
  std::array<int, 3> done{};
  for (int task = 1; task <= 50; ++task) {
    std::atomic<int> begun = 0;
    const WorkerThreads::Task part = [&](std::size_t worker) {
      ++begun;
      while (begun < 3) std::this_thread::yield();  // none can end before all have begun
      done[worker] += task;
    };
    workers.start(part);
    workers.wait();
    CHECK(done == std::array{task * (task + 1) / 2, task * (task + 1) / 2, task * (task + 1) / 2});
  }
}

TEST_CASE("no worker is waited for where there is none") {
  WorkerThreads none(0);
  const WorkerThreads::Task part = [](std::size_t) { FAIL("nobody has this part"); };
  none.start(part);
  none.wait();
}
