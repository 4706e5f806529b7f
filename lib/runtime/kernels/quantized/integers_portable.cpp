// Sums of products of 8-bit integers, in 32 bits: MatMulInteger and ConvInteger by their
// definition, and the step from such sums to a quantised result. An item is an element of the
// result.

#include <algorithm>
#include <cmath>

#include "runtime/device.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/convolution/convolution.h"
#include "runtime/kernels/elementwise/functions.h"
#include "runtime/kernels/product/product.h"
#include "runtime/kernels/quantized/integers.h"
#include "runtime/kernels/quantized/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

template <typename A, typename B>
class MatMulIntegerItems {
 public:
  explicit MatMulIntegerItems(const KernelRequest& request)
      : MatMulIntegerItems(request, byte_product(request)) {}

  void bind(const KernelIo& io) {
    a_ = io.inputs[0].as<const A>();
    b_ = io.inputs[1].as<const B>();
    a_zero_ = optional_input<A>(io, 2);
    b_zero_ = optional_input<B>(io, 3);
    out_ = io.outputs[0].as<std::int32_t>();
  }
  std::int64_t items() const { return elements_; }
  std::int64_t item_work() const { return depth_; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    const std::int64_t column = item % columns_;
    const std::int64_t row = item / columns_ % rows_;
    std::int64_t batch = item / columns_ / rows_;
    std::int64_t a_at = row * a_row_;
    std::int64_t b_at = column * b_column_;
    for (int d = batch_dimensions_ - 1; d >= 0; --d) {
      a_at += batch % batches_[d] * a_batches_[d];
      b_at += batch % batches_[d] * b_batches_[d];
      batch /= batches_[d];
    }
    // Operands are contiguous: a place tells which row of A, and which column of B it is.
    const std::int32_t a_zero = zero_point_at(a_zero_, a_zeros_.of(a_at));
    const std::int32_t b_zero = zero_point_at(
        b_zero_, b_zeros_.count == 1
                     ? 0
                     : (b_at / b_matrix_ * b_columns_ + b_at % b_columns_) % b_zeros_.count);
    std::int32_t sum = 0;
    for (std::int64_t k = 0; k < depth_; ++k)
      sum = functions::Add{}(
          sum, (a_[a_at + k * a_column_] - a_zero) * (b_[b_at + k * b_row_] - b_zero));
    out_[item] = sum;
  }

 private:
  static constexpr int max_batch_dimensions = 6;

  MatMulIntegerItems(const KernelRequest& request, const Product& product)
      : rows_(product.rows),
        columns_(product.columns),
        depth_(product.depth),
        elements_(request.outputs.at(0).elements()),
        a_row_(product.a.row_stride),
        a_column_(product.a.column_stride),
        b_row_(product.b.row_stride),
        b_column_(product.b.column_stride),
        b_columns_(request.inputs[1].shape.size() > 1 ? request.inputs[1].shape.back() : 1),
        b_matrix_(std::max<std::int64_t>(1, product.depth * b_columns_)),
        batch_dimensions_(static_cast<int>(product.batches.size())) {
    const Shape& a = request.inputs[0].shape;
    a_zeros_ = repeated_input(request, 2, "a_zero_point", a.size() > 1 ? a[a.size() - 2] : 1,
                              std::max<std::int64_t>(depth_, 1));
    b_zeros_ = repeated_input(request, 3, "b_zero_point", b_columns_, 1);
    if (product.batches.size() > max_batch_dimensions)
      fail("node '{}': {} over {} batch dimensions that do not merge has no kernel",
           request.node.name, request.node.op_type, product.batches.size());
    std::ranges::copy(product.batches, batches_);
    std::ranges::copy(product.a.batch_strides, a_batches_);
    std::ranges::copy(product.b.batch_strides, b_batches_);
  }

  std::int64_t rows_;
  std::int64_t columns_;
  std::int64_t depth_;
  std::int64_t elements_;
  std::int64_t a_row_;
  std::int64_t a_column_;
  std::int64_t b_row_;
  std::int64_t b_column_;
  std::int64_t b_columns_;
  std::int64_t b_matrix_;  ///< elements
  int batch_dimensions_;
  std::int64_t batches_[max_batch_dimensions] = {};
  std::int64_t a_batches_[max_batch_dimensions] = {};
  std::int64_t b_batches_[max_batch_dimensions] = {};
  Repeated a_zeros_;
  Repeated b_zeros_;
  const A* a_ = nullptr;
  const B* b_ = nullptr;
  const A* a_zero_ = nullptr;
  const B* b_zero_ = nullptr;
  std::int32_t* out_ = nullptr;
};

