#include <algorithm>
#include <optional>

#include "base/checked.h"
#include "graph/arena.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/cpu/onednn.h"
#include "runtime/kernels/product/onednn_product.h"
#include "runtime/kernels/quantized/byte_conv.h"
#include "runtime/kernels/quantized/byte_tile.h"
#include "runtime/kernels/quantized/integers.h"
#include "runtime/kernels/quantized/kernels.h"

namespace autopar::runtime::cpu {
namespace {

using dnnl::memory;

/// Where a node has what is optional here.
struct Places {
  std::optional<std::size_t> scale;  ///< without one, the result is the sums in int32
  std::size_t zero = 0;
  std::optional<std::size_t> bias;
};
constexpr Places of_quantized_conv{.scale = 2, .zero = 3, .bias = 4};
constexpr Places of_conv_integer{.scale = {}, .zero = 2, .bias = {}};

memory::desc plain_layout(const Shape& shape, memory::data_type type) {
  return {shape, type, row_major_strides(shape)};
}

/// One number a channel, or one for all, beside images.
memory::desc by_channel(const TensorView& numbers, std::size_t rank) {
  Shape shape(rank, 1);
  shape[1] = numbers.elements();
  return float_layout(shape);
}

/// QuantizedConv and ConvInteger. oneDNN adds a bias to the sums before they are scaled, so both
/// are done behind the convolution.
class ByteConvolution final : public Kernel {
 public:
  ByteConvolution(const KernelRequest& request, const Convolution& convolution,
                  const Places& places)
      : places_(places),
        has_zero_(is_given(request.inputs, places.zero)),
        has_bias_(places.bias && is_given(request.inputs, *places.bias)),
        out_type_(places.scale ? memory::data_type::f32 : memory::data_type::s32),
        description_(describe(request, convolution)),
        in_(plain_layout(request.inputs[0].shape, byte_type(request.inputs[0].type)),
            description_.src_desc()),
        out_(description_.dst_desc(), plain_layout(request.outputs[0].shape, out_type_)),
        out_bytes_(out_.is_needed() ? graph::aligned(static_cast<std::int64_t>(
                                          description_.dst_desc().get_size()))
                                    : 0),
        primitive_(description_, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}),
        kept_weights_(kept_bytes(request,
                                 plain_layout(grouped_weights(request.inputs[1].shape, convolution),
                                              memory::data_type::s8),
                                 description_.weights_desc())) {
    const std::size_t rank = request.inputs[0].shape.size();
    if (places.scale)
      primitive_.add(scale_argument, by_channel(request.inputs[*places.scale], rank));
    if (has_bias_) primitive_.add(bias_argument, by_channel(request.inputs[*places.bias], rank));
    if (has_zero_)
      primitive_.add(zero_argument, {{1}, memory::data_type::s32, memory::format_tag::x});
  }

  std::int64_t scratch_bytes() const override {
    return primitive_scratch_bytes() + in_.bytes() + out_bytes_;
  }
  bool reads(std::size_t input) const override { return input != 1 || !kept_weights_; }

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
    if (places_.scale) primitive_.bind(scale_argument, io.inputs[*places_.scale].data);
    if (has_bias_) primitive_.bind(bias_argument, io.inputs[*places_.bias].data);
    if (has_zero_) {
      zero_ = zero_point(io.inputs[places_.zero]);
      primitive_.bind(zero_argument, &zero_);
    }
    primitive_.run(io.scratch);
    if (out_.is_needed()) out_.run(out, io.outputs[0].data, io.scratch);
  }

 private:
  static constexpr int scale_argument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
  static constexpr int bias_argument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(1) | DNNL_ARG_SRC_1;
  static constexpr int zero_argument = DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC;

  dnnl::convolution_forward::primitive_desc describe(const KernelRequest& request,
                                                     const Convolution& convolution) const {
    const Shape& in = request.inputs[0].shape;
    const auto any = [](const Shape& shape, memory::data_type type) {
      return memory::desc(shape, type, memory::format_tag::any);
    };
    const Slide& slide = convolution.slide;
    dnnl::primitive_attr attributes = user_scratchpad();
    if (has_zero_) onednn::take_zero_point(attributes, DNNL_ARG_SRC);
    dnnl::post_ops behind;
    if (places_.scale)
      behind.append_binary(dnnl::algorithm::binary_mul,
                           by_channel(request.inputs[*places_.scale], in.size()));
    if (has_bias_)
      behind.append_binary(dnnl::algorithm::binary_add,
                           by_channel(request.inputs[*places_.bias], in.size()));
    attributes.set_post_ops(behind);
    return describe_primitive<dnnl::convolution_forward>(
        attributes, dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
        any(in, byte_type(request.inputs[0].type)),
        any(grouped_weights(request.inputs[1].shape, convolution), memory::data_type::s8),
        any(request.outputs[0].shape, out_type_), slide.strides, slide.gaps(), slide.begin_pads,
        slide.end_pads);
  }

