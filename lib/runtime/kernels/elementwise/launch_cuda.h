#pragma once

#include <cuda_runtime.h>

#include "runtime/kernels/elementwise/code_cuda.h"

/// The interpreters, a source each. There is an element at least.
namespace autopar::runtime::cuda {

/// Elements that a thread computes.
inline constexpr int narrow_width = 8;
inline constexpr int wide_width = 4;

void run_narrow(const ElementwiseCode& code, cudaStream_t stream);
void run_wide(const ElementwiseCode& code, cudaStream_t stream);

}  // namespace autopar::runtime::cuda
