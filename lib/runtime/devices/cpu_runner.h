#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/collectives.h"
#include "runtime/first_error.h"
#include "runtime/schedule.h"
#include "runtime/trace.h"
#include "runtime/worker_threads.h"

namespace autopar::runtime {

/// Computes and communicates within the stage in the calling thread, in the order given. What comes
/// from other stages, and what goes there, each has a thread of its own, where there is any. A step
/// that fails ends the run in all of them, of all ranks.
class CpuRunner final : public Runner {
 public:
  /// `threads`: of each kernel.
  CpuRunner(std::vector<Step> steps, int threads, CollectiveContext* collectives);

  void run() override;
  std::vector<Span> profile() override;
  std::int64_t launches() const override { return static_cast<std::int64_t>(steps_.size()); }

 private:
  using Clock = std::chrono::steady_clock;

  struct Timing {
    Clock::time_point begin;
    Clock::time_point end;
  };

  static constexpr std::size_t num_lanes = 3;

  void run_step(std::size_t step);
  /// Until all of the lane's steps are done, or some lane has failed.
  void run_lane(std::size_t lane);
  bool may_start(std::size_t step) const;

  std::vector<Step> steps_;
  int threads_;
  CollectiveContext* collectives_;
  std::vector<Timing> timings_;  ///< by step, of a profiled run; else empty

  /// The steps of the calling thread, of receiving and of sending: what each takes in turn. Empty
  /// where all are the calling thread's.
  std::array<std::vector<std::size_t>, num_lanes> lanes_;
  std::vector<ScheduledStep> schedule_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> is_done_;  ///< by step, in this run
  bool has_failed_ = false;
  FirstError error_;
  std::unique_ptr<WorkerThreads> others_;  ///< of the lanes but the first; null where there is none
};

}  // namespace autopar::runtime
