// Conv by oneDNN: one to three spatial dimensions, groups, dilations, uneven padding.

#include <oneapi/dnnl/dnnl.hpp>

#include "graph/error.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/factories.h"

namespace autopar::runtime::cpu {

namespace {

using dnnl::memory;

memory::dims row_major(const memory::dims& dims) {
  memory::dims strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * std::max<std::int64_t>(dims[i], 1);
  }
  return strides;
}

memory::desc plain(const memory::dims& dims) {
  return {dims, memory::data_type::f32, row_major(dims)};
}

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

class Conv final : public Kernel {
 public:
  explicit Conv(const KernelRequest& request)
      : engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        has_bias_(request.inputs.size() > 2 && request.inputs[2].present()),
        is_empty_(request.outputs[0].elements() == 0) {
    if (request.inputs[0].type != DataType::float32) {
      fail("node {}: Conv of {} is not served", request.node.name, name_of(request.inputs[0].type));
    }
    sums_nothing_ = request.inputs[0].elements() == 0 || request.inputs[1].elements() == 0;
    if (is_empty_ || sums_nothing_) return;
    const std::int64_t groups = request.node.int_attribute("group", 1);
    memory::dims weights = request.inputs[1].shape;
    if (groups > 1) {
      weights.front() /= groups;
      weights.insert(weights.begin(), groups);
    }
    Windows windows = windows_of(request);
    for (std::int64_t& dilation : windows.dilations) --dilation;  // oneDNN counts the gaps

    const memory::desc src = plain(request.inputs[0].shape);
    const memory::desc dst = plain(request.outputs[0].shape);
    const memory::desc kernel = plain(weights);
    const memory::desc bias = has_bias_ ? plain(request.inputs[2].shape) : memory::desc();
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::convolution_forward::desc description(
        dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct, src, kernel, bias,
        dst, windows.strides, windows.dilations, windows.begin_pads, windows.end_pads);
    const dnnl::convolution_forward::primitive_desc primitive(description, attributes, engine_);
    conv_ = dnnl::convolution_forward(primitive);
    const auto unbound = [this](const memory::desc& layout) {
      return memory(layout, engine_, nullptr);
    };
    arguments_ = {{DNNL_ARG_SRC, unbound(src)},
                  {DNNL_ARG_WEIGHTS, unbound(kernel)},
                  {DNNL_ARG_DST, unbound(dst)},
                  {DNNL_ARG_SCRATCHPAD, unbound(primitive.scratchpad_desc())}};
    if (has_bias_) arguments_.emplace(DNNL_ARG_BIAS, unbound(bias));
    scratch_bytes_ = static_cast<std::int64_t>(primitive.scratchpad_desc().get_size());
  }

  std::int64_t scratch_bytes() const override { return scratch_bytes_; }

  void run(const KernelIo& io) override {
    if (is_empty_) return;
    if (sums_nothing_) return fill_with_bias(io);
    arguments_.at(DNNL_ARG_SRC).set_data_handle(io.inputs[0].data);
    arguments_.at(DNNL_ARG_WEIGHTS).set_data_handle(io.inputs[1].data);
    arguments_.at(DNNL_ARG_DST).set_data_handle(io.outputs[0].data);
    arguments_.at(DNNL_ARG_SCRATCHPAD).set_data_handle(io.scratch);
    if (has_bias_) arguments_.at(DNNL_ARG_BIAS).set_data_handle(io.inputs[2].data);
    conv_.execute(stream_, arguments_);
    stream_.wait();
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

  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::convolution_forward conv_;
  std::unordered_map<int, memory> arguments_;
  std::int64_t scratch_bytes_ = 0;
  bool has_bias_;
  bool is_empty_;
  bool sums_nothing_ = false;
};

}  // namespace

std::unique_ptr<Kernel> make_conv(const KernelRequest& request) {
  return std::make_unique<Conv>(request);
}

}  // namespace autopar::runtime::cpu
