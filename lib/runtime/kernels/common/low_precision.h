#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>

#include "runtime/kernels/common/element_types.h"

/// Elements of 8 bits and less that no operator computes in: how they lie in memory, what they are
/// worth, and what becomes of numbers that they cannot hold. Written once for all devices.
///
/// *Stored types* describe elements wherever they lie: `at` reads one, `code_of` gives the bits of
/// a number. Types of less than a byte have several elements in one, the first in the lowest bits.
namespace autopar::runtime {

using graph::DataType;

/// Which power of two Float8E8M0 takes for a number between two of them.
enum class PowerRounding : std::uint8_t { up, down, nearest };

/// What a conversion does with numbers that do not fit.
struct Conversion {
  bool saturate = true;
  PowerRounding power_rounding = PowerRounding::up;
};

/// The bits of element `i`, of `bits` bits each.
template <int bits>
AUTOPAR_ELEMENTWISE unsigned code_at(const std::byte* data, std::int64_t i) {
  return static_cast<unsigned>(data[i * bits / 8]) >> (i * bits % 8) & ((1U << bits) - 1);
}

/// A float with a sign bit, whose values are mantissa * 2^(exponent - bias - mantissa_bits). What
/// codes mean beside numbers differs: Table 1 of "FP8 Formats for Deep Learning" (arXiv
/// 2209.05433), "8-bit Numerical Formats for Deep Neural Networks" (2206.02915) for the kinds
/// without negative zero, and OCP's Microscaling Formats 1.0. `infinity` is `nan` where there is
/// none; where there is neither, NaN becomes negative zero.
template <DataType type, int bits_, int mantissa_bits, int bias, int largest, int infinity, int nan>
struct SmallFloat {
  static constexpr DataType data_type = type;
  static constexpr int bits = bits_;
  static constexpr int sign_bit = 1 << (bits - 1);
  static constexpr bool has_negative_zero = nan != sign_bit;
  static constexpr bool has_nan = nan >= 0;

  AUTOPAR_ELEMENTWISE static float value_of(unsigned code) {
    const unsigned magnitude = code & (sign_bit - 1);
    const bool is_negative = (code & sign_bit) != 0;
    const bool is_nan = !has_negative_zero ? code == unsigned(nan)
                        : infinity != nan  ? magnitude > unsigned(infinity)
                                           : magnitude >= unsigned(nan);
    if (has_nan && is_nan) return std::numeric_limits<float>::quiet_NaN();
    const unsigned exponent = magnitude >> mantissa_bits;
    const unsigned fraction = magnitude & ((1U << mantissa_bits) - 1);
    float value = 0;
    if (infinity != nan && magnitude == unsigned(infinity))
      value = std::numeric_limits<float>::infinity();
    else if (exponent == 0)
      value = static_cast<float>(fraction) * power_of_two(1 - bias - mantissa_bits);
    else
      value = static_cast<float>(fraction + (1U << mantissa_bits)) *
              power_of_two(static_cast<int>(exponent) - bias - mantissa_bits);
    return is_negative ? -value : value;
  }

  /// Rounds to nearest even.
  AUTOPAR_ELEMENTWISE static unsigned code_of(double value, Conversion conversion) {
    const std::uint64_t raw = std::bit_cast<std::uint64_t>(value);
    const unsigned sign = raw >> 63 != 0 ? sign_bit : 0;
    if (value != value) {
      if constexpr (!has_nan) return sign_bit;
      return static_cast<unsigned>(nan) | (has_negative_zero ? sign : 0);
    }
    // The step between the type's numbers near this one; below the least normal all are as far
    // apart.
    int exponent = static_cast<int>(raw >> 52 & 0x7FF) - 1023;
    if (exponent < 1 - bias) exponent = 1 - bias;
    unsigned code = largest + 1;
    if (exponent <= (largest >> mantissa_bits) - bias) {
      const double steps =
          std::rint(std::fabs(value) * double_power_of_two(mantissa_bits - exponent));
      // A carry goes into the exponent by itself.
      code = (static_cast<unsigned>(exponent + bias - 1) << mantissa_bits) +
             static_cast<unsigned>(steps);
    }
    if (code > largest) {
      if (conversion.saturate || !has_nan)
        code = largest;
      else if constexpr (!has_negative_zero)
        return nan;
      else
        code = static_cast<unsigned>(infinity);
    }
    return has_negative_zero || code != 0 ? code | sign : 0;
  }

  AUTOPAR_ELEMENTWISE static float at(const std::byte* data, std::int64_t i) {
    return value_of(code_at<bits>(data, i));
  }

 private:
  AUTOPAR_ELEMENTWISE static float power_of_two(int exponent) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
  }
  AUTOPAR_ELEMENTWISE static double double_power_of_two(int exponent) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
  }
};

