// QuantizeLinear and DequantizeLinear. An item is a run of elements of one row.

#include <algorithm>

#include "runtime/device.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/common/low_precision.h"
#include "runtime/kernels/quantized/kernels.h"
#include "runtime/kernels/quantized/quantization.h"

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

inline void require_scale_type(const KernelRequest& request) {
  const DataType type = request.inputs.at(1).type;
  if (!visit_type(type, Types<float, Float16, BFloat16, Float8E8M0, std::int32_t>{}, [](auto) {}))
    fail("node '{}': {} with a scale of {} has no {} kernel", request.node.name,
         qualified_op_type(request.node), name_of(type), request.device.kernels().device);
}

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

  bool is_packed() const { return in_byte_ > 1; }
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
class DequantizeItems {
 public:
  static constexpr bool vectorises = sizeof(X) == 1 && !is_small_float<X>;

  explicit DequantizeItems(const KernelRequest& request)
      : runs_(request, 1), scale_type_(request.inputs[1].type) {}

  void bind(const KernelIo& io) {
    in_ = io.inputs[0].data;
    scale_ = io.inputs[1].data;
    zero_ = io.inputs.size() > 2 && io.inputs[2].present() ? io.inputs[2].data : nullptr;
    out_ = io.outputs[0].as<Y>();
  }
  std::int64_t items() const { return runs_.items(); }
  std::int64_t item_work() const { return runs_.item_work(); }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    const QuantizationRun run = runs_.run(item);
    if (runs_.stride() == 0) {
      const float scale = scale_at(scale_, scale_type_, run.scale);
      const auto zero = zero_ != nullptr ? number_at<X>(zero_, run.scale) : Number{};
      for (std::int64_t i = run.begin; i < run.end; ++i) out_[i] = value(i, scale, zero);
    } else if (scale_type_ == DataType::float32 && zero_ == nullptr) {
      const float* scales = reinterpret_cast<const float*>(scale_) + run.scale - run.begin;
      for (std::int64_t i = run.begin; i < run.end; ++i) out_[i] = value(i, scales[i], Number{});
    } else {
      for (std::int64_t i = run.begin; i < run.end; ++i) {
        const std::int64_t at = run.scale + i - run.begin;
        out_[i] = value(i, scale_at(scale_, scale_type_, at),
                        zero_ != nullptr ? number_at<X>(zero_, at) : Number{});
      }
    }
  }

 private:
  using Number = decltype(number_at<X>(nullptr, 0));

  AUTOPAR_ELEMENTWISE Y value(std::int64_t i, float scale, Number zero) const {
    const Number x = number_at<X>(in_, i);
    // Differences of 32 bits are rare, and overflow in none but float.
    if constexpr (sizeof(Number) == 4)
      return narrowed<Y>((static_cast<float>(x) - static_cast<float>(zero)) * scale);
    else
      return narrowed<Y>(static_cast<float>(int(x) - int(zero)) * scale);
  }

  QuantizationRuns runs_;
  DataType scale_type_;
  const std::byte* in_ = nullptr;
  const std::byte* scale_ = nullptr;
  const std::byte* zero_ = nullptr;
  Y* out_ = nullptr;
};

/// y = saturate(round(x / scale) + zero point), the quotient in the precision that is asked for.
template <typename X, typename Y>
class QuantizeItems {
 public:
  static constexpr bool vectorises = std::same_as<X, float> && std::integral<Y>;

  explicit QuantizeItems(const KernelRequest& request)
      : runs_(request, 8 / std::min(stored_bits<Y>, 8)),
        scale_type_(request.inputs[1].type),
        division_type_(division_type(request)) {
    conversion_.saturate = request.node.int_attribute("saturate", 1) != 0;
  }