/// Padding is the zero point.
template <typename X, typename W>
class ConvIntegerItems {
 public:
  explicit ConvIntegerItems(const KernelRequest& request)
      : dimensions_(static_cast<int>(request.inputs.at(0).shape.size()) - 2) {
    if (dimensions_ < 1 || dimensions_ > max_dimensions)
      fail("node '{}': {} over {} spatial dimensions has no kernel", request.node.name,
           request.node.op_type, dimensions_);
    const Convolution convolution = convolution_of({request.node,
                                                    {request.inputs[0], request.inputs.at(1)},
                                                    {request.outputs.at(0)},
                                                    request.device});
    const Shape& in = request.inputs[0].shape;
    const Shape& weights = request.inputs[1].shape;
    const Shape& out = request.outputs[0].shape;
    elements_ = request.outputs[0].elements();
    in_channels_ = in[1];
    group_channels_ = weights[1];
    out_channels_ = out[1];
    group_outputs_ = std::max<std::int64_t>(1, out_channels_ / convolution.groups);
    for (int d = 0; d < dimensions_; ++d) {
      const auto i = static_cast<std::size_t>(d);
      in_[d] = in[i + 2];
      out_extents_[d] = out[i + 2];
      taps_[d] = weights[i + 2];
      strides_[d] = convolution.slide.strides[i];
      dilations_[d] = convolution.slide.dilations[i];
      pads_[d] = convolution.slide.begin_pads[i];
      places_ *= out[i + 2];
      all_taps_ *= weights[i + 2];
      in_places_ *= in[i + 2];
    }
    x_zeros_ = repeated_input(request, 2, "x_zero_point", 1, 1);
    w_zeros_ = repeated_input(request, 3, "w_zero_point", out_channels_, 1);
  }

  void bind(const KernelIo& io) {
    x_ = io.inputs[0].as<const X>();
    w_ = io.inputs[1].as<const W>();
    x_zero_ = optional_input<X>(io, 2);
    w_zero_ = optional_input<W>(io, 3);
    out_ = io.outputs[0].as<std::int32_t>();
  }
  std::int64_t items() const { return elements_; }
  std::int64_t item_work() const { return group_channels_ * all_taps_; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    const std::int64_t channel = item / places_ % out_channels_;
    const std::int64_t image = item / places_ / out_channels_;
    const std::int64_t first_channel = channel / group_outputs_ * group_channels_;
    const std::int32_t x_zero = zero_point_at(x_zero_, 0);
    const std::int32_t w_zero = zero_point_at(w_zero_, w_zeros_.count == 1 ? 0 : channel);
    const W* w = w_ + channel * group_channels_ * all_taps_;
    std::int32_t sum = 0;
    for (std::int64_t tap = 0; tap < all_taps_; ++tap) {
      const std::int64_t place = place_under(item % places_, tap);
      if (place < 0) continue;
      const X* x = x_ + (image * in_channels_ + first_channel) * in_places_ + place;
      for (std::int64_t c = 0; c < group_channels_; ++c)
        sum =
            functions::Add{}(sum, (x[c * in_places_] - x_zero) * (w[c * all_taps_ + tap] - w_zero));
    }
    out_[item] = sum;
  }

 private:
  static constexpr int max_dimensions = 4;

  /// The place of an image under a tap; -1 in the padding.
  AUTOPAR_ELEMENTWISE std::int64_t place_under(std::int64_t out_place, std::int64_t tap) const {
    std::int64_t place = 0;
    std::int64_t stride = 1;
    for (int d = dimensions_ - 1; d >= 0; --d) {
      const std::int64_t at =
          out_place % out_extents_[d] * strides_[d] + tap % taps_[d] * dilations_[d] - pads_[d];
      if (at < 0 || at >= in_[d]) return -1;
      place += at * stride;
      stride *= in_[d];
      out_place /= out_extents_[d];
      tap /= taps_[d];
    }
    return place;
  }

  int dimensions_;
  std::int64_t elements_ = 0;
  std::int64_t in_channels_ = 0;
  std::int64_t group_channels_ = 0;
  std::int64_t out_channels_ = 0;
  std::int64_t group_outputs_ = 1;
  std::int64_t places_ = 1;
  std::int64_t all_taps_ = 1;
  std::int64_t in_places_ = 1;
  std::int64_t in_[max_dimensions] = {};
  std::int64_t out_extents_[max_dimensions] = {};
  std::int64_t taps_[max_dimensions] = {};
  std::int64_t strides_[max_dimensions] = {};
  std::int64_t dilations_[max_dimensions] = {};
  std::int64_t pads_[max_dimensions] = {};
  Repeated x_zeros_;
  Repeated w_zeros_;
  const X* x_ = nullptr;
  const W* w_ = nullptr;
  const X* x_zero_ = nullptr;
  const W* w_zero_ = nullptr;
  std::int32_t* out_ = nullptr;
};

