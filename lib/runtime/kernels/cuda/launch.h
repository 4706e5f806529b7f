#pragma once

#include <cuda_runtime.h>

#include "base/error.h"
#include "runtime/devices/cuda/cuda_error.h"
#include "runtime/devices/cuda/kernel_checks.h"
#include "runtime/kernel.h"

#if defined(AUTOPAR_EMULATED_CUDA)
#include <emulation.h>
#endif

#if !defined(__CUDACC__) && !defined(AUTOPAR_EMULATED_CUDA)
#error "kernels are compiled by nvcc, or for the emulation"
#endif

namespace autopar::runtime::cuda {

inline cudaStream_t stream_of(const KernelIo& io) { return static_cast<cudaStream_t>(io.stream); }

/// Threads of a block at most, unless its kernel has __launch_bounds__ of more: whatever registers
/// a kernel takes, so many threads have them.
inline constexpr unsigned unbounded_threads = 256;

struct LaunchShape {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  unsigned most_threads = unbounded_threads;  ///< of a block; the kernel's __launch_bounds__
};

/// Blocks of `block` threads for `items`, a thread each; at least one.
inline LaunchShape a_thread_each(std::int64_t items, unsigned block = unbounded_threads) {
  const std::int64_t blocks = (items + block - 1) / block;
  return {dim3(static_cast<unsigned>(blocks < 1 ? 1 : blocks)), dim3(block)};
}

/// Launches `kernel` on the stream. Throws Error where that cannot be.
template <typename... Parameters, typename... Arguments>
void launch(cudaStream_t stream, const LaunchShape& shape, void (*kernel)(Parameters...),
            Arguments... arguments) {
  require(shape.block.x * shape.block.y * shape.block.z <= shape.most_threads,
          "a kernel with large blocks has launch bounds");
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...),
        "launching a kernel");
  note_launch(reinterpret_cast<const void*>(kernel));
}

/// Loads a kernel's code onto the GPU, which CUDA else does when it is first launched.
template <typename... Parameters>
void load(void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes{};
  check(cudaFuncGetAttributes(&attributes, kernel), "loading a kernel");
}

/// The block's shared memory of the launch's size, 16-byte aligned.
__device__ inline std::byte* dynamic_shared() {
#if defined(AUTOPAR_EMULATED_CUDA)
  return emulation::dynamic_shared();
#else
  extern __shared__ __align__(16) std::byte memory[];
  return memory;
#endif
}

/// This thread's place in a grid of one dimension.
__device__ inline std::int64_t global_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

}  // namespace autopar::runtime::cuda
