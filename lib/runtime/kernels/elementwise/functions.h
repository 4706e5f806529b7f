#pragma once

#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>

#include "runtime/kernels/common/half.h"
#include "runtime/kernels/elementwise/math.h"

/// The meaning of every element-wise operator, written once for all devices: function objects over
/// one element of each operand. Half types arrive as float. Integers wrap around on overflow.
namespace autopar::runtime::functions {

/// An ONNX bool in memory: any byte, true unless 0.
struct Boolean {
  static constexpr auto data_type = graph::DataType::boolean;
  std::uint8_t byte = 0;
  Boolean() = default;
  AUTOPAR_ELEMENTWISE Boolean(bool value) : byte(value ? 1 : 0) {}
  AUTOPAR_ELEMENTWISE operator bool() const { return byte != 0; }
};

/// Up to two numbers that a node gives its function: attributes, by the operator's line.
struct Parameters {
  double a = 0;
  double b = 0;
};

/// Integers as unsigned ones, whose arithmetic wraps where that of signed ones would be undefined:
/// of 32 bits at least, since narrower types are promoted to signed int. Floats as they are.
template <typename T>
AUTOPAR_ELEMENTWISE auto wrapping(T x) {
  if constexpr (std::integral<T>)
    return static_cast<std::conditional_t<sizeof(T) <= 4, std::uint32_t, std::uint64_t>>(x);
  else
    return x;
}

// Arithmetic

struct Add {
  AUTOPAR_ELEMENTWISE auto operator()(auto x, auto y) const {
    return static_cast<decltype(x)>(wrapping(x) + wrapping(y));
  }
};
struct Sub {
  AUTOPAR_ELEMENTWISE auto operator()(auto x, auto y) const {
    return static_cast<decltype(x)>(wrapping(x) - wrapping(y));
  }
};
struct Mul {
  AUTOPAR_ELEMENTWISE auto operator()(auto x, auto y) const {
    return static_cast<decltype(x)>(wrapping(x) * wrapping(y));
  }
};
struct Neg {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const {
    return static_cast<decltype(x)>(-wrapping(x));
  }
};
/// Integers truncate; x / 0 is 0.
struct Div {
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x, T y) const {
    if constexpr (std::floating_point<T>)
      return x / y;
    else if (y == T(0))
      return T(0);
    else if (std::is_signed_v<T> && y == static_cast<T>(-1))
      return Neg{}(x);  // the least overflows
    else
      return static_cast<T>(x / y);
  }
};
/// The remainder with the divisor's sign (Mod with fmod = 0).
struct FloorMod {
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x, T y) const {
    if constexpr (std::floating_point<T>) {
      const T remainder = std::fmod(x, y);
      if (remainder == T(0)) return std::copysign(remainder, y);
      return (remainder < T(0)) != (y < T(0)) ? remainder + y : remainder;
    } else {
      if (y == T(0) || (std::is_signed_v<T> && y == static_cast<T>(-1))) return T(0);
      const T remainder = static_cast<T>(x % y);
      return remainder != T(0) && (remainder < T(0)) != (y < T(0)) ? static_cast<T>(remainder + y)
                                                                   : remainder;
    }
  }
};
/// The remainder with the dividend's sign (Mod with fmod = 1).
struct TruncatedMod {
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x, T y) const {
    if constexpr (std::floating_point<T>)
      return std::fmod(x, y);
    else if (y == T(0) || (std::is_signed_v<T> && y == static_cast<T>(-1)))
      return T(0);
    else
      return static_cast<T>(x % y);
  }
};
/// Integers by squaring; a negative power of an integer is truncated: 0 but for bases 1 and -1.
/// Models raise to the second and third power, for which pow is fifty times too slow.
struct Pow {
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x, T y) const {
    if constexpr (std::floating_point<T>) {
      return y == T(2) ? x * x : (y == T(3) ? x * x * x : std::pow(x, y));
    } else {
      if (y < T(0) && x != T(1) && x != static_cast<T>(-1)) return T(0);
      T power = T(1);
      T square = x;
      std::uint64_t rest =
          y < T(0) ? static_cast<std::uint64_t>(Neg{}(y)) & 1 : static_cast<std::uint64_t>(y);
      for (; rest != 0; rest >>= 1) {
        if (rest & 1) power = Mul{}(power, square);
        square = Mul{}(square, square);
      }
      return power;
    }
  }
};
/// The power of an integer whose integral part is asked for. GPUs are off by up to two units in the
/// last place (CUDA's table of errors), which must not make 2 of the root of 9.
struct PowOfInteger {
  AUTOPAR_ELEMENTWISE double operator()(double x, double y) const {
    constexpr double few_units = 4 * std::numeric_limits<double>::epsilon();
    const double power = Pow{}(x, y);
    const double nearest = std::rint(power);
    return std::abs(power - nearest) <= few_units * std::abs(power) ? nearest : power;
  }
};
/// NaN in either operand gives NaN.
struct Min {
  AUTOPAR_ELEMENTWISE auto operator()(auto x, auto y) const { return (y < x) | (y != y) ? y : x; }
};
struct Max {
  AUTOPAR_ELEMENTWISE auto operator()(auto x, auto y) const { return (x < y) | (y != y) ? y : x; }
};
struct Abs {
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x) const {
    if constexpr (std::floating_point<T>)
      return std::fabs(x);
    else
      return x < T(0) ? Neg{}(x) : x;
  }
};
struct Sign {
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x) const {
    const T sign = static_cast<T>(static_cast<T>(x > T(0)) - static_cast<T>(x < T(0)));
    return x != x ? x : sign;
  }
};
/// The identity, which a sum of one operand is.
struct Copy {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return x; }
};
struct Scale {
  Parameters p;
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return x * decltype(x)(p.a); }
};

