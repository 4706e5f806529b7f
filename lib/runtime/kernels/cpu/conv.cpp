// Conv by oneDNN: one to three spatial dimensions, groups, dilations, uneven padding.

#include <algorithm>

#include "graph/error.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/onednn.h"

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

dnnl::convolution_forward::primitive_desc describe(const KernelRequest& request, bool has_bias) {
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
      has_bias ? float_layout(request.inputs[2].shape) : memory::desc(),
      float_layout(request.outputs[0].shape), windows.strides, windows.dilations,
      windows.begin_pads, windows.end_pads);
  return {description, user_scratchpad(), onednn_engine()};
}

class Conv final : public Kernel {
 public:
  explicit Conv(const KernelRequest& request)
      : has_bias_(request.inputs.size() > 2 && request.inputs[2].present()),
        is_empty_(request.outputs[0].elements() == 0),
        sums_nothing_(request.inputs[0].elements() == 0 || request.inputs[1].elements() == 0) {
    if (request.inputs[0].type != DataType::float32) {
      fail("node {}: Conv of {} is not served", request.node.name, name_of(request.inputs[0].type));
    }
    if (is_empty_ || sums_nothing_) return;
    std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    if (has_bias_) arguments.push_back(DNNL_ARG_BIAS);
    conv_ = OnednnPrimitive(describe(request, has_bias_), arguments);
  }

  std::int64_t scratch_bytes() const override { return conv_.scratch_bytes(); }

  void run(const KernelIo& io) override {
    if (is_empty_) return;
    if (sums_nothing_) return fill_with_bias(io);
    conv_.bind(DNNL_ARG_SRC, io.inputs[0].as<float>());
    conv_.bind(DNNL_ARG_WEIGHTS, io.inputs[1].as<float>());
    if (has_bias_) conv_.bind(DNNL_ARG_BIAS, io.inputs[2].as<float>());
    conv_.bind(DNNL_ARG_DST, io.outputs[0].as<float>());
    conv_.run(io.scratch);
  }

 private:
  /// A share without input channels: the sum over nothing.
  void fill_with_bias(const KernelIo& io) const {
    const TensorView& out = io.outputs[0];
    const std::int64_t channels = out.shape[1];
    const std::int64_t inner = out.elements() / (out.shape[0] * channels);
    for (std::int64_t i = 0; i < out.elements(); ++i) {
      out.as<float>()[i] = has_bias_ ? io.inputs[2].as<float>()[i / inner % channels] : 0.0F;
    }
  }

  OnednnPrimitive conv_;
  bool has_bias_;
  bool is_empty_;
  bool sums_nothing_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv(const KernelRequest& request) {
  return std::make_unique<Conv>(request);
}

}  // namespace autopar::runtime::cpu
