#pragma once

#include <cuda_runtime.h>

#include <string_view>

namespace autopar::runtime::cuda {

/// Throws Error saying what failed and why. Every call of CUDA's runtime goes through it.
void check(cudaError_t code, std::string_view what);

}  // namespace autopar::runtime::cuda
