#include "runtime/kernels/cpu/onednn.h"
#include "runtime/kernels/normalization/kernels.h"
#include "runtime/kernels/normalization/response_normalization.h"

namespace autopar::runtime::cpu {

std::unique_ptr<Kernel> make_onednn_lrn(const KernelRequest& request) {
  const ResponseWindow window(request);
  const TensorView& in = request.inputs[0];
  const bool is_onednns = in.type == DataType::float32 && in.shape.size() == 4 &&
                          window.before == window.behind && in.elements() > 0;
  if (!is_onednns) return nullptr;
  return make_onednn_unary(within_onednn([&] {
    return onednn::describe_lrn(onednn_engine(), user_scratchpad(), float_layout(in.shape),
                                window.size, static_cast<float>(window.alpha),
                                static_cast<float>(window.beta), static_cast<float>(window.bias));
  }));
}

}  // namespace autopar::runtime::cpu