/// Requantize(sums, a_scale, b_scale, y_scale, y_zero_point?, bias?) of the domain
/// passes::internal_domain: saturate(round((sum + bias) * a_scale b_scale / y_scale) + zero point).
/// b_scale and bias are by channel, dimension `axis` of the sums, or one; a_scale, y_scale and the
/// zero point by row, or one. The scales' quotient is of their own type.
template <typename Scale, typename Y>
class RequantizeItems {
 public:
  explicit RequantizeItems(const KernelRequest& request)
      : elements_(request.outputs.at(0).elements()) {
    const Shape& shape = request.inputs.at(0).shape;
    const std::int64_t columns = shape.empty() ? 1 : shape.back();
    const std::int64_t rows = shape.size() < 2 ? 1 : shape[shape.size() - 2];
    const auto axis = request.node.int_attribute("axis", -1);
    AxisExtents channels;
    if (!shape.empty()) channels = extents_around(shape, checked_axis(request, axis, shape.size()));
    a_scales_ = repeated_input(request, 1, "the scale", rows, columns);
    b_scales_ = repeated_input(request, 2, "the scale", channels.extent, channels.inner);
    y_scales_ = repeated_input(request, 3, "the scale", rows, columns);
    zeros_ = repeated_input(request, 4, "the zero point", rows, columns);
    biases_ = repeated_input(request, 5, "the bias", channels.extent, channels.inner);
  }

  void bind(const KernelIo& io) {
    sums_ = io.inputs[0].as<const std::int32_t>();
    a_scale_ = io.inputs[1].as<const Scale>();
    b_scale_ = io.inputs[2].as<const Scale>();
    y_scale_ = io.inputs[3].as<const Scale>();
    zero_ = optional_input<Y>(io, 4);
    bias_ = optional_input<std::int32_t>(io, 5);
    out_ = io.outputs[0].as<Y>();
  }
  std::int64_t items() const { return elements_; }
  std::int64_t item_work() const { return 4; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const float scale =
        rounded(rounded(widened(a_scale_[a_scales_.of(i)]) * widened(b_scale_[b_scales_.of(i)])) /
                widened(y_scale_[y_scales_.of(i)]));
    std::int32_t sum = sums_[i];
    if (bias_ != nullptr) sum = functions::Add{}(sum, bias_[biases_.of(i)]);
    double y = std::rint(static_cast<double>(sum) * static_cast<double>(scale));
    y += zero_point_at(zero_, zeros_.of(i));
    constexpr double lowest = std::numeric_limits<Y>::lowest();
    constexpr double highest = std::numeric_limits<Y>::max();
    y = y > lowest ? y : lowest;  // NaN too
    out_[i] = static_cast<Y>(y < highest ? y : highest);
  }

 private:
  AUTOPAR_ELEMENTWISE static float rounded(float value) { return widened(narrowed<Scale>(value)); }

  std::int64_t elements_;
  Repeated a_scales_;
  Repeated b_scales_;
  Repeated y_scales_;
  Repeated zeros_;
  Repeated biases_;
  const std::int32_t* sums_ = nullptr;
  const Scale* a_scale_ = nullptr;
  const Scale* b_scale_ = nullptr;
  const Scale* y_scale_ = nullptr;
  const Y* zero_ = nullptr;
  const std::int32_t* bias_ = nullptr;
  Y* out_ = nullptr;
};

template <template <typename, typename> typename Body>
std::unique_ptr<Kernel> make_byte_items(const KernelRequest& request) {
  return kernel_for_type(request, request.inputs.at(0).type, Bytes{}, [&]<typename A>(A) {
    return kernel_for_type(request, request.inputs.at(1).type, Bytes{},
                           [&]<typename B>(B) { return make_loops<Body<A, B>>(request); });
  });
}

std::unique_ptr<Kernel> make_matmul_integer_loops(const KernelRequest& request) {
  return make_byte_items<MatMulIntegerItems>(request);
}
std::unique_ptr<Kernel> make_conv_integer_loops(const KernelRequest& request) {
  return make_byte_items<ConvIntegerItems>(request);
}
std::unique_ptr<Kernel> make_requantize(const KernelRequest& request) {
  return kernel_for_type(request, request.inputs.at(1).type, Joined<Types<float>, Halves>{},
                         [&]<typename Scale>(Scale) {
                           return kernel_for_type(
                               request, request.outputs.at(0).type, Bytes{}, [&]<typename Y>(Y) {
                                 return make_loops<RequantizeItems<Scale, Y>>(request);
                               });
                         });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
