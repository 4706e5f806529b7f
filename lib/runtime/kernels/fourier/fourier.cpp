#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/checked.h"
#include "runtime/kernels/common/composite.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/fourier/fourier_form.h"
#include "runtime/kernels/fourier/kernels.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime {
namespace {

using Part = Composite::Part;

/// Larger matrices take longer to read than their transforms to compute otherwise.
constexpr std::int64_t most_matrix_elements = std::int64_t{1} << 20;
/// The longest transform, whose table of angles takes 16 times as many bytes.
constexpr std::int64_t longest = std::int64_t{1} << 30;

struct Transform : FourierForm {
  /// What part `in` of sample `n` adds to part `out` of bin `k`.
  double weight(std::int64_t n, std::int64_t in, std::int64_t k, std::int64_t out) const {
    const double turn = 2 * std::numbers::pi / static_cast<double>(length);
    const double angle = turn * static_cast<double>(n * k % length) * (is_inverse ? 1 : -1);
    const bool is_cosine = in == out;
    double value = is_cosine ? std::cos(angle) : std::sin(angle);
    if (in == 1 && out == 0) value = -value;
    // The mirrored half of the spectrum; the ends have no mirror image.
    if (reads_half() && n != 0 && 2 * n != length) value *= 2;
    return is_inverse ? value / static_cast<double>(length) : value;
  }
};

graph::Tensor tensor_of(const KernelRequest& request, DataType type, const Shape& shape,
                        const std::vector<double>& values) {
  graph::Tensor tensor = graph::Tensor::zeros(type, shape);
  const bool is_known = visit_type(type, AllNumbers{}, [&]<typename T>(T) {
    T* to = reinterpret_cast<T*>(tensor.mutable_bytes().data());
    for (const double value : values) *to++ = narrowed<T>(value);
  });
  if (!is_known) fail_type(request, type);
  return tensor;
}

graph::Tensor matrix_of(const KernelRequest& request, const Transform& transform, DataType type) {
  std::vector<double> weights;
  for (std::int64_t n = 0; n < transform.samples; ++n)
    for (std::int64_t in = 0; in < transform.in_parts; ++in)
      for (std::int64_t k = 0; k < transform.bins; ++k)
        for (std::int64_t out = 0; out < transform.out_parts; ++out)
          weights.push_back(transform.weight(n, in, k, out));
  return tensor_of(request, type,
                   {transform.samples * transform.in_parts, transform.bins * transform.out_parts},
                   weights);
}

/// cos and sin of every angle that occurs, in double.
graph::Tensor circle_of(const Transform& transform) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < transform.length; ++i) {
    const double angle =
        2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(transform.length);
    values.insert(values.end(), {std::cos(angle), std::sin(angle)});
  }
  return graph::Tensor::of<double>(DataType::float64, {transform.length, 2}, values);
}

/// rows [n, samples * in_parts] to bins [n, bins * out_parts].
void add_transform(const KernelRequest& request, Composite& composite, const Transform& transform,
                   const Part& rows, const Part& bins) {
  const std::int64_t elements = saturated_multiply(transform.samples * transform.in_parts,
                                                   transform.bins * transform.out_parts);
  if (elements <= most_matrix_elements) {
    const Part matrix = composite.constant(matrix_of(request, transform, rows.type));
    return composite.add(passes::internal_domain, "FusedMatMul", {}, {rows, matrix}, {bins});
  }
  composite.add(passes::internal_domain, "FourierRows",
                {{"inverse", std::int64_t{transform.is_inverse}},
                 {"in_parts", transform.in_parts},
                 {"out_parts", transform.out_parts}},
                {rows, composite.constant(circle_of(transform))}, {bins});
}

/// The one integer of an input.
std::int64_t integer_input(const KernelRequest& request, std::size_t input, const char* name,
                           std::int64_t otherwise) {
  const auto values = constant_integers(request, input, name, {otherwise});
  if (values.size() != 1)
    fail("node '{}': {} of {} is one number", request.node.name, name, request.node.op_type);
  return values.front();
}

