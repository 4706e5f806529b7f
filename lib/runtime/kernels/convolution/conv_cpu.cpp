// Conv by oneDNN, in float32: one to three spatial dimensions, groups, dilations, uneven padding.

#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/convolution/kernels.h"
#include "runtime/kernels/convolution/onednn_convolution.h"

namespace autopar::runtime::cpu {

namespace {

/// Conv by its definition: float64, which oneDNN has not, and sums over nothing (a share without
/// input channels).
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

  /// Offset of the input element under a window's tap; -1 in the padding.
  std::int64_t offset_in(const Shape& in) const {
    std::int64_t offset = position_[0] * in[1] + tap_[1];
    for (std::size_t d = 2; d < in.size(); ++d) {
      const std::int64_t at = position_[d] * convolution_.slide.strides[d - 2] +
                              tap_[d] * convolution_.slide.dilations[d - 2] -
                              convolution_.slide.begin_pads[d - 2];
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
  const Convolution convolution = convolution_of(request);
  const bool sums_nothing = request.inputs[0].elements() == 0 || request.inputs[1].elements() == 0;
  const bool is_plain = type == DataType::float64 || sums_nothing ||
                        request.outputs[0].elements() == 0 ||
                        convolution.slide.strides.size() > Windows::dimensions;
  if (is_plain)
    return kernel_for_type(request, type, AllFloats{}, [&]<typename T>(T) {
      return std::make_unique<PlainConv<T>>(request, convolution);
    });
  require_type(request, type, AllFloats{});
  return make_onednn_convolution<dnnl::convolution_forward>(
      request, convolution.slide,
      float_layout(grouped_weights(request.inputs[1].shape, convolution)));
}

}  // namespace autopar::runtime::cpu
