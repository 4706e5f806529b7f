#include "runtime/kernels/image/regions.h"

#include "runtime/kernels/cuda/factories.h"
#include "runtime/kernels/cuda/loops.h"

namespace autopar::runtime::cuda {

std::unique_ptr<Kernel> make_roi_align(const KernelRequest& request) {
  return make_loops<RoiAlign>(request);
}
std::unique_ptr<Kernel> make_max_roi_pool(const KernelRequest& request) {
  return make_loops<MaxRoiPool>(request);
}

}  // namespace autopar::runtime::cuda