/// Real or complex, by the last dimension.
std::int64_t parts_of(const KernelRequest& request, const Shape& shape) {
  if (shape.size() < 2 || (shape.back() != 1 && shape.back() != 2))
    fail("node '{}': {} of shape {}, whose last dimension is neither 1 nor 2", request.node.name,
         request.node.op_type, graph::to_string(shape));
  return shape.back();
}

/// Elements as [outer, extent, inner, parts], copied to or from [outer, inner, extent, parts].
CopyLayout rows_layout(const AxisExtents& around, std::int64_t extent, std::int64_t parts,
                       bool to_rows) {
  const std::int64_t inner = around.inner / parts;
  const std::vector<std::int64_t> tensor{around.extent * around.inner, parts, around.inner, 1};
  const std::vector<std::int64_t> rows{inner * extent * parts, extent * parts, parts, 1};
  return {{around.outer, inner, extent, parts}, to_rows ? tensor : rows, to_rows ? rows : tensor};
}

}  // namespace

std::unique_ptr<Kernel> make_dft(const KernelRequest& request) {
  require_type(request, request.inputs.at(0).type, AllFloats{});
  if (request.outputs.at(0).elements() == 0) return std::make_unique<NoWork>();
  const Shape& in = request.inputs[0].shape;
  const Shape& out = request.outputs.at(0).shape;
  Transform transform;
  transform.in_parts = parts_of(request, in);
  transform.out_parts = parts_of(request, out);
  transform.is_inverse = request.node.int_attribute("inverse", 0) != 0;
  const std::size_t axis = checked_axis(request, integer_input(request, 2, "axis", -2), in.size());
  if (axis + 1 == in.size() || out.size() != in.size())
    fail("node '{}': DFT along its last dimension, which holds the parts of numbers",
         request.node.name);
  transform.bins = out[axis];
  const bool reads_half = transform.reads_half();
  const std::int64_t whole = reads_half ? 2 * (in[axis] - 1) : in[axis];
  transform.length = integer_input(request, 1, "dft_length", whole);
  if (transform.length <= 0 || transform.length > longest)
    fail("node '{}': DFT of length {}, which is not between 1 and {}", request.node.name,
         transform.length, longest);
  transform.samples = std::min(in[axis], reads_half ? transform.length / 2 + 1 : transform.length);
  const AxisExtents from = extents_around(in, axis);
  const AxisExtents to = extents_around(out, axis);
  const std::int64_t rows = from.outer * from.inner / transform.in_parts;

  Composite composite(request);
  Part samples = composite.input(0);
  const Shape row_shape{rows, transform.samples * transform.in_parts};
  const bool is_last = axis + 2 == in.size();
  if (!is_last || transform.samples != in[axis]) {
    samples = composite.temporary(samples.type, row_shape);
    composite.add_copy(composite.input(0), samples,
                       rows_layout(from, transform.samples, transform.in_parts, true));
  }
  const Shape bin_shape{rows, transform.bins * transform.out_parts};
  const Part bins = is_last ? composite.output(0) : composite.temporary(samples.type, bin_shape);
  add_transform(request, composite, transform, Composite::reshaped(samples, row_shape),
                Composite::reshaped(bins, bin_shape));
  if (!is_last)
    composite.add_copy(bins, composite.output(0),
                       rows_layout(to, transform.bins, transform.out_parts, false));
  return composite.finish();
}

