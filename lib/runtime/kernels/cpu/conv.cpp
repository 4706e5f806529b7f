// Conv by oneDNN, in float32: one to three spatial dimensions, groups, dilations, uneven padding.

#include "graph/error.h"
#include "runtime/kernels/convolution.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/onednn.h"
#include "runtime/kernels/element_types.h"
#include "runtime/kernels/kernel_arguments.h"

namespace autopar::runtime::cpu {

namespace {

using dnnl::memory;

dnnl::convolution_forward::primitive_desc describe(const KernelRequest& request,
                                                   const Convolution& convolution) {
  Shape weights = request.inputs[1].shape;
  if (convolution.groups > 1) {
    weights.front() /= convolution.groups;
    weights.insert(weights.begin(), convolution.groups);
  }
  memory::dims gaps = convolution.dilations;
  for (std::int64_t& gap : gaps) --gap;
  const dnnl::convolution_forward::desc description(
      dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
      float_layout(request.inputs[0].shape), float_layout(weights),
      convolution.has_bias ? float_layout(request.inputs[2].shape) : memory::desc(),
      float_layout(request.outputs[0].shape), convolution.strides, gaps, convolution.begin_pads,
      convolution.end_pads);
  return {description, user_scratchpad(), onednn_engine()};
}

/// float32, float16, bfloat16.
class Conv final : public Kernel {
 public:
  Conv(const KernelRequest& request, const Convolution& convolution)
      : has_bias_(convolution.has_bias), float_bytes_(float_bytes(request)) {
    std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    if (has_bias_) arguments.push_back(DNNL_ARG_BIAS);
    conv_ = OnednnPrimitive(describe(request, convolution), arguments);
  }

  std::int64_t scratch_bytes() const override { return conv_.scratch_bytes() + float_bytes_; }

  void run(const KernelIo& io) override {
    FloatCopies copies(io.scratch + conv_.scratch_bytes());
    float* out = copies.target(io.outputs[0]);
    conv_.bind(DNNL_ARG_SRC, copies.load(io.inputs[0]));
    conv_.bind(DNNL_ARG_WEIGHTS, copies.load(io.inputs[1]));
    if (has_bias_) conv_.bind(DNNL_ARG_BIAS, copies.load(io.inputs[2]));
    conv_.bind(DNNL_ARG_DST, out);
    conv_.run(io.scratch);
    FloatCopies::store(out, io.outputs[0]);
  }

 private:
  OnednnPrimitive conv_;
  bool has_bias_;
  std::int64_t float_bytes_;
};

/// By its definition: float64, which oneDNN has not, and sums over nothing (a share without input
/// channels).
template <typename T>
class PlainConv final : public Kernel {
 public:
  PlainConv(const KernelRequest& request, const Convolution& convolution)
      : convolution_(convolution),
        position_(request.outputs[0].shape.size()),
        tap_(position_.size()) {}

  void run(const KernelIo& io) override {
    const TensorView& weights = io.inputs[1];
    const TensorView& out = io.outputs[0];
    if (out.elements() == 0) return;
    const std::int64_t channels = out.shape[1];
    const std::int64_t taps = weights.elements() / channels;
    for (std::int64_t i = 0; i < out.elements(); ++i) {
      unravel(i, out.shape, position_);
      const std::int64_t channel = position_[1];
      auto sum = convolution_.has_bias ? widened(io.inputs[2].as<const T>()[channel]) : Wide{0};
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        unravel(tap, weights.shape, tap_);
        tap_[1] += channel / (channels / convolution_.groups) * weights.shape[1];
        const std::int64_t source = offset_in(io.inputs[0].shape);
        if (source < 0) continue;
        sum += widened(io.inputs[0].as<const T>()[source]) *
               widened(weights.as<const T>()[channel * taps + tap]);
      }
      out.as<T>()[i] = narrowed<T>(sum);
    }
  }

 private:
  using Wide = decltype(widened(T{}));

  static void unravel(std::int64_t offset, const Shape& shape, Shape& index) {
    for (std::size_t d = shape.size(); d-- > 0; offset /= shape[d]) index[d] = offset % shape[d];
  }

  /// Of the input element under a window's tap; -1 in the padding.
  std::int64_t offset_in(const Shape& in) const {
    std::int64_t offset = position_[0] * in[1] + tap_[1];
    for (std::size_t d = 2; d < in.size(); ++d) {
      const std::int64_t at = position_[d] * convolution_.strides[d - 2] +
                              tap_[d] * convolution_.dilations[d - 2] -
                              convolution_.begin_pads[d - 2];
      if (at < 0 || at >= in[d]) return -1;
      offset = offset * in[d] + at;
    }
    return offset;
  }

  Convolution convolution_;
  Shape position_;  ///< image, channel and place of the output element
  Shape tap_;       ///< input channel and place in the window
};

}  // namespace

std::unique_ptr<Kernel> make_conv(const KernelRequest& request) {
  const DataType type = request.inputs[0].type;
  const bool sums_nothing = request.inputs[0].elements() == 0 || request.inputs[1].elements() == 0;
  const bool is_plain =
      type == DataType::float64 || sums_nothing || request.outputs[0].elements() == 0;
  const Convolution convolution = convolution_of(request);
  std::unique_ptr<Kernel> kernel;
  const bool is_served = visit_type(type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
    if (is_plain)
      kernel = std::make_unique<PlainConv<T>>(request, convolution);
    else
      kernel = std::make_unique<Conv>(request, convolution);
  });
  if (!is_served) fail_type(request, type);
  return kernel;
}

}  // namespace autopar::runtime::cpu
