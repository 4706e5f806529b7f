#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "runtime/device.h"

namespace autopar::runtime {

struct CudaOptions {
  int gpu = 0;  ///< of those that the process sees
  bool allow_tf32 = false;
  int threads = 1;  ///< of the host that may read weights at a time
};

/// One GPU, for the rank that this thread runs. Throws Error where there is no such GPU, its driver
/// is too old, or this build or machine has no CUDA. The device must be used by one thread at a
/// time.
std::unique_ptr<Device> make_cuda_device(const CudaOptions& options);
/// GPUs that this process sees and this build has code for. Throws as above.
int count_gpus();
/// Unique to a GPU, on all machines.
using GpuId = std::array<std::byte, 16>;
GpuId gpu_id(int gpu);

}  // namespace autopar::runtime
