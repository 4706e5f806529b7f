#include "runtime/kernels/image/regions.h"

#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/loops.h"

namespace autopar::runtime::cpu {

std::unique_ptr<Kernel> make_roi_align(const KernelRequest& request) {
  return make_loops<RoiAlign>(request);
}
std::unique_ptr<Kernel> make_max_roi_pool(const KernelRequest& request) {
  return make_loops<MaxRoiPool>(request);
}

}  // namespace autopar::runtime::cpu
