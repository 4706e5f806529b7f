#include "runtime/kernels/convolution/folding.h"

#include "runtime/kernels/cuda/factories.h"
#include "runtime/kernels/cuda/loops.h"

namespace autopar::runtime::cuda {

std::unique_ptr<Kernel> make_col2im(const KernelRequest& request) {
  return make_loops<Col2Im>(request);
}
std::unique_ptr<Kernel> make_max_unpool(const KernelRequest& request) {
  return make_loops<MaxUnpool>(request);
}

}  // namespace autopar::runtime::cuda
