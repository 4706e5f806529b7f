// QuantizeLinear and DequantizeLinear. An item is a run of elements of one row.

#include <algorithm>

#include "runtime/device.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/common/low_precision.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/quantized/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

using QuantizedIntegers =
    Joined<Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t>, SmallIntegers>;
using Quantized = Joined<QuantizedIntegers, SmallFloats>;

/// A scale as float, whatever type it has.
AUTOPAR_ELEMENTWISE float scale_at(const std::byte* data, DataType type, std::int64_t i) {
  switch (type) {
    case DataType::float16:
      return number_at<Float16>(data, i);
    case DataType::bfloat16:
      return number_at<BFloat16>(data, i);
    case DataType::float8e8m0:
      return number_at<Float8E8M0>(data, i);
    case DataType::int32:
      return static_cast<float>(number_at<std::int32_t>(data, i));
    default:
      return number_at<float>(data, i);
  }
}

/// Where the scale, and the zero point, of each element of a QuantizeLinear or DequantizeLinear
/// lies: the tensor is *rows* of `inner` elements, `extent` of them for each of `outer`. Per
/// tensor, per axis and by blocks differ in strides alone.
struct QuantizationLayout {
  std::int64_t outer = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;
  std::int64_t block = 1;  ///< rows along the extent that share their scales
  std::int64_t outer_stride = 0;
  std::int64_t block_stride = 0;
  std::int64_t inner_stride = 0;  ///< 0 or 1

  std::int64_t rows() const { return outer * extent; }
};

namespace {

[[noreturn]] void fail_fit(const KernelRequest& request) {
  fail("node '{}': the scale of {}, {}, does not fit data {} along its axis", request.node.name,
       qualified_op_type(request.node), graph::to_string(request.inputs[1].shape),
       graph::to_string(request.inputs[0].shape));
}

/// The axis attribute; its default of 1 is 0 for a vector.
std::size_t quantization_axis(const KernelRequest& request, std::size_t rank) {
  return rank == 1 ? 0 : checked_axis(request, request.node.int_attribute("axis", 1), rank);
}

QuantizationLayout by_axis(const KernelRequest& request) {
  const Shape& data = request.inputs[0].shape;
  const std::size_t axis = quantization_axis(request, data.size());
  if (request.inputs[1].shape[0] != data[axis]) fail_fit(request);
  const AxisExtents extents = extents_around(data, axis);
  // Along the last axis the scales lie as the elements do.
  if (extents.inner == 1)
    return {.outer = extents.outer, .inner = extents.extent, .inner_stride = 1};
  return {
      .outer = extents.outer, .extent = extents.extent, .inner = extents.inner, .block_stride = 1};
}

QuantizationLayout by_blocks(const KernelRequest& request, std::int64_t block) {
  const Shape& data = request.inputs[0].shape;
  const Shape& scale = request.inputs[1].shape;
  if (scale.size() != data.size()) fail_fit(request);
  const std::size_t axis = quantization_axis(request, data.size());
  for (std::size_t d = 0; d < data.size(); ++d)
    if (scale[d] != (d == axis ? data[d] / block + (data[d] % block == 0 ? 0 : 1) : data[d]))
      fail_fit(request);
  block = std::min(block, std::max<std::int64_t>(1, data[axis]));
  const AxisExtents extents = extents_around(data, axis);
  const std::int64_t blocks = scale[axis];
  // Along the last axis a block is a row, if all are whole.
  if (extents.inner == 1 && extents.extent == blocks * block)
    return {.outer = extents.outer,
            .extent = blocks,
            .inner = block,
            .outer_stride = blocks,
            .block_stride = 1};
  return {.outer = extents.outer,
          .extent = extents.extent,
          .inner = extents.inner,
          .block = block,
          .outer_stride = blocks * extents.inner,
          .block_stride = extents.inner,
          .inner_stride = extents.inner == 1 ? 0 : 1};
}

/// Throws Error naming the node where scale and data do not fit together, or the zero point is not
/// like the scale.
QuantizationLayout quantization_layout(const KernelRequest& request) {
  const TensorView& data = request.inputs.at(0);
  const TensorView& scale = request.inputs.at(1);
  if (is_given(request.inputs, 2) && request.inputs[2].elements() != scale.elements())
    fail("node '{}': the zero point of {} has another shape than the scale", request.node.name,
         qualified_op_type(request.node));
  if (scale.elements() == 1) return {.inner = data.elements()};
  const std::int64_t block = request.node.int_attribute("block_size", 0);
  if (block < 0 || data.shape.empty()) fail_fit(request);
  if (block > 0) return by_blocks(request, block);
  if (scale.shape.size() != 1) fail_fit(request);
  return by_axis(request);
}

void require_scale_type(const KernelRequest& request) {
  const DataType type = request.inputs.at(1).type;
  if (!visit_type(type, Types<float, Float16, BFloat16, Float8E8M0, std::int32_t>{}, [](auto) {}))
    fail("node '{}': {} with a scale of {} has no {} kernel", request.node.name,
         qualified_op_type(request.node), name_of(type), request.device.kernels().device);
}

}  // namespace

