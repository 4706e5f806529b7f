#include "runtime/kernels/image/resize.h"

#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/loops.h"

namespace autopar::runtime::cpu {

std::unique_ptr<Kernel> make_resize(const KernelRequest& request) {
  if (request.node.string_attribute("mode", "nearest") == "nearest")
    return make_loops<NearestResize>(request);
  return make_loops<InterpolatedResize>(request);
}

}  // namespace autopar::runtime::cpu