  std::int64_t primitive_scratch_bytes() const {
    return std::max({primitive_.scratch_bytes(), in_.scratch_bytes(), out_.scratch_bytes()});
  }

  Places places_;
  bool has_zero_;
  bool has_bias_;
  memory::data_type out_type_;
  dnnl::convolution_forward::primitive_desc description_;
  Reordering in_;
  Reordering out_;
  std::int64_t out_bytes_;  ///< of the output as it is computed, where it is reordered
  OnednnPrimitive primitive_;
  std::shared_ptr<std::byte> kept_weights_;  ///< null where the node's own serve
  std::int32_t zero_ = 0;
};

std::unique_ptr<Kernel> make_byte_convolution(const KernelRequest& request, const Places& places) {
  return std::make_unique<ByteConvolution>(request, byte_convolution(request), places);
}

/// Whether the weights are constants that stand around zero.
bool has_symmetric_weights(const KernelRequest& request) {
  constexpr std::size_t zeros_input = 3;
  const std::int32_t middle = byte_shift(request.inputs[1].type);
  if (!request.is_constant(1)) return false;
  if (!is_given(request.inputs, zeros_input)) return middle == 0;
  if (!request.is_constant(zeros_input)) return false;
  const TensorView& zeros = request.inputs[zeros_input];
  const auto* bytes = zeros.as<const std::uint8_t>();
  return std::all_of(bytes, bytes + zeros.elements(),
                     [middle](std::uint8_t zero) { return zero == middle; });
}

/// Whether windows reach far beyond the image along a dimension, which oneDNN takes time for by the
/// place, or divides by 0.
bool reaches_far(const graph::Node& node, const Shape& image, const Shape& weights) {
  const std::vector<std::int64_t> dilations = node.ints_attribute("dilations", {});
  for (std::size_t d = 0; d < dilations.size() && d + 2 < weights.size(); ++d) {
    const std::int64_t taps = weights[d + 2];
    if (saturated_multiply(taps - 1, dilations[d]) >= saturated_add(image[d + 2], 2 * taps))
      return true;
  }
  return false;
}

/// Whether there is something to multiply, and a way to add it up exactly.
bool can_multiply_bytes(const graph::Node& node, std::span<const TensorView> inputs,
                        std::span<const TensorView> outputs) {
  if (inputs[0].elements() == 0 || inputs[1].elements() == 0) return false;
  if (has_byte_tiles()) return can_tile_byte_conv(node, inputs, outputs);
  return adds_bytes_exactly() && inputs[0].shape.size() <= 2 + Windows::dimensions &&
         !reaches_far(node, inputs[0].shape, inputs[1].shape);
}

}  // namespace

bool serves_quantized_conv(const graph::Node& node, std::span<const TensorView> inputs,
                           std::span<const TensorView> outputs) {
  if (outputs[0].elements() == 0) return true;
  return can_multiply_bytes(node, inputs, outputs) &&
         (!has_byte_tiles() || pays_tiled_byte_conv(node, inputs));
}

std::unique_ptr<Kernel> make_quantized_conv(const KernelRequest& request) {
  if (request.outputs[0].elements() == 0) return std::make_unique<NoWork>();
  return has_byte_tiles() ? make_tiled_quantized_conv(request)
                          : make_byte_convolution(request, of_quantized_conv);
}

std::unique_ptr<Kernel> make_conv_integer(const KernelRequest& request) {
  auto plain = make_conv_integer_loops(request);  // checks types and shapes
  if (request.outputs[0].elements() == 0 || !has_symmetric_weights(request) ||
      !can_multiply_bytes(request.node, request.inputs, request.outputs))
    return plain;
  if (has_byte_tiles()) return make_tiled_conv_integer(request);
  try {
    return make_byte_convolution(request, of_conv_integer);
  } catch (const dnnl::error&) {
    return plain;
  }
}

}  // namespace autopar::runtime::cpu