/// A run of elements and where its scales begin.
struct QuantizationRun {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t scale = 0;
};

/// How rows are cut into runs. Where elements share a byte of the output a run has all of one byte,
/// and may lie in several rows.
class QuantizationRuns {
 public:
  QuantizationRuns(const KernelRequest& request, int in_byte)
      : layout_(quantization_layout(request)),
        elements_(request.outputs.at(0).elements()),
        in_byte_(in_byte),
        run_(std::min<std::int64_t>(layout_.inner, request.device.shares_host_memory() ? 4096 : 1)),
        runs_in_row_(run_ == 0 ? 0 : (layout_.inner + run_ - 1) / run_) {}

  std::int64_t items() const {
    return in_byte_ > 1 ? (elements_ + in_byte_ - 1) / in_byte_ : layout_.rows() * runs_in_row_;
  }
  std::int64_t item_work() const { return in_byte_ > 1 ? 8 : run_; }
  AUTOPAR_ELEMENTWISE std::int64_t stride() const { return layout_.inner_stride; }
  AUTOPAR_ELEMENTWISE int in_byte() const { return in_byte_; }
  AUTOPAR_ELEMENTWISE std::int64_t elements() const { return elements_; }

  AUTOPAR_ELEMENTWISE QuantizationRun run(std::int64_t item) const {
    const std::int64_t row = item / runs_in_row_;
    const std::int64_t first = item % runs_in_row_ * run_;
    const std::int64_t last = first + run_ < layout_.inner ? first + run_ : layout_.inner;
    return {row * layout_.inner + first, row * layout_.inner + last, scale_of(row, first)};
  }
  AUTOPAR_ELEMENTWISE std::int64_t scale_of_element(std::int64_t i) const {
    return scale_of(i / layout_.inner, i % layout_.inner);
  }

 private:
  AUTOPAR_ELEMENTWISE std::int64_t scale_of(std::int64_t row, std::int64_t column) const {
    return row / layout_.extent * layout_.outer_stride +
           row % layout_.extent / layout_.block * layout_.block_stride +
           column * layout_.inner_stride;
  }

  QuantizationLayout layout_;
  std::int64_t elements_;
  int in_byte_;
  std::int64_t run_;
  std::int64_t runs_in_row_;
};

/// y = (x - zero point) * scale, in float.
template <typename X, typename Y>
struct DequantizeRun {
  static constexpr bool vectorises = sizeof(X) == 1 && !is_small_float<X>;

  using Number = decltype(number_at<X>(nullptr, 0));

  QuantizationRuns runs;
  DataType scale_type;
  const std::byte* in;
  const std::byte* scales;
  const std::byte* zeros;  ///< may be null
  Y* out;

  std::int64_t item_work() const { return runs.item_work(); }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    const QuantizationRun run = runs.run(item);
    if (runs.stride() == 0) {
      const float scale = scale_at(scales, scale_type, run.scale);
      const auto zero = zeros != nullptr ? number_at<X>(zeros, run.scale) : Number{};
      for (std::int64_t i = run.begin; i < run.end; ++i) out[i] = value(i, scale, zero);
    } else if (scale_type == DataType::float32 && zeros == nullptr) {
      const float* floats = reinterpret_cast<const float*>(scales) + run.scale - run.begin;
      for (std::int64_t i = run.begin; i < run.end; ++i) out[i] = value(i, floats[i], Number{});
    } else {
      for (std::int64_t i = run.begin; i < run.end; ++i) {
        const std::int64_t at = run.scale + i - run.begin;
        out[i] = value(i, scale_at(scales, scale_type, at),
                       zeros != nullptr ? number_at<X>(zeros, at) : Number{});
      }
    }
  }

  AUTOPAR_ELEMENTWISE Y value(std::int64_t i, float scale, Number zero) const {
    const Number x = number_at<X>(in, i);
    // Differences of 32 bits are rare, and overflow in none but float.
    if constexpr (sizeof(Number) == 4)
      return narrowed<Y>((static_cast<float>(x) - static_cast<float>(zero)) * scale);
    else
      return narrowed<Y>(static_cast<float>(int(x) - int(zero)) * scale);
  }
};

/// y = saturate(round(x / scale) + zero point), the quotient in the precision that is asked for.
template <typename X, typename Y>
struct QuantizeRun {
  static constexpr bool vectorises = std::same_as<X, float> && std::integral<Y>;
  static constexpr bool is_number = !requires { Y::bits; };
  using Stored = std::conditional_t<is_number, Y, std::uint8_t>;

  QuantizationRuns runs;
  DataType scale_type;
  DataType division_type;  ///< of the quotient
  Conversion conversion;
  const std::byte* in;
  const std::byte* scales;
  const std::byte* zeros;  ///< may be null
  std::byte* out;

