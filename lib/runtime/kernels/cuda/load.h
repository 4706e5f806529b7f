#pragma once

#include <cuda_runtime.h>

#include "runtime/devices/cuda/cuda_error.h"

namespace autopar::runtime::cuda {

/// Loads a kernel's code onto the GPU, which CUDA else does when it is first launched.
template <typename... Parameters>
void load(void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), "loading a kernel");
}

}  // namespace autopar::runtime::cuda
