#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/collectives.h"
#include "runtime/first_error.h"
#include "runtime/schedule.h"
#include "runtime/trace.h"

namespace autopar::runtime {

/// Computes and communicates within the stage in the calling thread, in the order given. What comes
/// from other stages, and what goes there, each has a thread of its own, where there is any. A step
/// that fails ends the run in all of them, of all ranks.
class CpuRunner final : public Runner {
 public:
  /// `threads`: of each kernel.
  CpuRunner(std::vector<Step> steps, int threads, CollectiveContext* collectives);
  ~CpuRunner() override;
  CpuRunner(const CpuRunner&) = delete;
  CpuRunner& operator=(const CpuRunner&) = delete;

  void run() override;
  std::vector<Span> profile() override;
  std::int64_t launches() const override { return static_cast<std::int64_t>(steps_.size()); }

 private:
  using Clock = std::chrono::steady_clock;

  /// The steps of one thread, and what of the others each of them waits for.
  struct Lane {
    struct Wait {
      std::size_t lane = 0;
      std::size_t steps = 0;  ///< that must be done there
    };
    struct Turn {
      std::size_t step = 0;
      std::vector<Wait> waits;
      bool signals = false;
    };
    std::vector<Turn> turns;
    std::size_t done = 0;  ///< turns of this run
  };
  struct Timing {
    Clock::time_point begin;
    Clock::time_point end;
  };

  void share_out(const std::vector<ScheduledStep>& schedule);
  void run_step(std::size_t step);
  void start_run();
  /// Until all turns are over, or some lane has failed.
  void run_lane(std::size_t lane);
  bool may_start(const Lane::Turn& turn) const;
  /// A lane's thread: run after run.
  void serve(std::size_t lane);

  std::vector<Step> steps_;
  int threads_;
  CollectiveContext* collectives_;
  std::vector<Timing> timings_;  ///< by step, of a profiled run; else empty
  std::vector<Queue> queues_;    ///< by step

  /// The calling thread's, then those of receiving and sending; one alone where neither has steps.
  std::vector<Lane> lanes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t runs_ = 0;     ///< that have been started
  std::size_t at_work_ = 0;  ///< lanes that have not ended this run
  bool has_failed_ = false;
  bool is_over_ = false;
  FirstError error_;
  std::vector<std::jthread> workers_;
};

}  // namespace autopar::runtime
