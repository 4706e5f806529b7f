#include <algorithm>
#include <limits>

#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cpu/onednn.h"
#include "runtime/kernels/image/kernels.h"
#include "runtime/kernels/image/pooling.h"

namespace autopar::runtime::cpu {
namespace {

/// Null where oneDNN has no such pooling.
std::unique_ptr<Kernel> try_onednn_pooling(const KernelRequest& request, const Pooling& pooling,
                                           dnnl::algorithm algorithm) {
  const Slide& slide = pooling.slide;
  try {
    return make_onednn_unary(describe_primitive<onednn::Pooling>(
        user_scratchpad(), dnnl::prop_kind::forward_inference, algorithm,
        float_layout(request.inputs[0].shape), float_layout(request.outputs[0].shape),
        slide.strides, pooling.taps, slide.gaps(), slide.begin_pads, slide.end_pads));
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

/// oneDNN wants windows that see something, and no padding behind that is negative.
bool suits_onednn(const KernelRequest& request, const Pooling& pooling) {
  const std::size_t spatial = pooling.taps.size();
  return request.inputs[0].type == DataType::float32 && request.outputs[0].elements() > 0 &&
         request.inputs[0].elements() > 0 && spatial >= 1 && pooling.sees_image &&
         std::ranges::all_of(pooling.slide.end_pads, [](std::int64_t pad) { return pad >= 0; });
}

/// oneDNN begins a window's maximum with the lowest finite number, which stays where the window has
/// nothing but -inf or NaN: then the image is pooled again, by the kernel that serves all types.
class CheckedMaxPool : public Kernel {
 public:
  CheckedMaxPool(std::unique_ptr<Kernel> fast, std::unique_ptr<Kernel> exact)
      : fast_(std::move(fast)), exact_(std::move(exact)) {}

  void run(const KernelIo& io) override {
    fast_->run(io);
    const auto* out = io.outputs[0].as<const float>();
    const bool is_doubtful =
        std::find(out, out + io.outputs[0].elements(), std::numeric_limits<float>::lowest()) !=
        out + io.outputs[0].elements();
    if (is_doubtful) exact_->run(io);
  }
  std::int64_t scratch_bytes() const override {
    return std::max(fast_->scratch_bytes(), exact_->scratch_bytes());
  }
  OwnMemory own_memory() const override { return fast_->own_memory(); }

 private:
  std::unique_ptr<Kernel> fast_;
  std::unique_ptr<Kernel> exact_;
};

}  // namespace

std::unique_ptr<Kernel> make_onednn_average_pool(const KernelRequest& request) {
  const Pooling pooling(request);
  if (!suits_onednn(request, pooling)) return nullptr;
  if (request.node.int_attribute("count_include_pad", 0) == 0)
    return try_onednn_pooling(request, pooling, dnnl::algorithm::pooling_avg_exclude_padding);
  // With padding counted, oneDNN divides by whole windows.
  for (int d = 0; d < Windows::dimensions; ++d) {
    const Windows& windows = pooling.windows;
    const int end = (windows.out[d] - 1) * windows.strides[d] - windows.pads[d] +
                    (windows.taps[d] - 1) * windows.dilations[d] + 1;
    if (end > pooling.padded_ends[d]) return nullptr;
  }
  return try_onednn_pooling(request, pooling, dnnl::algorithm::pooling_avg_include_padding);
}

std::unique_ptr<Kernel> make_onednn_max_pool(const KernelRequest& request,
                                             std::unique_ptr<Kernel> other) {
  const Pooling pooling(request);
  if (is_given(request.outputs, 1) || !suits_onednn(request, pooling)) return other;
  auto fast = try_onednn_pooling(request, pooling, dnnl::algorithm::pooling_max);
  if (!fast) return other;
  return std::make_unique<CheckedMaxPool>(std::move(fast), std::move(other));
}

}  // namespace autopar::runtime::cpu
