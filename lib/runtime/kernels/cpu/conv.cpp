// Conv by oneDNN, in float32: one to three spatial dimensions, groups, dilations, uneven padding.

#include <algorithm>

#include "graph/error.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/onednn.h"
#include "runtime/kernels/element_types.h"
#include "runtime/kernels/kernel_arguments.h"

namespace autopar::runtime::cpu {

namespace {

using dnnl::memory;

/// Windows of a convolution along each spatial dimension.
struct Windows {
  memory::dims strides;
  memory::dims dilations;
  memory::dims begin_pads;
  memory::dims end_pads;
};

Windows windows_of(const KernelRequest& request) {
  const graph::Node& node = request.node;
  const Shape& in = request.inputs[0].shape;
  const Shape& weights = request.inputs[1].shape;
  const Shape& out = request.outputs[0].shape;
  const std::size_t spatial = in.size() - 2;
  Windows windows;
  windows.strides = node.ints_attribute("strides", std::vector<std::int64_t>(spatial, 1));
  windows.dilations = node.ints_attribute("dilations", std::vector<std::int64_t>(spatial, 1));
  const auto pads = node.ints_attribute("pads", std::vector<std::int64_t>(2 * spatial, 0));
  const std::string auto_pad = node.string_attribute("auto_pad", "NOTSET");
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::int64_t covered =
        (out[i + 2] - 1) * windows.strides[i] + (weights[i + 2] - 1) * windows.dilations[i] + 1;
    std::int64_t begin = pads[i];
    if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
      const std::int64_t total = std::max<std::int64_t>(0, covered - in[i + 2]);
      begin = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    } else if (auto_pad == "VALID") {
      begin = 0;
    }
    windows.begin_pads.push_back(begin);
    // What the last window needs; it may be less than the node's own, or negative.
    windows.end_pads.push_back(covered - in[i + 2] - begin);
  }
  return windows;
}

bool has_bias(const KernelRequest& request) {
  return request.inputs.size() > 2 && request.inputs[2].present();
}

dnnl::convolution_forward::primitive_desc describe(const KernelRequest& request) {
  const std::int64_t groups = request.node.int_attribute("group", 1);
  Shape weights = request.inputs[1].shape;
  if (groups > 1) {
    weights.front() /= groups;
    weights.insert(weights.begin(), groups);
  }
  Windows windows = windows_of(request);
  for (std::int64_t& dilation : windows.dilations) --dilation;  // oneDNN counts the gaps
  const dnnl::convolution_forward::desc description(
      dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
      float_layout(request.inputs[0].shape), float_layout(weights),
      has_bias(request) ? float_layout(request.inputs[2].shape) : memory::desc(),
      float_layout(request.outputs[0].shape), windows.strides, windows.dilations,
      windows.begin_pads, windows.end_pads);
  return {description, user_scratchpad(), onednn_engine()};
}

/// float32, float16, bfloat16.
class Conv final : public Kernel {
 public:
  explicit Conv(const KernelRequest& request)
      : has_bias_(has_bias(request)), float_bytes_(float_bytes(request)) {
    std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    if (has_bias_) arguments.push_back(DNNL_ARG_BIAS);
    conv_ = OnednnPrimitive(describe(request), arguments);
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
  explicit PlainConv(const KernelRequest& request)
      : windows_(windows_of(request)),
        groups_(request.node.int_attribute("group", 1)),
        has_bias_(has_bias(request)),
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
      auto sum = has_bias_ ? widened(io.inputs[2].as<const T>()[channel]) : Wide{0};
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        unravel(tap, weights.shape, tap_);
        tap_[1] += channel / (channels / groups_) * weights.shape[1];
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
      const std::int64_t at = position_[d] * windows_.strides[d - 2] +
                              tap_[d] * windows_.dilations[d - 2] - windows_.begin_pads[d - 2];
      if (at < 0 || at >= in[d]) return -1;
      offset = offset * in[d] + at;
    }
    return offset;
  }

  Windows windows_;
  std::int64_t groups_;
  bool has_bias_;
  Shape position_;  ///< image, channel and place of the output element
  Shape tap_;       ///< input channel and place in the window
};

}  // namespace

std::unique_ptr<Kernel> make_conv(const KernelRequest& request) {
  const DataType type = request.inputs[0].type;
  const bool sums_nothing = request.inputs[0].elements() == 0 || request.inputs[1].elements() == 0;
  const bool is_plain =
      type == DataType::float64 || sums_nothing || request.outputs[0].elements() == 0;
  std::unique_ptr<Kernel> kernel;
  const bool is_served = visit_type(type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
    if (is_plain)
      kernel = std::make_unique<PlainConv<T>>(request);
    else
      kernel = std::make_unique<Conv>(request);
  });
  if (!is_served) fail_type(request, type);
  return kernel;
}

}  // namespace autopar::runtime::cpu
