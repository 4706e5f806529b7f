// Sums of products of 8-bit integers, in 32 bits: MatMulInteger and ConvInteger by their
// definition, and the step from such sums to a quantised result. An item is an element of the
// result.

#include <algorithm>
#include <cmath>

#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/elementwise/functions.h"
#include "runtime/kernels/quantized/integers.h"
#include "runtime/kernels/quantized/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

template <typename A, typename B>
struct MatMulIntegerElement {
  ProductStrides of;
  std::int64_t b_columns = 1;
  std::int64_t b_matrix = 1;  ///< elements
  Repeated a_zeros = {};
  Repeated b_zeros = {};
  const A* a = nullptr;
  const B* b = nullptr;
  const A* a_zero = nullptr;
  const B* b_zero = nullptr;
  std::int32_t* out = nullptr;

  std::int64_t item_work() const { return of.depth; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    const std::int64_t column = item % of.columns;
    const std::int64_t row = item / of.columns % of.rows;
    std::int64_t batch = item / of.columns / of.rows;
    std::int64_t a_at = row * of.a.row;
    std::int64_t b_at = column * of.b.column;
    for (int d = of.batch_dimensions - 1; d >= 0; --d) {
      a_at += batch % of.batches[d] * of.a.batches[d];
      b_at += batch % of.batches[d] * of.b.batches[d];
      batch /= of.batches[d];
    }
    // Operands are contiguous: a place tells which row of A, and which column of B it is.
    const std::int32_t row_zero = zero_point_at(a_zero, a_zeros.of(a_at));
    const std::int32_t column_zero = zero_point_at(
        b_zero,
        b_zeros.count == 1 ? 0 : (b_at / b_matrix * b_columns + b_at % b_columns) % b_zeros.count);
    std::int32_t sum = 0;
    for (std::int64_t k = 0; k < of.depth; ++k)
      sum = functions::Add{}(
          sum, (a[a_at + k * of.a.column] - row_zero) * (b[b_at + k * of.b.row] - column_zero));
    out[item] = sum;
  }
};

/// What ConvInteger computes with, over more dimensions than Windows have.
struct IntegerConvolution {
  static constexpr int max_dimensions = 4;

  int dimensions = 0;
  std::int64_t in_channels = 0;
  std::int64_t group_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t group_outputs = 1;
  std::int64_t places = 1;  ///< of the result
  std::int64_t all_taps = 1;
  std::int64_t in_places = 1;
  std::int64_t in[max_dimensions] = {};
  std::int64_t out[max_dimensions] = {};
  std::int64_t taps[max_dimensions] = {};
  std::int64_t strides[max_dimensions] = {};
  std::int64_t dilations[max_dimensions] = {};
  std::int64_t pads[max_dimensions] = {};

  explicit IntegerConvolution(const KernelRequest& request)
      : dimensions(static_cast<int>(request.inputs.at(0).shape.size()) - 2) {
    if (dimensions < 1 || dimensions > max_dimensions)
      fail("node '{}': {} over {} spatial dimensions has no kernel", request.node.name,
           request.node.op_type, dimensions);
    const Convolution convolution = byte_convolution(request);
    const Shape& of_in = request.inputs[0].shape;
    const Shape& of_weights = request.inputs[1].shape;
    const Shape& of_out = request.outputs[0].shape;
    in_channels = of_in[1];
    group_channels = of_weights[1];
    out_channels = of_out[1];
    group_outputs = std::max<std::int64_t>(1, out_channels / convolution.groups);
    for (int d = 0; d < dimensions; ++d) {
      const auto i = static_cast<std::size_t>(d);
      places *= out[d] = of_out[i + 2];
      all_taps *= taps[d] = of_weights[i + 2];
      in_places *= in[d] = of_in[i + 2];
      strides[d] = convolution.slide.strides[i];
      dilations[d] = convolution.slide.dilations[i];
      pads[d] = convolution.slide.begin_pads[i];
    }
  }

  /// The place of an image under a tap; -1 in the padding.
  AUTOPAR_ELEMENTWISE std::int64_t place_under(std::int64_t out_place, std::int64_t tap) const {
    std::int64_t place = 0;
    std::int64_t stride = 1;
    for (int d = dimensions - 1; d >= 0; --d) {
      const std::int64_t at =
          out_place % out[d] * strides[d] + tap % taps[d] * dilations[d] - pads[d];
      if (at < 0 || at >= in[d]) return -1;
      place += at * stride;
      stride *= in[d];
      out_place /= out[d];
      tap /= taps[d];
    }
    return place;
  }
};

/// Padding is the zero point.
template <typename X, typename W>
struct ConvIntegerElement {
  IntegerConvolution of;
  Repeated w_zeros;
  const X* in;           ///< [images, channels, places]
  const W* weights;      ///< [out channels, channels of a group, taps]
  const X* x_zeros;      ///< one; may be null
  const W* all_w_zeros;  ///< one, or [out channels]; may be null
  std::int32_t* out;     ///< [images, out channels, out places]

