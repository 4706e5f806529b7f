#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <vector>

#include "runtime/collectives.h"
#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/devices/cuda/progress.h"
#include "runtime/schedule.h"
#include "runtime/trace.h"

namespace autopar::runtime::cuda {

/// Launches computation in one stream and collectives in another, with events where one needs the
/// other. The first run launches step by step, which also lets libraries set themselves up; right
/// after it the same work is captured as a CUDA graph, and every later run is one launch of it. A
/// collective that waits on the host cannot be captured: then every run goes step by step.
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

 private:
  /// Around one step's work on its stream.
  struct Timing {
    Event begin;
    Event end;
  };

  cudaStream_t stream_of(Queue queue) const;
  /// Launches all steps, with their timings if there are any.
  void enqueue(const std::vector<Timing>& timings, bool is_watched);
  /// After each batch of steps that is enqueued: watches the one before the last.
  void keep_pace(std::size_t batch);
  void capture();
  /// Launches by `launch`, and returns when the device is done. Throws Error as run() does.
  void run_launched(const std::function<void()>& launch);
  /// Until the event is complete.
  void watch(const Event& event);
  [[noreturn]] void fail_late(unsigned collective) const;
  /// A number for the collective of this run that grows from run to run.
  std::int64_t progress_at(unsigned collective) const;

  CudaDevice& device_;
  std::vector<Step> steps_;
  CollectiveContext* collectives_;
  std::vector<ScheduledStep> schedule_;
  std::vector<Event> complete_;                ///< by step; null where no step waits for it
  std::vector<std::size_t> collective_steps_;  ///< the steps that are collectives
  bool can_be_captured_ = true;
  bool has_others_ = false;  ///< whether the steps send to other ranks
  Progress progress_;
  std::int64_t runs_ = 0;
  Event fork_;
  Event join_;
  Event done_;
  /// Complete when the streams have come to a batch's end; of the last two batches.
  struct Batch {
    Event computation;
    Event communication;
  };
  std::array<Batch, 2> batches_;
  GraphExec graph_;
};

}  // namespace autopar::runtime::cuda
