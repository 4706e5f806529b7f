#pragma once

#include <vector>

#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/schedule.h"

namespace autopar::runtime::cuda {

/// Launches computation in one stream and collectives in another, with events where one needs the
/// other. The first run launches step by step, which also lets libraries set themselves up; right
/// after it the same work is captured as a CUDA graph, and every later run is one launch of it. A
/// collective that waits on the host cannot be captured: then every run goes step by step.
class CudaRunner final : public Runner {
 public:
  CudaRunner(CudaDevice& device, std::vector<Step> steps, CollectiveContext* collectives);
  void run() override;

 private:
  cudaStream_t stream_of(Queue queue) const;
  void enqueue();
  void capture();

  CudaDevice& device_;
  std::vector<Step> steps_;
  CollectiveContext* collectives_;
  std::vector<ScheduledStep> schedule_;
  std::vector<Event> complete_;  ///< by step; null where no step waits for it
  bool has_collectives_ = false;
  bool can_be_captured_ = true;
  Event fork_;
  Event join_;
  Event done_;
  GraphExec graph_;
};

}  // namespace autopar::runtime::cuda
