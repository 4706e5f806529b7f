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

/// By thread, the core that each of them is on.
std::vector<int> cores_of_threads(int threads) {
  std::vector<int> cores(static_cast<std::size_t>(threads), stays);
#pragma omp parallel num_threads(threads)
  cores[static_cast<std::size_t>(omp_get_thread_num())] = sched_getcpu();
  return cores;
}

}  // namespace

std::vector<int> moves_apart(const std::vector<int>& cores, const CoreSet& usable) {
  std::vector<int> moves(cores.size(), stays);
  std::vector<int> taken = cores;
  for (auto thread = cores.begin(); thread != cores.end(); ++thread) {
    if (std::find(cores.begin(), thread, *thread) == thread) continue;
    const auto free = std::ranges::find_if(
        usable, [&](int core) { return std::ranges::find(taken, core) == taken.end(); });
    if (free == usable.end()) break;
    moves[static_cast<std::size_t>(thread - cores.begin())] = *free;
    taken.push_back(*free);
  }
  return moves;
}

void move_threads_apart(int threads, const CoreSet& usable) {
  if (std::ssize(usable) < threads) return;
  const std::vector<int> moves = moves_apart(cores_of_threads(threads), usable);
  if (std::ranges::count(moves, stays) == threads) return;
#pragma omp parallel num_threads(threads)
  if (const int core = moves[static_cast<std::size_t>(omp_get_thread_num())];
      core != stays && try_to_bind_thread({core}))
    try_to_bind_thread(usable);  // it stays there as long as the kernel sees no reason to move it
}

void ThreadTeam::move_apart() {
  if (threads_ < 2 || Clock::now() < next_look_) return;
  move_threads_apart(threads_, cores_of_process());
  next_look_ = Clock::now() + between_looks;
}

}  // namespace autopar::runtime
