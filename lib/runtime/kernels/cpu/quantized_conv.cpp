#include "runtime/kernels/cpu/quantized_conv.h"

#include <algorithm>

#include "graph/arena.h"
#include "runtime/kernels/convolution.h"
#include "runtime/kernels/cpu/onednn_convolution.h"
#include "runtime/kernels/cpu/onednn_product.h"
#include "runtime/kernels/cpu/onednn_reordering.h"

namespace autopar::runtime::cpu {
namespace {

using dnnl::memory;

constexpr std::size_t scale_input = 2;
constexpr std::size_t zero_input = 3;
constexpr std::size_t bias_input = 4;

memory::desc bytes_layout(const Shape& shape, DataType type) {
  return {shape, byte_type(type), row_major_strides(shape)};
}

/// One number a channel, or one for all, beside images.
memory::desc by_channel(const TensorView& numbers, std::size_t rank) {
  Shape shape(rank, 1);
  shape[1] = numbers.elements();
  return float_layout(shape);
}

/// oneDNN adds a bias to the sums before they are scaled, so both are done behind the convolution.
class QuantizedConv final : public Kernel {
 public:
  QuantizedConv(const KernelRequest& request, const Convolution& convolution)
      : has_zero_(has(request, zero_input)),
        has_bias_(has(request, bias_input)),
        description_(describe(request, convolution)),
        in_(bytes_layout(request.inputs[0].shape, request.inputs[0].type), description_.src_desc()),
        out_(description_.dst_desc(), float_layout(request.outputs[0].shape)),
        out_bytes_(out_.is_needed() ? graph::aligned(static_cast<std::int64_t>(
                                          description_.dst_desc().get_size()))
                                    : 0),
        primitive_(description_, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}),
        kept_weights_(kept_bytes(
            request.device, request.inputs[1],
            bytes_layout(grouped_weights(request.inputs[1].shape, convolution), DataType::int8),
            description_.weights_desc())) {
    const std::size_t rank = request.inputs[0].shape.size();
    primitive_.add(scale_argument, by_channel(request.inputs[scale_input], rank));
    if (has_bias_) primitive_.add(bias_argument, by_channel(request.inputs[bias_input], rank));
    if (has_zero_)
      primitive_.add(zero_argument, {{1}, memory::data_type::s32, memory::format_tag::x});
  }

  std::int64_t scratch_bytes() const override {
    return primitive_scratch_bytes() + in_.bytes() + out_bytes_;
  }
  Reads reads(std::size_t input) const override {
    return input == 1 && kept_weights_ ? Reads::nothing : Reads::all;
  }

  void run(const KernelIo& io) override {
    std::byte* in = io.inputs[0].data;
    std::byte* out = io.outputs[0].data;
    if (in_.is_needed()) {
      in = io.scratch + primitive_scratch_bytes();
      in_.run(io.inputs[0].data, in, io.scratch);
    }
    if (out_.is_needed()) out = io.scratch + primitive_scratch_bytes() + in_.bytes();
    primitive_.bind(DNNL_ARG_SRC, in);
    primitive_.bind(DNNL_ARG_WEIGHTS, kept_weights_ ? kept_weights_.get() : io.inputs[1].data);
    primitive_.bind(DNNL_ARG_DST, out);
    primitive_.bind(scale_argument, io.inputs[scale_input].data);
    if (has_bias_) primitive_.bind(bias_argument, io.inputs[bias_input].data);
    if (has_zero_) {
      zero_ = zero_point(io.inputs[zero_input]);
      primitive_.bind(zero_argument, &zero_);
    }
    primitive_.run(io.scratch);
    if (out_.is_needed()) out_.run(out, io.outputs[0].data, io.scratch);
  }

 private:
  static constexpr int scale_argument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
  static constexpr int bias_argument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1;
  static constexpr int zero_argument = DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC;

  static bool has(const KernelRequest& request, std::size_t input) {
    return input < request.inputs.size() && request.inputs[input].present();
  }

  dnnl::convolution_forward::primitive_desc describe(const KernelRequest& request,
                                                     const Convolution& convolution) const {
    const Shape& in = request.inputs[0].shape;
    const auto any = [](const Shape& shape, memory::data_type type) {
      return memory::desc(shape, type, memory::format_tag::any);
    };
    const Slide& slide = convolution.slide;
    memory::dims gaps = slide.dilations;
    for (std::int64_t& gap : gaps) --gap;
    dnnl::primitive_attr attributes = user_scratchpad();
    if (has_zero_) attributes.set_zero_points(DNNL_ARG_SRC, 0, {DNNL_RUNTIME_S32_VAL});
    dnnl::post_ops behind;
    behind.append_binary(dnnl::algorithm::binary_mul,
                         by_channel(request.inputs[scale_input], in.size()));
    if (has_bias_)
      behind.append_binary(dnnl::algorithm::binary_add,
                           by_channel(request.inputs[bias_input], in.size()));
    attributes.set_post_ops(behind);
    const dnnl::convolution_forward::desc description(
        dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
        any(in, byte_type(request.inputs[0].type)),
        any(grouped_weights(request.inputs[1].shape, convolution), memory::data_type::s8),
        any(request.outputs[0].shape, memory::data_type::f32), slide.strides, gaps,
        slide.begin_pads, slide.end_pads);
    return {description, attributes, onednn_engine()};
  }

  std::int64_t primitive_scratch_bytes() const {
    return std::max({primitive_.scratch_bytes(), in_.scratch_bytes(), out_.scratch_bytes()});
  }

  bool has_zero_;
  bool has_bias_;
  dnnl::convolution_forward::primitive_desc description_;
  Reordering in_;
  Reordering out_;
  std::int64_t out_bytes_;  ///< of the output as it is computed, where it is reordered
  OnednnPrimitive primitive_;
  std::shared_ptr<std::byte> kept_weights_;  ///< null where the node's own serve
  std::int32_t zero_ = 0;
};

}  // namespace

bool serves_quantized_conv(std::span<const TensorView> inputs,
                           std::span<const TensorView> outputs) {
  return adds_bytes_exactly() && inputs[0].elements() > 0 && inputs[1].elements() > 0 &&
         outputs[0].elements() > 0 && inputs[0].shape.size() <= 2 + Windows::dimensions;
}

std::unique_ptr<Kernel> make_quantized_conv(const KernelRequest& request) {
  const KernelRequest images{
      request.node, {request.inputs[0], request.inputs[1]}, request.outputs, request.device};
  return std::make_unique<QuantizedConv>(request, convolution_of(images));
}

}  // namespace autopar::runtime::cpu