  void bind(const KernelIo& io) {
    in_ = io.inputs[0].data;
    scale_ = io.inputs[1].data;
    zero_ = io.inputs.size() > 2 && io.inputs[2].present() ? io.inputs[2].data : nullptr;
    out_ = io.outputs[0].data;
  }
  std::int64_t items() const { return runs_.items(); }
  std::int64_t item_work() const { return runs_.item_work(); }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    if constexpr (stored_bits<Y> < 8) {
      unsigned byte = 0;
      for (int k = 0; k < runs_.in_byte(); ++k) {
        const std::int64_t i = item * runs_.in_byte() + k;
        if (i >= runs_.elements()) break;
        const std::int64_t at = runs_.scale_of_element(i);
        byte |= static_cast<unsigned>(quantized(i, scale_at(scale_, scale_type_, at), zero_at(at)))
                << (k * stored_bits<Y>);
      }
      out_[item] = static_cast<std::byte>(byte);
    } else {
      const QuantizationRun run = runs_.run(item);
      // Bytes that are written might be this object's own: the loops read none of it.
      Stored* const out = reinterpret_cast<Stored*>(out_);
      if (runs_.stride() == 0) {
        const float scale = scale_at(scale_, scale_type_, run.scale);
        const float zero = zero_at(run.scale);
        if (division_type_ == DataType::float32) {
          const Conversion conversion = conversion_;
          const std::byte* const in = in_;
          for (std::int64_t i = run.begin; i < run.end; ++i)
            out[i] = rounded(static_cast<float>(number_at<X>(in, i)) / scale, zero, conversion);
        } else {
          for (std::int64_t i = run.begin; i < run.end; ++i) out[i] = quantized(i, scale, zero);
        }
      } else {
        for (std::int64_t i = run.begin; i < run.end; ++i) {
          const std::int64_t at = run.scale + i - run.begin;
          out[i] = quantized(i, scale_at(scale_, scale_type_, at), zero_at(at));
        }
      }
    }
  }

 private:
  static constexpr bool is_number = !requires { Y::bits; };
  using Stored = std::conditional_t<is_number, Y, std::uint8_t>;

  AUTOPAR_ELEMENTWISE float zero_at(std::int64_t i) const {
    return zero_ != nullptr ? static_cast<float>(number_at<Y>(zero_, i)) : 0.0F;
  }

  AUTOPAR_ELEMENTWISE float in_precision(float value) const {
    if (division_type_ == DataType::float16) return to_float(to_float16(value));
    if (division_type_ == DataType::bfloat16) return to_float(to_bfloat16(value));
    return value;
  }

  AUTOPAR_ELEMENTWISE Stored quantized(std::int64_t i, float scale, float zero) const {
    const float x = in_precision(static_cast<float>(number_at<X>(in_, i)));
    return rounded(in_precision(x / in_precision(scale)), zero, conversion_);
  }

  AUTOPAR_ELEMENTWISE static Stored rounded(float x, float zero, const Conversion& conversion) {
    if constexpr (is_small_float<Y>) {
      return static_cast<Stored>(Y::code_of(static_cast<double>(x + zero), conversion));
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

  QuantizationRuns runs_;
  DataType scale_type_;
  DataType division_type_;
  Conversion conversion_;
  const std::byte* in_ = nullptr;
  const std::byte* scale_ = nullptr;
  const std::byte* zero_ = nullptr;
  std::byte* out_ = nullptr;
};

std::unique_ptr<Kernel> make_dequantize_linear(const KernelRequest& request) {
  require_scale_type(request);
  return kernel_for_type(
      request, request.inputs.at(0).type, Joined<Quantized, Types<std::int32_t>>{},
      [&]<typename X>(X) {
        return kernel_for_type(
            request, request.outputs.at(0).type, Joined<Types<float>, Halves>{},
            [&]<typename Y>(Y) { return make_loops<DequantizeItems<X, Y>>(request); });
      });
}

std::unique_ptr<Kernel> make_quantize_linear(const KernelRequest& request) {
  require_scale_type(request);
  return kernel_for_type(request, request.inputs.at(0).type,
                         Joined<Types<float, std::int32_t>, Halves>{}, [&]<typename X>(X) {
                           return kernel_for_type(request, request.outputs.at(0).type, Quantized{},
                                                  [&]<typename Y>(Y) {
                                                    return make_loops<QuantizeItems<X, Y>>(request);
                                                  });
                         });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
