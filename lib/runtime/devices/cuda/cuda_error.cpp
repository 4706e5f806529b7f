#include "runtime/devices/cuda/cuda_error.h"

#include "base/error.h"

namespace autopar::runtime::cuda {

void check(cudaError_t code, std::string_view what) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // errors that do not stick would be reported again by the next call
  fail("CUDA: {}: {}", what, cudaGetErrorString(code));
}

}  // namespace autopar::runtime::cuda