  std::int64_t item_work() const { return runs.item_work(); }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    if constexpr (stored_bits<Y> < 8) {
      unsigned byte = 0;
      for (int k = 0; k < runs.in_byte(); ++k) {
        const std::int64_t i = item * runs.in_byte() + k;
        if (i >= runs.elements()) break;
        const std::int64_t at = runs.scale_of_element(i);
        byte |= static_cast<unsigned>(quantized(i, scale_at(scales, scale_type, at), zero_at(at)))
                << (k * stored_bits<Y>);
      }
      out[item] = static_cast<std::byte>(byte);
    } else {
      const QuantizationRun run = runs.run(item);
      // Bytes that are written might be this object's own: the loops read none of it.
      Stored* const to = reinterpret_cast<Stored*>(out);
      if (runs.stride() == 0) {
        const float scale = scale_at(scales, scale_type, run.scale);
        const float zero = zero_at(run.scale);
        if (division_type == DataType::float32) {
          const Conversion how = conversion;
          const std::byte* const from = in;
          for (std::int64_t i = run.begin; i < run.end; ++i)
            to[i] = rounded(static_cast<float>(number_at<X>(from, i)) / scale, zero, how);
        } else {
          for (std::int64_t i = run.begin; i < run.end; ++i) to[i] = quantized(i, scale, zero);
        }
      } else {
        for (std::int64_t i = run.begin; i < run.end; ++i) {
          const std::int64_t at = run.scale + i - run.begin;
          to[i] = quantized(i, scale_at(scales, scale_type, at), zero_at(at));
        }
      }
    }
  }

  AUTOPAR_ELEMENTWISE float zero_at(std::int64_t i) const {
    return zeros != nullptr ? static_cast<float>(number_at<Y>(zeros, i)) : 0.0F;
  }

  AUTOPAR_ELEMENTWISE float in_precision(float value) const {
    if (division_type == DataType::float16) return to_float(to_float16(value));
    if (division_type == DataType::bfloat16) return to_float(to_bfloat16(value));
    return value;
  }

  AUTOPAR_ELEMENTWISE Stored quantized(std::int64_t i, float scale, float zero) const {
    const float x = in_precision(static_cast<float>(number_at<X>(in, i)));
    return rounded(in_precision(x / in_precision(scale)), zero, conversion);
  }

  AUTOPAR_ELEMENTWISE static Stored rounded(float x, float zero, const Conversion& how) {
    if constexpr (is_small_float<Y>) {
      return static_cast<Stored>(Y::code_of(static_cast<double>(x + zero), how));
    } else {
      // Floats hold all integers here. Bounds that no compiler knows leave it no branches to make.
      const float least = float{lowest()} - zero;
      const float most = float{highest()} - zero;
      x = x > least ? x : least;  // NaN too
      x = x < most ? x : most;
      const int integer = static_cast<int>(std::rint(x) + zero);
      if constexpr (is_number)
        return static_cast<Stored>(integer);
      else
        return static_cast<Stored>(Y::code_of(integer));
    }
  }

  AUTOPAR_ELEMENTWISE static constexpr int lowest() {
    if constexpr (is_number)
      return std::numeric_limits<Y>::lowest();
    else
      return Y::lowest;
  }
  AUTOPAR_ELEMENTWISE static constexpr int highest() {
    if constexpr (is_number)
      return std::numeric_limits<Y>::max();
    else
      return Y::highest;
  }
};

std::unique_ptr<Kernel> make_dequantize_linear(const KernelRequest& request) {
  require_scale_type(request);
  const DataType scale_type = request.inputs[1].type;
  const auto make = [&]<typename X, typename Y>(X, Y) {
    const QuantizationRuns runs(request, 1);
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      loops.each(
          runs.items(),
          DequantizeRun<X, Y>{runs, scale_type, io.inputs[0].data, io.inputs[1].data,
                              optional_data<const std::byte>(io.inputs, 2), io.outputs[0].as<Y>()});
    });
  };
  return kernel_for_types(request, request.inputs[0].type, Joined<Quantized, Types<std::int32_t>>{},
                          request.outputs.at(0).type, Joined<Types<float>, Halves>{}, make);
}

std::unique_ptr<Kernel> make_quantize_linear(const KernelRequest& request) {
  require_scale_type(request);
  const DataType scale_type = request.inputs[1].type;
  const auto precision = static_cast<DataType>(request.node.int_attribute("precision", 0));
  const DataType division = precision == DataType::undefined ? scale_type : precision;
  const Conversion conversion{.saturate = request.node.int_attribute("saturate", 1) != 0};
  const auto make = [&]<typename X, typename Y>(X, Y) {
    const QuantizationRuns runs(request, 8 / std::min(stored_bits<Y>, 8));
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      loops.each(runs.items(),
                 QuantizeRun<X, Y>{runs, scale_type, division, conversion, io.inputs[0].data,
                                   io.inputs[1].data, optional_data<const std::byte>(io.inputs, 2),
                                   io.outputs[0].data});
    });
  };
  return kernel_for_types(request, request.inputs[0].type,
                          Joined<Types<float, std::int32_t>, Halves>{}, request.outputs.at(0).type,
                          Quantized{}, make);
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
