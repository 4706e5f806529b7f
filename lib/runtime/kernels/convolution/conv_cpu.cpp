// Conv and ConvTranspose by oneDNN, in float32: one to three spatial dimensions, groups, dilations,
// uneven padding. By kernels of our own where these are better, and by loops where it has no such
// form.

#include <algorithm>

#include "runtime/kernels/common/channels_last.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/convolution/convolution.h"
#include "runtime/kernels/convolution/kernels.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/onednn.h"

namespace autopar::runtime::cpu {
namespace {

using dnnl::memory;

using onednn::any_layout;

/// How they lie, and how oneDNN is to compute with them.
struct Images {
  memory::desc in;
  memory::desc out;
  memory::desc computed_in;
  memory::desc computed_out;
};

class OnednnConvolution final : public Kernel {
 public:
  OnednnConvolution(const KernelRequest& request, const dnnl::primitive_desc& description,
                    const Images& images, const memory::desc& weights)
      : has_bias_(is_given(request.inputs, 2)),
        in_(images.in, layout(description, DNNL_ARG_SRC)),
        weights_(weights, layout(description, DNNL_ARG_WEIGHTS)),
        out_(layout(description, DNNL_ARG_DST), images.out),
        out_bytes_(out_.is_needed() ? graph::aligned(static_cast<std::int64_t>(
                                          layout(description, DNNL_ARG_DST).get_size()))
                                    : 0),
        float_bytes_(float_bytes(request)) {
    std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    if (has_bias_) arguments.push_back(DNNL_ARG_BIAS);
    primitive_ = OnednnPrimitive(description, arguments);
    const bool is_converted = weights_.is_needed() || is_half(request.inputs[1].type);
    if (request.is_constant(1) && is_converted)
      kept_weights_ =
          request.kept(1, form_of(weights, layout(description, DNNL_ARG_WEIGHTS)),
                       static_cast<std::int64_t>(layout(description, DNNL_ARG_WEIGHTS).get_size()),
                       [&] { return converted_weights(request); });
  }

  std::int64_t scratch_bytes() const override {
    const std::int64_t weights = kept_weights_ ? 0 : weights_.bytes();
    return primitive_scratch_bytes() + float_bytes_ + in_.bytes() + weights + out_bytes_;
  }

  bool reads(std::size_t input) const override { return input != 1 || !kept_weights_; }

  void run(const KernelIo& io) override {
    std::byte* next = io.scratch + primitive_scratch_bytes() + float_bytes_;
    const auto take = [&](std::int64_t bytes) {
      auto* memory = reinterpret_cast<float*>(next);
      next += bytes;
      return memory;
    };
    const auto reordered = [&](Reordering& reordering, const float* from) {
      if (!reordering.is_needed()) return from;
      float* to = take(reordering.bytes());
      reordering.run(from, to, io.scratch);
      return static_cast<const float*>(to);
    };
    FloatCopies copies(io.scratch + primitive_scratch_bytes());
    float* out = copies.target(io.outputs[0]);
    float* computed = out_.is_needed() ? take(out_bytes_) : out;
    primitive_.bind(DNNL_ARG_SRC, reordered(in_, copies.load(io.inputs[0])));
    primitive_.bind(DNNL_ARG_WEIGHTS, kept_weights_
                                          ? reinterpret_cast<const float*>(kept_weights_.get())
                                          : reordered(weights_, copies.load(io.inputs[1])));
    if (has_bias_) primitive_.bind(DNNL_ARG_BIAS, copies.load(io.inputs[2]));
    primitive_.bind(DNNL_ARG_DST, computed);
    primitive_.run(io.scratch);
    if (out_.is_needed()) out_.run(computed, out, io.scratch);
    FloatCopies::store(out, io.outputs[0]);
  }

 private:
  static memory::desc layout(const dnnl::primitive_desc& description, int argument) {
    return description.query_md(dnnl::query::exec_arg_md, argument);
  }

  std::int64_t primitive_scratch_bytes() const {
    return std::max({primitive_.scratch_bytes(), in_.scratch_bytes(), weights_.scratch_bytes(),
                     out_.scratch_bytes()});
  }

  std::shared_ptr<std::byte> converted_weights(const KernelRequest& request) {
    const TensorView& stored = request.inputs[1];
    auto floats = request.device.allocate(float_bytes(stored));
    const float* plain = FloatCopies(floats.get()).load(stored);
    if (!weights_.is_needed()) return floats;
    auto reordered = request.device.allocate(weights_.bytes());
    const auto scratch = request.device.allocate(weights_.scratch_bytes());
    weights_.run(plain, reordered.get(), scratch.get());
    return reordered;
  }

