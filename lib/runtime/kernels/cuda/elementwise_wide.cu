#include "runtime/kernels/cuda/elementwise_interpreter.h"
#include "runtime/kernels/cuda/elementwise_launch.h"

namespace autopar::runtime::cuda {

void run_wide(const ElementwiseCode& code, cudaStream_t stream) {
  launch_code<std::uint64_t>(stream, code);
}

}  // namespace autopar::runtime::cuda
