#include "runtime/kernels/cuda/write_mark.h"

#include "runtime/kernels/cuda/launch.h"

namespace autopar::runtime::cuda {
namespace {

__global__ void write(volatile unsigned* mark, unsigned value) {
  *mark = value;
  __threadfence_system();
}

}  // namespace

void write_mark(cudaStream_t stream, unsigned* mark, unsigned value) {
  launch(stream, {dim3(1), dim3(1)}, write, mark, value);
}

void load_write_mark() { load(write); }

}  // namespace autopar::runtime::cuda
