#include "runtime/kernels/image/pooling.h"

#include "runtime/kernels/cuda/factories.h"
#include "runtime/kernels/cuda/loops.h"

namespace autopar::runtime::cuda {

std::unique_ptr<Kernel> make_average_pool(const KernelRequest& request) {
  return make_loops<AveragePool>(request);
}
std::unique_ptr<Kernel> make_max_pool(const KernelRequest& request) {
  return make_loops<MaxPool>(request);
}
std::unique_ptr<Kernel> make_lp_pool(const KernelRequest& request) {
  return make_loops<LpPool>(request);
}

}  // namespace autopar::runtime::cuda
