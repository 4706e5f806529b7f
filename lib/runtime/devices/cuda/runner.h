#pragma once

#include <optional>
#include <vector>

#include "runtime/devices/cuda/cuda_device.h"

namespace autopar::runtime::cuda {

/// The first run launches kernel by kernel, which also lets libraries set themselves up; then the
/// same work is captured as a CUDA graph, and every later run is one launch of it.
class CudaRunner final : public Runner {
 public:
  CudaRunner(CudaDevice& device, std::vector<Step> steps, CollectiveContext* collectives);
  void run() override;

 private:
  void enqueue();
  void capture();

  CudaDevice& device_;
  std::vector<Step> steps_;
  CollectiveContext* collectives_;
  Event done_;
  GraphExec graph_;
  bool has_run_ = false;
};

}  // namespace autopar::runtime::cuda
