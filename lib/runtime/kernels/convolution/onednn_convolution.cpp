#include "runtime/kernels/convolution/onednn_convolution.h"

#include <algorithm>

#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/onednn.h"

namespace autopar::runtime::cpu {
namespace {

using dnnl::memory;

memory::desc any_layout(const memory::desc& plain) {
  return {plain.dims(), memory::data_type::f32, memory::format_tag::any};
}

class OnednnConvolution final : public Kernel {
 public:
  OnednnConvolution(const KernelRequest& request, const dnnl::primitive_desc& description,
                    const memory::desc& weights)
      : has_bias_(is_given(request.inputs, 2)),
        in_(float_layout(request.inputs[0].shape), layout(description, DNNL_ARG_SRC)),
        weights_(weights, layout(description, DNNL_ARG_WEIGHTS)),
        out_(layout(description, DNNL_ARG_DST), float_layout(request.outputs[0].shape)),
        out_bytes_(out_.is_needed() ? graph::aligned(static_cast<std::int64_t>(
                                          layout(description, DNNL_ARG_DST).get_size()))
                                    : 0),
        float_bytes_(float_bytes(request)) {
    std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    if (has_bias_) arguments.push_back(DNNL_ARG_BIAS);
    primitive_ = OnednnPrimitive(description, arguments);
    const bool is_converted = weights_.is_needed() || is_half(request.inputs[1].type);
    if (request.is_constant(1) && is_converted) keep_weights(request);
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

  void keep_weights(const KernelRequest& request) {
    const TensorView& stored = request.inputs[1];
    const auto floats = request.device.allocate(float_bytes(stored));
    const float* plain = FloatCopies(floats.get()).load(stored);
    kept_weights_ = floats;
    if (!weights_.is_needed()) return;
    kept_weights_ = request.device.allocate(weights_.bytes());
    const auto scratch = request.device.allocate(weights_.scratch_bytes());
    weights_.run(plain, kept_weights_.get(), scratch.get());
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

/// Whether images are best left in their own layout: where a convolution is a mere product, or
/// weights would be reordered in each run.
bool computes_plain(const KernelRequest& request) {
  const auto is_one = [](std::int64_t extent) { return extent == 1; };
  const std::vector<std::int64_t> strides = request.node.ints_attribute("strides", {});
  return !request.is_constant(1) || (std::ranges::all_of(places_of(request.inputs[1]), is_one) &&
                                     std::ranges::all_of(strides, is_one));
}

}  // namespace

Shape grouped_weights(const Shape& stored, const Convolution& convolution) {
  Shape weights = stored;
  if (convolution.groups == 1) return weights;
  weights.front() /= convolution.groups;
  weights.insert(weights.begin(), convolution.groups);
  return weights;
}

template <typename Forward>
std::unique_ptr<Kernel> make_onednn_convolution(const KernelRequest& request, const Slide& slide,
                                                const memory::desc& weights) {
  const memory::desc in = float_layout(request.inputs[0].shape);
  const memory::desc out = float_layout(request.outputs[0].shape);
  const memory::desc bias =
      is_given(request.inputs, 2) ? float_layout(request.inputs[2].shape) : memory::desc();
  const bool is_plain = computes_plain(request);
  // What is not constant would be reordered in each run.
  const typename Forward::desc description(
      dnnl::prop_kind::forward_inference,
      std::is_same_v<Forward, dnnl::convolution_forward> ? dnnl::algorithm::convolution_direct
                                                         : dnnl::algorithm::deconvolution_direct,
      is_plain ? in : any_layout(in), request.is_constant(1) ? any_layout(weights) : weights, bias,
      is_plain ? out : any_layout(out), slide.strides, slide.gaps(), slide.begin_pads,
      slide.end_pads);
  return std::make_unique<OnednnConvolution>(request, describe_primitive<Forward>(description),
                                             weights);
}

template std::unique_ptr<Kernel> make_onednn_convolution<dnnl::convolution_forward>(
    const KernelRequest&, const Slide&, const memory::desc&);
template std::unique_ptr<Kernel> make_onednn_convolution<dnnl::deconvolution_forward>(
    const KernelRequest&, const Slide&, const memory::desc&);

}  // namespace autopar::runtime::cpu
