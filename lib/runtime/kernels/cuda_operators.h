#pragma once

#include "runtime/kernel.h"

namespace autopar::runtime {

/// What CUDA's kernels serve, known without CUDA: where a plan is made for GPUs, there may be none,
/// and the memory of its run follows from what passes will make there. No entry makes a kernel:
/// that is for the plugin's table (cuda::kernels()).
const KernelTable& cuda_operators();

}  // namespace autopar::runtime