  OnednnPrimitive primitive_;
  bool has_bias_;
  Reordering in_;
  Reordering weights_;
  Reordering out_;
  std::int64_t out_bytes_;  ///< of the output as it is computed, where it is reordered
  std::int64_t float_bytes_;
  std::shared_ptr<std::byte> kept_weights_;  ///< null where the node's own serve
};

/// The one activation that oneDNN computes behind a convolution as ONNX has it, and as fast as we:
/// NaN stays NaN, since it multiplies by its argument.
bool is_hard_swish(const graph::Node& convolution) {
  return convolution.string_attribute("activation", "") == "HardSwish";
}

dnnl::primitive_attr attributes_of(const graph::Node& node) {
  dnnl::primitive_attr attributes = user_scratchpad();
  if (is_hard_swish(node)) {
    dnnl::post_ops behind;
    onednn::append_hard_swish(behind);
    attributes.set_post_ops(behind);
  }
  return attributes;
}

/// Whether images are best left in their own layout: where a convolution is a mere product, or
/// weights would be reordered in each run.
bool computes_plain(const KernelRequest& request) {
  const auto is_one = [](std::int64_t extent) { return extent == 1; };
  const std::vector<std::int64_t> strides = request.node.ints_attribute("strides", {});
  return !request.is_constant(1) || (std::ranges::all_of(places_of(request.inputs[1]), is_one) &&
                                     std::ranges::all_of(strides, is_one));
}

/// A convolution of input 0 with input 1 in float32, float16 or bfloat16 by oneDNN, in the layouts
/// that are fastest: constant weights are brought into theirs once, when the kernel is made.
/// `weights` is how oneDNN's dimensions of the weights lie in the node's. Forward is
/// dnnl::convolution_forward or dnnl::deconvolution_forward.
template <typename Forward>
std::unique_ptr<Kernel> make_onednn_convolution(const KernelRequest& request, const Slide& slide,
                                                const Images& images, const memory::desc& weights) {
  const memory::desc bias =
      is_given(request.inputs, 2) ? float_layout(request.inputs[2].shape) : memory::desc();
  // What is not constant would be reordered in each run.
  const auto description = describe_primitive<Forward>(
      attributes_of(request.node), dnnl::prop_kind::forward_inference,
      std::is_same_v<Forward, dnnl::convolution_forward> ? dnnl::algorithm::convolution_direct
                                                         : dnnl::algorithm::deconvolution_direct,
      images.computed_in, request.is_constant(1) ? any_layout(weights) : weights, bias,
      images.computed_out, slide.strides, slide.gaps(), slide.begin_pads, slide.end_pads);
  return std::make_unique<OnednnConvolution>(request, description, images, weights);
}

/// Whether a window's tap sees the image from some place, along a spatial dimension.
bool sees_image(const KernelRequest& request, const Slide& slide, std::size_t d, std::int64_t tap) {
  const std::int64_t in = request.inputs[0].shape[d + 2];
  const std::int64_t out = request.outputs[0].shape[d + 2];
  const std::int64_t stride = slide.strides[d];
  const std::int64_t begin = tap * slide.dilations[d] - slide.begin_pads[d];
  const std::int64_t first = begin >= 0 ? 0 : (-begin + stride - 1) / stride;
  return first < out && begin + first * stride < in;
}

/// Drops outer taps that see nothing but padding from all places: wide dilations have such on small
/// images. Takes them from the weights, whose last dimensions are taps, and from the padding,
/// as far as oneDNN allows: it cuts nothing off an image but what a stride leaves.
void drop_unseen_taps(const KernelRequest& request, Slide& slide, memory::desc& weights) {
  memory::dims dims = onednn::dims_of(weights);
  memory::dims offsets(dims.size(), 0);
  for (std::size_t d = 0; d < slide.strides.size(); ++d) {
    const std::size_t at = dims.size() - slide.strides.size() + d;
    const std::int64_t step = slide.dilations[d];
    const std::int64_t taps = dims[at];
    std::int64_t first = 0;
    while (first + 1 < taps && !sees_image(request, slide, d, first) &&
           slide.begin_pads[d] >= (first + 1) * step)
      ++first;
    std::int64_t last = taps - 1;
    while (last > first && !sees_image(request, slide, d, last) &&
           slide.end_pads[d] - (taps - last) * step > -slide.strides[d])
      --last;
    slide.begin_pads[d] -= first * step;
    slide.end_pads[d] -= (taps - 1 - last) * step;
    offsets[at] = first;
    dims[at] = last + 1 - first;
  }
  if (dims != onednn::dims_of(weights)) weights = weights.submemory_desc(dims, offsets);
}

Images images_of(const KernelRequest& request) {
  const memory::desc in = float_layout(request.inputs[0].shape);
  const memory::desc out = float_layout(request.outputs[0].shape);
  if (computes_plain(request)) return {in, out, in, out};
  return {in, out, any_layout(in), any_layout(out)};
}

/// `request` is of a Conv.
std::unique_ptr<Kernel> make_onednn_conv(const KernelRequest& request,
                                         const Convolution& convolution, const Images& images) {
  Slide slide = convolution.slide;
  memory::desc weights = float_layout(grouped_weights(request.inputs[1].shape, convolution));
  try {
    if (request.is_constant(1)) drop_unseen_taps(request, slide, weights);
    return make_onednn_convolution<dnnl::convolution_forward>(request, slide, images, weights);
  } catch (const dnnl::error& error) {
    fail("node '{}': oneDNN has no such convolution: {}", request.node.name, error.what());
  }
}

/// An offset in a tensor of this shape as an index.
void unravel(std::int64_t offset, const Shape& shape, Shape& index) {
  for (std::size_t d = shape.size(); d-- > 0; offset /= shape[d]) index[d] = offset % shape[d];
}

/// The element of images of shape `in` that an output element, of this image, channel and place,
/// sees under a tap, of this channel and place in the window; -1 in the padding.
std::int64_t offset_under(const Slide& slide, const Shape& in, const Shape& position,
                          const Shape& tap) {
  std::int64_t offset = position[0] * in[1] + tap[1];
  for (std::size_t d = 2; d < in.size(); ++d) {
    const std::int64_t at = position[d] * slide.strides[d - 2] + tap[d] * slide.dilations[d - 2] -
                            slide.begin_pads[d - 2];
    if (at < 0 || at >= in[d]) return -1;
    offset = offset * in[d] + at;
  }
  return offset;
}

/// Conv by its definition: float64, which oneDNN has not, and sums over nothing (a share without
/// input channels).
template <typename T>
std::unique_ptr<Kernel> make_plain_conv(const KernelRequest& request,
                                        const Convolution& convolution) {
  const Shape first(request.outputs[0].shape.size());
  return make_kernel([convolution, position = first, tap_at = first](const KernelIo& io) mutable {
    const TensorView& in = io.inputs[0];
    const TensorView& weights = io.inputs[1];
    const TensorView& out = io.outputs[0];
    if (out.elements() == 0) return;
    const std::int64_t channels = out.shape[1];
    const std::int64_t taps = weights.elements() / channels;
    for (std::int64_t i = 0; i < out.elements(); ++i) {
      unravel(i, out.shape, position);
      const std::int64_t channel = position[1];
      auto sum = convolution.has_bias ? widened(io.inputs[2].as<const T>()[channel]) : Widened<T>{};
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        unravel(tap, weights.shape, tap_at);
        tap_at[1] += channel / (channels / convolution.groups) * weights.shape[1];
        const std::int64_t source = offset_under(convolution.slide, in.shape, position, tap_at);
        if (source < 0) continue;
        sum += widened(in.as<const T>()[source]) *
               widened(weights.as<const T>()[channel * taps + tap]);
      }
      out.as<T>()[i] = narrowed<T>(sum);
    }
  });
}

/// oneDNN's [group, out channel, channel, taps], of which the node has channels before out
/// channels.
memory::desc described_weights(const KernelRequest& request, const Convolution& convolution) {
  const Shape& stored = request.inputs[1].shape;
  const Shape strides = row_major_strides(stored);
  memory::dims dims{stored[1], stored[0] / convolution.groups};
  memory::dims steps{strides[1], strides[0]};
  dims.insert(dims.end(), stored.begin() + 2, stored.end());
  steps.insert(steps.end(), strides.begin() + 2, strides.end());
  if (convolution.groups > 1) {
    dims.insert(dims.begin(), convolution.groups);
    steps.insert(steps.begin(), stored[0] / convolution.groups * strides[0]);
  }
  return {dims, memory::data_type::f32, steps};
}

/// Whether our own kernel is to be taken instead of oneDNN's, which is as fast under one tap and
/// where few floats are summed up. A small convolution is not worth the code that oneDNN makes for
/// it, unless that takes a HardSwish along.
bool is_direct_better(const graph::Node& node, std::span<const TensorView> inputs,
                      std::span<const TensorView> outputs) {
  if (!is_hard_swish(node) && is_small_conv(node, inputs, outputs)) return true;
  constexpr std::int64_t least_depth = 256;
  const std::int64_t taps = graph::num_elements(places_of(inputs[1]));
  return taps > 1 && inputs[1].shape[1] * taps >= least_depth;
}

/// The same of one whose groups are a channel each. oneDNN takes such windows by a product of
/// matrices a channel in a series, and where they are so wide that their padding exceeds what it
/// computes at once.
bool is_depthwise_faster(std::span<const TensorView> inputs) {
  constexpr std::int64_t most_narrow_taps = 8;
  const Shape& weights = inputs[1].shape;
  return weights.size() == 3 || weights.back() > most_narrow_taps;
}

std::unique_ptr<Kernel> make_onednn_channels_last_conv(const KernelRequest& last) {
  const KernelRequest request = with_channels_second(last);
  const memory::desc in = channels_last_layout(request.inputs[0].shape);
  const memory::desc out = channels_last_layout(request.outputs[0].shape);
  const memory::desc given =
      reads_channels_second(last.node) ? float_layout(request.inputs[0].shape) : in;
  return make_onednn_conv(request, convolution_of(request), {given, out, in, out});
}

/// Whether the node has an addend, or an activation that oneDNN does not compute as ONNX has it.
bool takes_along(const graph::Node& node, std::span<const TensorView> inputs) {
  return is_given(inputs, 3) || (node.has_attribute("activation") && !is_hard_swish(node));
}

/// Makes the fastest kernel of a Conv with channels last and constant weights that takes nothing
/// along.
KernelFactory fastest_kernel(const graph::Node& node, std::span<const TensorView> inputs,
                             std::span<const TensorView> outputs) {
  if (serves_winograd_conv(node, inputs, outputs)) return make_winograd_conv;
  if (is_direct_better(node, inputs, outputs) && serves_direct_conv(node, inputs, outputs))
    return make_direct_conv;
  if (is_depthwise_faster(inputs) && serves_depthwise_conv(node, inputs, outputs))
    return make_depthwise_conv;
  return make_onednn_channels_last_conv;
}

}  // namespace