  std::int64_t item_work() const { return of.group_channels * of.all_taps; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    const std::int64_t channel = item / of.places % of.out_channels;
    const std::int64_t image = item / of.places / of.out_channels;
    const std::int64_t first_channel = channel / of.group_outputs * of.group_channels;
    const std::int32_t x_zero = zero_point_at(x_zeros, 0);
    const std::int32_t w_zero = zero_point_at(all_w_zeros, w_zeros.count == 1 ? 0 : channel);
    const W* w = weights + channel * of.group_channels * of.all_taps;
    std::int32_t sum = 0;
    for (std::int64_t tap = 0; tap < of.all_taps; ++tap) {
      const std::int64_t place = of.place_under(item % of.places, tap);
      if (place < 0) continue;
      const X* x = in + (image * of.in_channels + first_channel) * of.in_places + place;
      for (std::int64_t c = 0; c < of.group_channels; ++c)
        sum = functions::Add{}(
            sum, (x[c * of.in_places] - x_zero) * (w[c * of.all_taps + tap] - w_zero));
    }
    out[item] = sum;
  }
};

/// Requantize(sums, a_scale, b_scale, y_scale, y_zero_point?, bias?) of the domain
/// passes::internal_domain: saturate(round((sum + bias) * a_scale b_scale / y_scale) + zero point).
/// Scales and zero points are one, or: for a product of `rows` and `columns` b_scale by column and
/// the others by row, of each matrix or of all; else b_scale and bias by channel, dimension `axis`
/// of the sums. The scales' quotient is of their own type.
/// Whether the columns of a row have a number each. `either` is known in a run alone, which keeps
/// loops from being vectorised, but serves all cases with one kernel on a GPU.
enum class ByColumn { one, each, either };

template <typename T, ByColumn by>
struct OfColumns {
  const T* numbers;  ///< the first column's; null stands for 0
  bool has_each;

  AUTOPAR_ELEMENTWISE T at(std::int64_t column) const {
    const bool moves = by == ByColumn::each || (by == ByColumn::either && has_each);
    return numbers == nullptr ? T{} : numbers[moves ? column : 0];
  }
};

/// Read before the loop.
template <typename T>
struct OfColumns<T, ByColumn::one> {
  T number;

  AUTOPAR_ELEMENTWISE OfColumns(const T* numbers, bool /*has_each*/)
      : number(numbers == nullptr ? T{} : *numbers) {}
  AUTOPAR_ELEMENTWISE T at(std::int64_t /*column*/) const { return number; }
};

/// The scales' quotient is of their own type.
template <typename Scale, typename Y, ByColumn scales, ByColumn biases>
struct RequantizeRow {
  static constexpr bool vectorises = true;

  const std::int32_t* sums;
  OfColumns<std::int32_t, biases> bias;
  OfColumns<Scale, scales> b_scale;
  Y* out;
  float a_scale;
  float y_scale;
  double zero;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const float scale = rounded(rounded(a_scale * widened(b_scale.at(i))) / y_scale);
    const std::int32_t sum = functions::Add{}(sums[i], bias.at(i));
    double y = std::rint(static_cast<double>(sum) * static_cast<double>(scale)) + zero;
    constexpr double lowest = std::numeric_limits<Y>::lowest();
    constexpr double highest = std::numeric_limits<Y>::max();
    y = y > lowest ? y : lowest;  // NaN too
    out[i] = static_cast<Y>(static_cast<std::int32_t>(y < highest ? y : highest));
  }

  AUTOPAR_ELEMENTWISE static float rounded(float value) { return widened(narrowed<Scale>(value)); }
};

template <typename Scale, typename Y>
struct Requantization {
  const std::int32_t* sums;
  const Scale* a_scale;
  const Scale* b_scale;
  const Scale* y_scale;
  const Y* zero;             ///< may be null
  const std::int32_t* bias;  ///< may be null
  Y* out;
  Repeated a_scales;
  Repeated b_scales;
  Repeated y_scales;
  Repeated zeros;
  Repeated biases;
  std::int64_t columns;  ///< of a row
  bool columns_differ;   ///< where there are several biases, or scales of b

  AUTOPAR_ELEMENTWISE bool scales_differ() const { return columns_differ && b_scales.count > 1; }
  AUTOPAR_ELEMENTWISE bool biases_differ() const { return columns_differ && biases.count > 1; }
};

template <typename Scale, typename Y, ByColumn scales, ByColumn biases>
struct RequantizeRows {
  Requantization<Scale, Y> of;

  AUTOPAR_ELEMENTWISE auto operator()(std::int64_t row) const {
    const std::int64_t first = row * of.columns;
    return RequantizeRow<Scale, Y, scales, biases>{
        of.sums + first,
        {of.bias == nullptr ? nullptr : of.bias + of.biases.of(first), of.biases_differ()},
        {of.b_scale + of.b_scales.of(first), of.scales_differ()},
        of.out + first,
        widened(of.a_scale[of.a_scales.of(first)]),
        widened(of.y_scale[of.y_scales.of(first)]),
        static_cast<double>(zero_point_at(of.zero, of.zeros.of(first)))};
  }
};

