#include "runtime/kernels/normalization/onednn_lrn.h"

#include "runtime/kernels/cpu/onednn.h"
#include "runtime/kernels/normalization/response_normalization.h"

namespace autopar::runtime::cpu {
namespace {

class OnednnLrn final : public Kernel {
 public:
  OnednnLrn(const KernelRequest& request, const ResponseWindow& window) {
    const dnnl::lrn_forward::desc description(
        dnnl::prop_kind::forward_inference, dnnl::algorithm::lrn_across_channels,
        float_layout(request.inputs[0].shape), window.size, static_cast<float>(window.alpha),
        static_cast<float>(window.beta), static_cast<float>(window.bias));
    primitive_ = OnednnPrimitive(describe_primitive<dnnl::lrn_forward>(description),
                                 {DNNL_ARG_SRC, DNNL_ARG_DST});
  }

  std::int64_t scratch_bytes() const override { return primitive_.scratch_bytes(); }

  void run(const KernelIo& io) override {
    primitive_.bind(DNNL_ARG_SRC, io.inputs[0].as<const float>());
    primitive_.bind(DNNL_ARG_DST, io.outputs[0].as<float>());
    primitive_.run(io.scratch);
  }

 private:
  OnednnPrimitive primitive_;
};

}  // namespace

std::unique_ptr<Kernel> make_onednn_lrn(const KernelRequest& request) {
  const ResponseWindow window(request);
  const TensorView& in = request.inputs[0];
  const bool is_onednns = in.type == DataType::float32 && in.shape.size() == 4 &&
                          window.before == window.behind && in.elements() > 0;
  if (!is_onednns) return nullptr;
  return std::make_unique<OnednnLrn>(request, window);
}

}  // namespace autopar::runtime::cpu