std::unique_ptr<Kernel> make_stft(const KernelRequest& request) {
  require_type(request, request.inputs.at(0).type, AllFloats{});
  const Shape& signal = request.inputs[0].shape;
  const Shape& out = request.outputs.at(0).shape;
  if (signal.size() != 3 || out.size() != 4)
    fail("node '{}': STFT of shape {}", request.node.name, graph::to_string(signal));
  if (request.outputs[0].elements() == 0) return std::make_unique<NoWork>();
  Transform transform;
  transform.in_parts = parts_of(request, signal);
  transform.bins = out[2];
  Composite composite(request);
  const bool has_window = composite.has_input(2);
  const std::int64_t window = has_window ? request.inputs[2].elements() : signal[1];
  transform.length = integer_input(request, 3, "frame_length", window);
  transform.samples = transform.length;
  // A step beyond the signal leads nowhere.
  const std::int64_t step = std::min(integer_input(request, 1, "frame_step", 1), signal[1]);
  const std::int64_t frames = out[1];
  if (has_window && window != transform.length)
    fail("node '{}': the window of STFT has {} elements, a frame {}", request.node.name, window,
         transform.length);
  if (transform.length > signal[1] ||
      saturated_multiply(frames - 1, step) > signal[1] - transform.length)
    fail("node '{}': {} frames of STFT do not fit {} samples", request.node.name, frames,
         signal[1]);

  const std::int64_t parts = transform.in_parts;
  const Shape cut{signal[0], frames, transform.length, parts};
  Part samples = composite.temporary(request.inputs[0].type, cut);
  composite.add_copy(composite.input(0), samples,
                     {cut, {signal[1] * parts, step * parts, parts, 1}, row_major_strides(cut)});
  if (has_window) {
    const Part weighted = composite.temporary(samples.type, cut);
    composite.add("", "Mul", {},
                  {samples, Composite::reshaped(composite.input(2), {transform.length, 1})},
                  {weighted});
    samples = weighted;
  }
  const std::int64_t rows = signal[0] * frames;
  add_transform(request, composite, transform,
                Composite::reshaped(samples, {rows, transform.length * parts}),
                Composite::reshaped(composite.output(0), {rows, transform.bins * 2}));
  return composite.finish();
}

std::unique_ptr<Kernel> make_mel_weight_matrix(const KernelRequest& request) {
  const auto number = [&](std::size_t input, const char* name) {
    if (!request.is_constant(input))
      fail("node '{}': {} of MelWeightMatrix must be a constant", request.node.name, name);
    double value = 0;
    const bool is_known = visit_type(request.inputs[input].type, AllNumbers{}, [&]<typename T>(T) {
      value = static_cast<double>(widened(*request.inputs[input].as<const T>()));
    });
    if (!is_known) fail_type(request, request.inputs[input].type);
    return value;
  };
  const double dft_length = number(1, "dft_length");
  const double sample_rate = number(2, "sample_rate");
  const TensorView& out = request.outputs.at(0);
  const std::int64_t bins = out.shape.at(0);
  const std::int64_t bands = out.shape.at(1);
  if (number(0, "num_mel_bins") != static_cast<double>(bands))
    fail("node '{}': num_mel_bins of MelWeightMatrix is not the {} bands of its result",
         request.node.name, bands);
  const auto mel_of = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double lowest = mel_of(number(3, "lower_edge_hertz"));
  const double step = (mel_of(number(4, "upper_edge_hertz")) - lowest) / double(bands + 2);
  /// The spectrum's bin at which a band begins; -1 for what is no number.
  const auto bin_of = [&](std::int64_t band) {
    const double hertz = 700 * (std::pow(10, (lowest + step * double(band)) / 2595) - 1);
    return truncated<std::int64_t>(std::floor((dft_length + 1) * hertz / sample_rate)).value_or(-1);
  };
  std::vector<double> weights(static_cast<std::size_t>(bins * bands), 0);
  for (std::int64_t band = 0; band < bands; ++band) {
    const std::int64_t begin = bin_of(band);
    const std::int64_t top = bin_of(band + 1);
    const std::int64_t end = bin_of(band + 2);
    if (std::min(begin, top) < 0 || std::max(top, end - 1) >= bins)
      fail("node '{}': band {} of MelWeightMatrix is beyond the spectrum", request.node.name, band);
    const auto weight = [&](std::int64_t bin) -> double& {
      return weights[static_cast<std::size_t>(bin * bands + band)];
    };
    for (std::int64_t bin = begin; bin < top; ++bin)
      weight(bin) = double(bin - begin) / double(top - begin);
    for (std::int64_t bin = top; bin < end; ++bin)
      weight(bin) = double(end - bin) / double(end - top);
    if (begin == top || top >= end) weight(top) = 1;
  }
  return make_fixed(request, tensor_of(request, out.type, out.shape, weights));
}

}  // namespace autopar::runtime