using Float8E4M3FN = SmallFloat<DataType::float8e4m3fn, 8, 3, 7, 0x7E, 0x7F, 0x7F>;
using Float8E4M3FNUZ = SmallFloat<DataType::float8e4m3fnuz, 8, 3, 8, 0x7F, 0x80, 0x80>;
using Float8E5M2 = SmallFloat<DataType::float8e5m2, 8, 2, 15, 0x7B, 0x7C, 0x7E>;
using Float8E5M2FNUZ = SmallFloat<DataType::float8e5m2fnuz, 8, 2, 16, 0x7F, 0x80, 0x80>;
using Float4E2M1 = SmallFloat<DataType::float4e2m1, 4, 1, 1, 0x7, -1, -1>;

/// A power of two from 2^-127 to 2^127, or NaN.
struct Float8E8M0 {
  static constexpr DataType data_type = DataType::float8e8m0;
  static constexpr int bits = 8;

  AUTOPAR_ELEMENTWISE static float value_of(unsigned code) {
    if (code == 0xFF) return std::numeric_limits<float>::quiet_NaN();
    return std::bit_cast<float>(code == 0 ? 1U << 22 : code << 23);
  }

  /// The code of the magnitude: ONNX leaves negative numbers open.
  AUTOPAR_ELEMENTWISE static unsigned code_of(double value, Conversion conversion) {
    if (value != value) return 0xFF;
    const std::uint64_t raw = std::bit_cast<std::uint64_t>(value);
    const int power = static_cast<int>(raw >> 52 & 0x7FF) - 1023;  // -1023 below all normal ones
    const std::uint64_t fraction = raw & ((std::uint64_t{1} << 52) - 1);
    const bool is_above_half = fraction >= std::uint64_t{1} << 51;
    const bool rounds_up = (conversion.power_rounding == PowerRounding::up && fraction != 0) ||
                           (conversion.power_rounding == PowerRounding::nearest && is_above_half);
    const int rounded = power + (rounds_up ? 1 : 0);
    const bool is_below = std::fabs(value) < 0x1p-127;
    if (rounded > 127 || is_below) {
      if (!conversion.saturate) return 0xFF;
      return is_below ? 0 : 0xFE;
    }
    return static_cast<unsigned>(rounded + 127);
  }

  AUTOPAR_ELEMENTWISE static float at(const std::byte* data, std::int64_t i) {
    return value_of(code_at<bits>(data, i));
  }
};

/// An integer of less than a byte. Numbers that are too large lose their high bits.
template <DataType type, int bits_, bool is_signed>
struct SmallInteger {
  static constexpr DataType data_type = type;
  static constexpr int bits = bits_;
  static constexpr std::int32_t lowest = is_signed ? -(1 << (bits - 1)) : 0;
  static constexpr std::int32_t highest = (1 << (is_signed ? bits - 1 : bits)) - 1;

  AUTOPAR_ELEMENTWISE static std::int32_t at(const std::byte* data, std::int64_t i) {
    const int part = static_cast<int>(code_at<bits>(data, i));
    return part > highest ? part - (1 << bits) : part;
  }
  AUTOPAR_ELEMENTWISE static unsigned code_of(std::int64_t value) {
    return static_cast<unsigned>(value) & ((1U << bits) - 1);
  }
};

using Int4 = SmallInteger<DataType::int4, 4, true>;
using UInt4 = SmallInteger<DataType::uint4, 4, false>;
using Int2 = SmallInteger<DataType::int2, 2, true>;
using UInt2 = SmallInteger<DataType::uint2, 2, false>;

/// What numbers can be rounded to, but for powers of two.
using SmallFloats = Types<Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float4E2M1>;
using SmallIntegers = Types<Int4, UInt4, Int2, UInt2>;
using LowPrecision = Joined<SmallFloats, SmallIntegers, Types<Float8E8M0>>;

template <typename Stored>
inline constexpr bool is_small_float = requires {
  Stored::has_negative_zero;
};
template <typename Stored>
inline constexpr bool is_small_integer = requires {
  Stored::highest;
};

/// Bits of an element of any stored type.
template <typename Stored>
inline constexpr int stored_bits = [] {
  if constexpr (requires { std::integral_constant<int, Stored::bits>{}; })
    return Stored::bits;
  else
    return static_cast<int>(8 * sizeof(Stored));
}();

/// An element as a number: half types as float.
template <typename Stored>
AUTOPAR_ELEMENTWISE auto number_at(const std::byte* data, std::int64_t i) {
  if constexpr (requires { Stored::at(data, i); })
    return Stored::at(data, i);
  else
    return widened(reinterpret_cast<const Stored*>(data)[i]);
}

}  // namespace autopar::runtime
