#include "runtime/devices/thread_team.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <vector>

#include "base/usable_cores.h"

namespace autopar::runtime {
namespace {

/// A look takes a microsecond.
constexpr std::chrono::milliseconds between_looks{2};

constexpr int stays = -1;

}  // namespace

void find_moves_apart(std::span<const int> cores, const CoreSet& usable, std::span<int> moves) {
  std::ranges::fill(moves, stays);
  const auto is_taken = [&](int core) {
    return std::ranges::find(cores, core) != cores.end() ||
           std::ranges::find(moves, core) != moves.end();
  };
  for (std::size_t thread = 0; thread < cores.size(); ++thread) {
    const auto before = cores.first(thread);
    if (std::ranges::find(before, cores[thread]) == before.end()) continue;
    const auto free = std::ranges::find_if_not(usable, is_taken);
    if (free == usable.end()) return;
    moves[thread] = *free;
  }
}

ThreadTeam::ThreadTeam(int threads)
    : threads_(threads),
      usable_(cores_of_process()),
      cores_(static_cast<std::size_t>(threads)),
      moves_(cores_) {}

void ThreadTeam::move_apart() {
  if (threads_ < 2 || Clock::now() < next_look_) return;
  read_cores_of_process(usable_);
  move_apart_now(usable_);
  next_look_ = Clock::now() + between_looks;
}

void ThreadTeam::move_apart_now(const CoreSet& usable) {
  if (std::ssize(usable) < threads_) return;
  std::ranges::fill(cores_, stays);
#pragma omp parallel num_threads(threads_)
  cores_[static_cast<std::size_t>(omp_get_thread_num())] = sched_getcpu();
  find_moves_apart(cores_, usable, moves_);
  if (std::ranges::count(moves_, stays) == threads_) return;
#pragma omp parallel num_threads(threads_)
  if (const int core = moves_[static_cast<std::size_t>(omp_get_thread_num())];
      core != stays && try_to_bind_thread(std::span(&core, 1)))
    try_to_bind_thread(usable);  // it stays there as long as the kernel sees no reason to move it
}

}  // namespace autopar::runtime
