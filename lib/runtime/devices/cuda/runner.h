#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <vector>

#include "runtime/collectives.h"
#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/kernels/cuda/write_mark.h"
#include "runtime/schedule.h"
#include "runtime/trace.h"

namespace autopar::runtime::cuda {

/// How far a run's collectives have come. The device writes it into memory of the host while the
/// run is under way.
class Progress {
 public:
  struct Marks {
    unsigned started = 0;   ///< the number of the last collective that the device began
    unsigned finished = 0;  ///< and of the last one that it completed
    bool in_collective() const { return started != finished; }
    friend bool operator==(const Marks&, const Marks&) = default;
  };

  /// Before a run, when no work of the last one is left.
  void reset() { *marks_ = {}; }
  /// Joins the stream, before and after the collective. Numbers count from 1 in a run.
  void mark_start(cudaStream_t stream, unsigned number) const {
    write_mark(stream, &marks_.device()->started, number);
  }
  void mark_end(cudaStream_t stream, unsigned number) const {
    write_mark(stream, &marks_.device()->finished, number);
  }
  Marks read() const {
    return {std::atomic_ref(marks_->started).load(), std::atomic_ref(marks_->finished).load()};
  }

 private:
  Mapped<Marks> marks_{"memory for progress"};
};

/// Launches each queue's steps in a stream of its own, with events where one needs another. The
/// first run launches step by step, which also lets libraries set themselves up; right after it the
/// same work is captured as a CUDA graph, and every later run is one launch of it. A collective
/// that waits on the host cannot be captured: then every run goes step by step.
///
/// In the first run the host waits for each collective before it goes on. A kernel's code is loaded
/// when it is first launched, and its stack and cuBLASLt's tables are set up; CUDA may wait for all
/// that runs on the GPU then (CUDA Programming Guide, "Lazy Loading"), and a collective runs until
/// other ranks have launched theirs, which in one process may need the lock that this one holds.
/// CUDA_MODULE_LOADING=EAGER would be no cure for all of that, and takes memory for every kernel of
/// every library. What collectives launch behind themselves is loaded before the first of them.
///
/// Where there are other ranks it watches, while the device works, whether they are still there,
/// and how long a collective takes that has started. When a run fails, no rank is left waiting for
/// this one.
class CudaRunner final : public Runner {
 public:
  CudaRunner(CudaDevice& device, std::vector<Step> steps, CollectiveContext* collectives);
  void run() override;
  std::vector<Span> profile() override;
  std::int64_t launches() const override {
    return graph_ ? 1 : static_cast<std::int64_t>(steps_.size());
  }
  double device_seconds() const override;

 private:
  /// Around one step's work on its stream.
  struct Timing {
    Event begin;
    Event end;
  };

  Progress& progress_of(Queue queue) { return progress_[static_cast<std::size_t>(queue) - 1]; }
  /// Launches all steps, with their timings if there are any.
  void enqueue(const std::vector<Timing>& timings, bool is_watched);
  /// After each batch of steps that is enqueued: watches the one before the last.
  void keep_pace(std::size_t batch);
  void capture();
  /// Launches by `launch`, and returns when the device is done. Throws Error as run() does.
  void run_launched(const std::function<void()>& launch);
  /// After an abort, until the run has left the GPU, for a while: a graph that is destroyed before
  /// may live on.
  void settle() const;
  /// Until the stream has done what it has.
  void finish(cudaStream_t stream);
  /// Until the event is complete.
  void watch(const Event& event);
  [[noreturn]] void fail_late(Queue queue, unsigned number) const;
  /// A number for the collective of its stage, counted from 1 in this run, that grows from run to
  /// run.
  std::int64_t progress_at(unsigned collective) const;

  CudaDevice& device_;
  std::vector<Step> steps_;
  CollectiveContext* collectives_;
  std::vector<ScheduledStep> schedule_;
  std::vector<Event> complete_;  ///< by step; null where no step waits for it
  /// By queue, the steps that communicate.
  std::array<std::vector<std::size_t>, num_queues> collective_steps_;
  std::vector<Queue> other_queues_;  ///< that have steps, beside computation's
  bool can_be_captured_ = true;
  bool has_others_ = false;                        ///< whether the steps send to other ranks
  std::array<Progress, num_queues - 1> progress_;  ///< of the queues that communicate
  std::int64_t runs_ = 0;
  Event fork_;
  std::array<Event, num_queues> join_;
  Event begin_;
  Event done_;
  /// Complete when the streams have come to a batch's end; of the last two batches.
  using Batch = std::array<Event, num_queues>;
  std::array<Batch, 2> batches_;
  GraphExec graph_;
};

}  // namespace autopar::runtime::cuda
