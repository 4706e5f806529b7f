#include "runtime/kernels/cuda/elementwise_interpreter.h"
#include "runtime/kernels/cuda/elementwise_launch.h"

namespace autopar::runtime::cuda {

void run_narrow(const ElementwiseCode& code, cudaStream_t stream) {
  launch_code<std::uint32_t>(stream, code);
}

}  // namespace autopar::runtime::cuda