// Roots, rounding, transcendental functions

struct Sqrt {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return std::sqrt(x); }
};
struct Reciprocal {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return 1 / x; }
};
struct Exp {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return math::exp(x); }
};
struct Erf {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return math::erf(x); }
};
struct Tanh {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return math::tanh(x); }
};
struct Log {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return math::log(x); }
};
struct Floor {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return std::floor(x); }
};
struct Ceil {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return std::ceil(x); }
};
/// Half to even.
struct Round {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return std::rint(x); }
};
struct Sin {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return std::sin(x); }
};
struct Cos {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return std::cos(x); }
};
struct Tan {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return std::tan(x); }
};
struct Asin {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return math::asin(x); }
};
struct Acos {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return math::acos(x); }
};
struct Atan {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return math::atan(x); }
};
struct Sinh {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return std::sinh(x); }
};
struct Cosh {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return std::cosh(x); }
};
struct Asinh {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return std::asinh(x); }
};
struct Acosh {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return std::acosh(x); }
};
struct Atanh {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return std::atanh(x); }
};

// Comparisons and logic; comparisons with NaN are false.

struct Equal {
  template <typename T>
  AUTOPAR_ELEMENTWISE Boolean operator()(T x, T y) const {
    if constexpr (std::same_as<T, Boolean>)
      return bool(x) == bool(y);
    else
      return x == y;
  }
};
struct Less {
  AUTOPAR_ELEMENTWISE Boolean operator()(auto x, auto y) const { return x < y; }
};
struct LessOrEqual {
  AUTOPAR_ELEMENTWISE Boolean operator()(auto x, auto y) const { return x <= y; }
};
struct Greater {
  AUTOPAR_ELEMENTWISE Boolean operator()(auto x, auto y) const { return x > y; }
};
struct GreaterOrEqual {
  AUTOPAR_ELEMENTWISE Boolean operator()(auto x, auto y) const { return x >= y; }
};
struct And {
  AUTOPAR_ELEMENTWISE Boolean operator()(Boolean x, Boolean y) const { return bool(x) & bool(y); }
};
struct Or {
  AUTOPAR_ELEMENTWISE Boolean operator()(Boolean x, Boolean y) const { return bool(x) | bool(y); }
};
struct Xor {
  AUTOPAR_ELEMENTWISE Boolean operator()(Boolean x, Boolean y) const { return bool(x) != bool(y); }
};
struct Not {
  AUTOPAR_ELEMENTWISE Boolean operator()(Boolean x) const { return !bool(x); }
};
struct IsNaN {
  AUTOPAR_ELEMENTWISE Boolean operator()(auto x) const { return x != x; }
};
/// a is detect_negative, b detect_positive.
struct IsInf {
  Parameters p;
  template <typename T>
  AUTOPAR_ELEMENTWISE Boolean operator()(T x) const {
    constexpr T infinity = std::numeric_limits<T>::infinity();
    return ((x == infinity) & (p.b != 0)) | ((x == -infinity) & (p.a != 0));
  }
};
struct Where {
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(Boolean condition, T x, T y) const {
    return condition ? x : y;
  }
};

