#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "base/usable_cores.h"

namespace autopar::runtime {

/// By thread, given the core that each is on: where to move it so that no two share one, as long as
/// there are usable cores without any; -1 where it stays.
void find_moves_apart(std::span<const int> cores, const CoreSet& usable, std::span<int> moves);

/// The threads that share the calling one's loops. To look after them takes no memory.
class ThreadTeam {
 public:
  explicit ThreadTeam(int threads);

  int threads() const { return threads_; }

  /// Moves them apart, unless it has just looked. A thread may be woken on the core of the one that
  /// wakes it. It then cannot run until that one, which waits for it, stops spinning, and it is
  /// awake too briefly for the kernel to move it: the same happens in every loop. Does nothing
  /// where threads are bound.
  void move_apart();
  /// Moves threads that share a core to usable ones that have none, where there are as many as
  /// threads. All may run on any of those afterwards.
  void move_apart_now(const CoreSet& usable);

 private:
  using Clock = std::chrono::steady_clock;

  int threads_;
  CoreSet usable_;
  std::vector<int> cores_;  ///< by thread, the one that it is on
  std::vector<int> moves_;
  Clock::time_point next_look_;
};

}  // namespace autopar::runtime
