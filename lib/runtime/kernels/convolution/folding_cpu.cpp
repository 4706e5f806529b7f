#include "runtime/kernels/convolution/folding.h"

#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/loops.h"

namespace autopar::runtime::cpu {

std::unique_ptr<Kernel> make_col2im(const KernelRequest& request) {
  return make_loops<Col2Im>(request);
}
std::unique_ptr<Kernel> make_max_unpool(const KernelRequest& request) {
  return make_loops<MaxUnpool>(request);
}

}  // namespace autopar::runtime::cpu