// Bits

struct BitwiseAnd {
  AUTOPAR_ELEMENTWISE auto operator()(auto x, auto y) const { return decltype(x)(x & y); }
};
struct BitwiseOr {
  AUTOPAR_ELEMENTWISE auto operator()(auto x, auto y) const { return decltype(x)(x | y); }
};
struct BitwiseXor {
  AUTOPAR_ELEMENTWISE auto operator()(auto x, auto y) const { return decltype(x)(x ^ y); }
};
struct BitwiseNot {
  AUTOPAR_ELEMENTWISE auto operator()(auto x) const { return decltype(x)(~x); }
};
/// Shifts by the type's width or more, or by less than 0, leave nothing but copies of the sign.
struct ShiftLeft {
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x, T y) const {
    const bool is_within = std::make_unsigned_t<T>(y) < 8 * sizeof(T);
    return is_within ? static_cast<T>(wrapping(x) << y) : T(0);
  }
};
struct ShiftRight {
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x, T y) const {
    const bool is_within = std::make_unsigned_t<T>(y) < 8 * sizeof(T);
    return is_within ? static_cast<T>(x >> y) : (x < T(0) ? static_cast<T>(-1) : T(0));
  }
};

// Conversion

/// Cast: to bool what is not 0; a float beyond an integer's range becomes its nearest end, and NaN
/// becomes 0 (ONNX leaves both open); integers wrap.
template <typename To>
struct Convert {
  template <typename From>
  AUTOPAR_ELEMENTWISE To operator()(From x) const {
    if constexpr (std::same_as<To, Boolean>) {
      if constexpr (std::same_as<From, Boolean>)
        return bool(x);
      else
        return x != From(0);
    } else if constexpr (std::same_as<From, Boolean>) {
      return static_cast<To>(bool(x) ? 1 : 0);
    } else if constexpr (std::floating_point<From> && std::integral<To>) {
      constexpr From lowest = static_cast<From>(std::numeric_limits<To>::lowest());
      // The first value too large: exact, since it is a power of two.
      constexpr To half = std::numeric_limits<To>::max() / 2 + 1;
      constexpr From beyond = From(2) * static_cast<From>(half);
      if (x != x) return To(0);
      if (x >= beyond) return std::numeric_limits<To>::max();
      return x <= lowest ? std::numeric_limits<To>::lowest() : static_cast<To>(x);
    } else {
      return static_cast<To>(x);
    }
  }
};
/// A float with the precision of a half type.
template <typename Half>
struct RoundTo {
  AUTOPAR_ELEMENTWISE float operator()(float x) const {
    if constexpr (std::same_as<Half, Float16>)
      return to_float(to_float16(x));
    else
      return to_float(to_bfloat16(x));
  }
};

}  // namespace autopar::runtime::functions
