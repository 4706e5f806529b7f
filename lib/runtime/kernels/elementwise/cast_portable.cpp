// Cast and CastLike from or to a type that no operator computes in; all others are element-wise
// programs (operators.h).

#include "runtime/device.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/common/low_precision.h"
#include "runtime/kernels/elementwise/elementwise.h"
#include "runtime/kernels/elementwise/function.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

/// Floats of a byte.
using ByteFloats = Types<Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float8E8M0>;

/// A number on its way: integers as integers, too, since a double does not hold all of them.
struct AnyNumber {
  bool is_integer;
  std::int64_t integer;
  double real;
};

Conversion conversion_of(const KernelRequest& request) {
  Conversion conversion;
  conversion.saturate = request.node.int_attribute("saturate", 1) != 0;
  const std::string rounding = request.node.string_attribute("round_mode", "up");
  if (rounding == "down")
    conversion.power_rounding = PowerRounding::down;
  else if (rounding == "nearest")
    conversion.power_rounding = PowerRounding::nearest;
  else if (rounding != "up")
    fail("node '{}': {} knows no round_mode '{}'", request.node.name,
         qualified_op_type(request.node), rounding);
  return conversion;
}

/// Casts elements of `From`; an item is an output element, or a byte of several.
template <typename From>
class CastItems {
 public:
  explicit CastItems(const KernelRequest& request)
      : to_(request.outputs.at(0).type),
        elements_(request.outputs[0].elements()),
        conversion_(conversion_of(request)) {
    const int bits = graph::bits_of(to_);
    if (bits < 8) in_item_ = 8 / bits;
  }

  void bind(const KernelIo& io) {
    in_ = io.inputs[0].data;
    out_ = io.outputs[0].data;
  }
  std::int64_t items() const { return (elements_ + in_item_ - 1) / in_item_; }
  std::int64_t item_work() const { return 4 * in_item_; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    if (in_item_ > 1) return pack(item);
    const AnyNumber number = read(item);
    visit_stored(to_, ByteFloats{}, [&]<typename To>(To) {
      out_[item] = std::byte(To::code_of(number.real, conversion_));
    });
    visit_stored(to_, Joined<NumbersAndBooleans, Halves>{}, [&]<typename To>(To) {
      reinterpret_cast<To*>(out_)[item] = converted<To>(number);
    });
  }

 private:
  AUTOPAR_ELEMENTWISE AnyNumber read(std::int64_t i) const {
    auto number = runtime::number_at<From>(in_, i);
    return {!std::floating_point<decltype(number)>, functions::Convert<std::int64_t>{}(number),
            functions::Convert<double>{}(number)};
  }

  /// The elements of one byte.
  AUTOPAR_ELEMENTWISE void pack(std::int64_t item) const {
    const int bits = 8 / in_item_;
    unsigned byte = 0;
    for (int k = 0; k < in_item_; ++k) {
      const std::int64_t i = item * in_item_ + k;
      if (i >= elements_) break;
      const AnyNumber number = read(i);
      const unsigned code = to_ == DataType::float4e2m1
                                ? Float4E2M1::code_of(number.real, conversion_)
                                : static_cast<unsigned>(number.integer) & ((1U << bits) - 1);
      byte |= code << (k * bits);
    }
    out_[item] = static_cast<std::byte>(byte);
  }

  /// To a type that operators compute in.
  template <typename To>
  AUTOPAR_ELEMENTWISE static To converted(AnyNumber number) {
    if constexpr (std::same_as<To, Boolean>)
      return number.real != 0;
    else if constexpr (std::integral<To>)
      return number.is_integer ? static_cast<To>(number.integer)
                               : functions::Convert<To>{}(number.real);
    else
      return narrowed<To>(number.real);
  }

  const std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  DataType to_;
  std::int64_t elements_;
  int in_item_ = 1;
  Conversion conversion_;
};

std::unique_ptr<Kernel> make_cast(const KernelRequest& request) {
  const DataType from = request.inputs.at(0).type;
  const DataType to = request.outputs.at(0).type;
  if (!graph::is_low_precision(from) && !graph::is_low_precision(to))
    return make_elementwise(request);
  using Served = Joined<NumbersAndBooleans, Halves, LowPrecision>;
  if (!is_among(to, Served{}))
    fail("node '{}': {} to {} has no {} kernel", request.node.name, qualified_op_type(request.node),
         name_of(to), request.device.kernels().device);
  return loops_for_type<CastItems>(request, from, Served{});
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