template <typename Scale, typename Y>
struct RequantizeElement {
  RequantizeRows<Scale, Y, ByColumn::either, ByColumn::either> rows;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    rows(i / rows.of.columns)(i % rows.of.columns);
  }
};

template <typename Scale, typename Y>
void requantize(const Requantization<Scale, Y>& of, std::int64_t elements, const Loops& loops) {
  if constexpr (on_cpu) {
    const auto run = [&]<ByColumn scales, ByColumn biases>() {
      loops.rows(elements / of.columns, of.columns, RequantizeRows<Scale, Y, scales, biases>{of});
    };
    using enum ByColumn;
    if (of.scales_differ())
      of.biases_differ() ? run.template operator()<each, each>()
                         : run.template operator()<each, one>();
    else
      of.biases_differ() ? run.template operator()<one, each>()
                         : run.template operator()<one, one>();
  } else {
    loops.each(elements, RequantizeElement<Scale, Y>{{of}});
  }
}

std::unique_ptr<Kernel> make_matmul_integer_loops(const KernelRequest& request) {
  const Shape& a_shape = request.inputs.at(0).shape;
  const Shape& b_shape = request.inputs.at(1).shape;
  return kernel_for_bytes(request, [&]<typename A, typename B>(A, B) {
    MatMulIntegerElement<A, B> element{.of = byte_strides(request, byte_product(request))};
    element.b_columns = b_shape.size() > 1 ? b_shape.back() : 1;
    element.b_matrix = std::max<std::int64_t>(1, element.of.depth * element.b_columns);
    element.a_zeros = repeated_input(request, 2, "a_zero_point",
                                     a_shape.size() > 1 ? a_shape[a_shape.size() - 2] : 1,
                                     std::max<std::int64_t>(element.of.depth, 1));
    element.b_zeros = repeated_input(request, 3, "b_zero_point", element.b_columns, 1);
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      MatMulIntegerElement<A, B> bound = element;
      bound.a = io.inputs[0].as<const A>();
      bound.b = io.inputs[1].as<const B>();
      bound.a_zero = optional_data<const A>(io.inputs, 2);
      bound.b_zero = optional_data<const B>(io.inputs, 3);
      bound.out = io.outputs[0].as<std::int32_t>();
      loops.each(io.outputs[0].elements(), bound);
    });
  });
}

std::unique_ptr<Kernel> make_conv_integer_loops(const KernelRequest& request) {
  return kernel_for_bytes(request, [&]<typename X, typename W>(X, W) {
    const IntegerConvolution of(request);
    repeated_input(request, 2, "x_zero_point", 1, 1);  // checks it
    const Repeated w_zeros = repeated_input(request, 3, "w_zero_point", of.out_channels, 1);
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      loops.each(io.outputs[0].elements(),
                 ConvIntegerElement<X, W>{
                     of, w_zeros, io.inputs[0].as<const X>(), io.inputs[1].as<const W>(),
                     optional_data<const X>(io.inputs, 2), optional_data<const W>(io.inputs, 3),
                     io.outputs[0].as<std::int32_t>()});
    });
  });
}

std::unique_ptr<Kernel> make_requantize(const KernelRequest& request) {
  const Shape& shape = request.inputs.at(0).shape;
  const bool is_product = request.node.has_attribute("columns");
  const std::int64_t rows = request.node.int_attribute("rows", 1);
  const std::int64_t columns = request.node.int_attribute("columns", 1);
  const auto by_row = [&](std::size_t input, const char* name) {
    return repeated_input(request, input, name, rows, columns);
  };
  const auto by_channel = [&](std::size_t input, const char* name) {
    if (is_product) {
      Repeated repeated = repeated_input(request, input, name, columns, 1);
      repeated.period = columns;
      repeated.rows = rows;
      return repeated;
    }
    const AxisExtents channels =
        extents_around_axis(request, shape, request.node.int_attribute("axis", 1));
    return repeated_input(request, input, name, channels.extent, channels.inner);
  };
  const Repeated a_scales = by_row(1, "the scale");
  const Repeated b_scales = by_channel(2, "the scale");
  const Repeated y_scales = by_row(3, "the scale");
  const Repeated zeros = by_row(4, "the zero point");
  const Repeated biases = by_channel(5, "the bias");
  const std::int64_t row =
      is_product ? columns
                 : extents_around_axis(request, shape, request.node.int_attribute("axis", 1)).inner;
  const auto make = [&]<typename Scale, typename Y>(Scale, Y) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      if (io.outputs[0].elements() == 0) return;
      requantize<Scale, Y>(
          {io.inputs[0].as<const std::int32_t>(), io.inputs[1].as<const Scale>(),
           io.inputs[2].as<const Scale>(), io.inputs[3].as<const Scale>(),
           optional_data<const Y>(io.inputs, 4), optional_data<const std::int32_t>(io.inputs, 5),
           io.outputs[0].as<Y>(), a_scales, b_scales, y_scales, zeros, biases, row, is_product},
          io.outputs[0].elements(), loops);
    });
  };
  return kernel_for_types(request, request.inputs.at(1).type, Joined<Types<float>, Halves>{},
                          request.outputs.at(0).type, Bytes{}, make);
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
