#include "runtime/kernels/image/grid_sample.h"

#include "runtime/kernels/cuda/factories.h"
#include "runtime/kernels/cuda/loops.h"

namespace autopar::runtime::cuda {

std::unique_ptr<Kernel> make_grid_sample(const KernelRequest& request) {
  return make_loops<GridSample>(request);
}
std::unique_ptr<Kernel> make_affine_grid(const KernelRequest& request) {
  return make_loops<AffineGrid>(request);
}
std::unique_ptr<Kernel> make_deform_conv(const KernelRequest& request) {
  return make_loops<DeformConv>(request);
}

}  // namespace autopar::runtime::cuda