std::unique_ptr<Kernel> make_conv(const KernelRequest& request) {
  const DataType type = request.inputs[0].type;
  const Convolution convolution = convolution_of(request);
  const bool sums_nothing = request.inputs[0].elements() == 0 || request.inputs[1].elements() == 0;
  const bool is_plain = type == DataType::float64 || sums_nothing ||
                        request.outputs[0].elements() == 0 ||
                        convolution.slide.strides.size() > Windows::dimensions;
  if (is_plain)
    return kernel_for_type(request, type, AllFloats{},
                           [&]<typename T>(T) { return make_plain_conv<T>(request, convolution); });
  require_type(request, type, AllFloats{});
  if (serves_depthwise_series(request)) return make_depthwise_series(request);
  if (!computes_plain(request) && serves_small_conv(request)) return make_small_conv(request);
  return make_onednn_conv(request, convolution, images_of(request));
}

std::unique_ptr<Kernel> make_channels_last_conv(const KernelRequest& request) {
  const graph::Node& node = request.node;
  const auto& inputs = request.inputs;
  const bool has_hard_swish = is_hard_swish(node);
  if (takes_along(node, inputs)) {
    if (has_hard_swish) fail("node '{}': no kernel takes an addend and HardSwish along", node.name);
    return serves_winograd_conv(node, inputs, request.outputs) ? make_winograd_conv(request)
                                                               : make_direct_conv(request);
  }
  return has_hard_swish || !request.is_constant(1)
             ? make_onednn_channels_last_conv(request)
             : fastest_kernel(node, inputs, request.outputs)(request);
}

