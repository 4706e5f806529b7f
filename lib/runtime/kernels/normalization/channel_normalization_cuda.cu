// Normalisations of images.

#include "runtime/kernels/normalization/channel_normalization.h"

#include "runtime/kernels/cuda/factories.h"
#include "runtime/kernels/cuda/loops.h"
#include "runtime/kernels/normalization/response_normalization.h"

namespace autopar::runtime::cuda {

std::unique_ptr<Kernel> make_batch_normalization(const KernelRequest& request) {
  return make_loops<BatchNormalization>(request);
}
std::unique_ptr<Kernel> make_group_normalization(const KernelRequest& request) {
  return make_loops<GroupNormalization>(request);
}
std::unique_ptr<Kernel> make_lrn(const KernelRequest& request) {
  return make_loops<LocalResponseNormalization>(request);
}
std::unique_ptr<Kernel> make_lp_normalization(const KernelRequest& request) {
  return make_loops<LpNormalization>(request);
}

}  // namespace autopar::runtime::cuda