bool serves_channels_last_conv(const graph::Node& node, std::span<const TensorView> inputs,
                               std::span<const TensorView> outputs) {
  const std::size_t rank = inputs[0].shape.size();
  const bool is_served = inputs.size() >= 2 && inputs[0].type == DataType::float32 &&
                         (rank == 3 || rank == 4) && inputs[0].elements() > 0 &&
                         inputs[1].elements() > 0 && outputs[0].elements() > 0;
  if (!is_served) return false;
  const bool has_hard_swish = is_hard_swish(node);
  if (takes_along(node, inputs))
    return !has_hard_swish && (serves_winograd_conv(node, inputs, outputs) ||
                               serves_direct_conv(node, inputs, outputs));
  return !has_hard_swish || fastest_kernel(node, inputs, outputs) == make_onednn_channels_last_conv;
}

std::unique_ptr<Kernel> make_conv_transpose(const KernelRequest& request) {
  const DataType type = request.inputs.at(0).type;
  const bool is_empty = request.inputs[0].elements() == 0 || request.inputs[1].elements() == 0 ||
                        request.outputs[0].elements() == 0;
  if ((type != DataType::float32 && !is_half(type)) || is_empty)
    return make_conv_transpose_loops(request);
  try {
    const Convolution convolution = transposed_convolution_of(request);
    return make_onednn_convolution<dnnl::deconvolution_forward>(
        request, convolution.slide, images_of(request), described_weights(request, convolution));
  } catch (const dnnl::error&) {
    return make_conv_transpose_loops(request);
  }
}

}  // namespace autopar::runtime::cpu
