#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "runtime/kernels/common/host_device.h"

/// Transcendental functions without branches or calls, so that loops over them vectorise; libm's
/// cost ten times as much. Polynomials are minimax fits; errors are below 3 units in the last place
/// (tests/unit/runtime/kernels/elementwise/math_cpu_test.cpp). The double forms are libm's.
namespace autopar::runtime::math {

/// By Horner's rule, the coefficient of the highest power first.
AUTOPAR_ELEMENTWISE float polynomial(float x, float coefficient, auto... others) {
  ((coefficient = coefficient * x + others), ...);
  return coefficient;
}

/// A right angle is their difference.
constexpr float right_angle = 0x1.921fb6p+0F;
constexpr float right_angle_error = 0x1.777a5cp-25F;

/// exp(x) as fraction * 2^power, the fraction between 0.7 and 1.5.
struct Exponential {
  float fraction;
  std::uint32_t power;  ///< in two's complement
};
/// By Cody and Waite's reduction x = n ln 2 + r, with n rounded by adding 1.5 * 2^23.
AUTOPAR_ELEMENTWISE Exponential exponential(float x) {
  constexpr float rounder = 12582912.0F;
  const float shifted = x * 1.44269504F + rounder;
  const float n = shifted - rounder;
  const float r = (x - n * 0x1.62e4p-1F) - n * 0x1.7f7d1cp-20F;
  const float p = polynomial(r, 0x1.6a1a72p-10F, 0x1.123fc6p-7F, 0x1.555916p-5F, 0x1.55548ap-3F,
                             0x1.fffffcp-2F);
  return {1.0F + (r + r * r * p), std::bit_cast<std::uint32_t>(shifted) - 0x4B400000U};
}
/// For powers from -126 to 127.
AUTOPAR_ELEMENTWISE float power_of_two(std::uint32_t power) {
  return std::bit_cast<float>((power + 127U) << 23);
}
/// exp(x) for x from -87 to 88.
AUTOPAR_ELEMENTWISE float moderate_exp(float x) {
  const auto [fraction, power] = exponential(x);
  return fraction * power_of_two(power);
}
AUTOPAR_ELEMENTWISE float exp(float x) {
  const float lowest = -104.0F;  // below half the least subnormal
  const float highest = 89.0F;
  const float above = x < lowest ? lowest : x;  // NaN passes both
  const auto [fraction, power] = exponential(above > highest ? highest : above);
  // 2^n in two factors: n reaches beyond the exponents of a float at both ends.
  const std::uint32_t half = static_cast<std::uint32_t>(static_cast<std::int32_t>(power) >> 1);
  return fraction * power_of_two(half) * power_of_two(power - half);
}
AUTOPAR_ELEMENTWISE double exp(double x) { return std::exp(x); }
/// exp(x) for x up to 0; 0 where that is below the least normal number.
AUTOPAR_ELEMENTWISE float exp_of_negative(float x) {
  const auto [fraction, power] = exponential(x < -104.0F ? -104.0F : x);  // NaN passes
  const auto biased = static_cast<std::int32_t>(power + 127U);
  return fraction * std::bit_cast<float>((biased > 0 ? biased : 0) << 23);
}
AUTOPAR_ELEMENTWISE double exp_of_negative(double x) { return std::exp(x); }

/// Odd polynomial near 0, else 1 - 2 / (exp(2|x|) + 1), which rounds to 1 from 9.02 on.
AUTOPAR_ELEMENTWISE float tanh(float x) {
  const float z = x * x;
  const float p = polynomial(z, -0x1.6a5326p-8F, 0x1.4f9946p-6F, -0x1.b7da52p-5F, 0x1.11044ep-3F,
                             -0x1.555526p-2F);
  const float near = x + x * z * p;
  const float magnitude = std::fabs(x);
  const float clamped = magnitude > 10.0F ? 10.0F : magnitude;  // NaN passes
  const float far = 1.0F - 2.0F / (moderate_exp(2.0F * clamped) + 1.0F);
  return std::copysign(magnitude < 0.65F ? near : far, x);
}
AUTOPAR_ELEMENTWISE double tanh(double x) { return std::tanh(x); }

/// Odd polynomial up to 1, else 1 - exp(q(|x|)) where q fits log(erfc) up to 4, beyond which erf
/// rounds to 1.
AUTOPAR_ELEMENTWISE float erf(float x) {
  const float z = x * x;
  const float p = polynomial(z, 0x1.496a30p-14F, -0x1.a3f700p-11F, 0x1.5405b2p-8F, -0x1.b7f90ep-6F,
                             0x1.ce2cf8p-4F, -0x1.81273ep-2F, 0x1.20dd74p+0F);
  const float near = x * p;
  const float magnitude = std::fabs(x);
  const float a = magnitude > 4.0F ? 4.0F : magnitude;
  const float q = polynomial(a, 0x1.86dd9ap-13F, -0x1.825b06p-9F, 0x1.65cb7ep-6F, -0x1.a65346p-4F,
                             -0x1.46baecp-1F, -0x1.2088eap+0F, -0x1.661cb2p-12F);
  const float far = 1.0F - moderate_exp(q);
  return magnitude < 1.0F ? near : std::copysign(far, x);
}
AUTOPAR_ELEMENTWISE double erf(double x) { return std::erf(x); }

/// log(x) = k ln 2 + log(m) with m in [sqrt(1/2), sqrt(2)), a polynomial in f = m - 1.
AUTOPAR_ELEMENTWISE float log(float x) {
  const bool is_subnormal = x < 0x1p-126F;
  const float normal = is_subnormal ? x * 0x1p23F : x;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(normal);
  const std::int32_t exponent = static_cast<std::int32_t>(bits - 0x3F3504F3U) >> 23;
  const float f = std::bit_cast<float>(bits - (static_cast<std::uint32_t>(exponent) << 23)) - 1.0F;
  const float k = static_cast<float>(is_subnormal ? exponent - 23 : exponent);
  const float p =
      polynomial(f, 0x1.1457a2p-4F, -0x1.de3c12p-4F, 0x1.e6f06ap-4F, -0x1.fc2208p-4F,
                 0x1.233768p-3F, -0x1.555c4ep-3F, 0x1.99a4b6p-3F, -0x1.000006p-2F, 0x1.555548p-2F);
  const float tail = f * f * (f * p - 0.5F) + k * 0x1.7f7d1cp-20F;
  const float finite = k * 0x1.62e4p-1F + (f + tail);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float positive = x < infinity ? finite : x;  // infinity and NaN
  const float other = x == 0.0F ? -infinity : std::numeric_limits<float>::quiet_NaN();
  return x <= 0.0F ? other : positive;
}
AUTOPAR_ELEMENTWISE double log(double x) { return std::log(x); }

/// Odd polynomial of |x| or of its reciprocal, which is the complement of the angle.
AUTOPAR_ELEMENTWISE float atan(float x) {
  const float magnitude = std::fabs(x);
  const bool is_steep = magnitude > 1.0F;
  const float y = is_steep ? 1.0F / magnitude : magnitude;
  const float z = y * y;
  const float p = polynomial(z, 0x1.7ecaf4p-9F, -0x1.0c28bep-6F, 0x1.61fb60p-5F, -0x1.3555c4p-4F,
                             0x1.b4e0c4p-4F, -0x1.230ad0p-3F, 0x1.9978f2p-3F, -0x1.5554dcp-2F);
  const float angle = y + y * z * p;
  return std::copysign(is_steep ? right_angle - (angle + right_angle_error) : angle, x);
}
AUTOPAR_ELEMENTWISE double atan(double x) { return std::atan(x); }

/// The arc sine of a number from 0 to 0.5, by an odd polynomial, given its square.
AUTOPAR_ELEMENTWISE float asin_of_half(float x, float square) {
  const float p = polynomial(square, 0x1.597126p-5F, 0x1.8c23f4p-6F, 0x1.747eaep-5F, 0x1.3301e0p-4F,
                             0x1.5555c8p-3F);
  return x + x * square * p;
}
/// The arc sine of |x|, or, where that is above 0.5, half the arc cosine, by half of the angle.
AUTOPAR_ELEMENTWISE float arc_of(float magnitude) {
  const bool is_large = magnitude > 0.5F;
  const float square = is_large ? 0.5F * (1.0F - magnitude) : magnitude * magnitude;
  return asin_of_half(is_large ? std::sqrt(square) : magnitude, square);
}
AUTOPAR_ELEMENTWISE float asin(float x) {
  const float magnitude = std::fabs(x);
  const float arc = arc_of(magnitude);
  const float large = right_angle - (2.0F * arc + right_angle_error);
  return std::copysign(magnitude > 0.5F ? large : arc, x);
}
AUTOPAR_ELEMENTWISE double asin(double x) { return std::asin(x); }
AUTOPAR_ELEMENTWISE float acos(float x) {
  const float magnitude = std::fabs(x);
  const float arc = arc_of(magnitude);
  const float small = right_angle - (std::copysign(arc, x) + right_angle_error);
  const float large = x < 0.0F ? 2.0F * (right_angle - (arc + right_angle_error)) : 2.0F * arc;
  return magnitude > 0.5F ? large : small;
}
AUTOPAR_ELEMENTWISE double acos(double x) { return std::acos(x); }

/// log(1 + x) for x in [0, 1]: the rounding of 1 + x is made good by the factor.
template <typename T>
AUTOPAR_ELEMENTWISE T log1p(T x) {
  const T sum = T(1) + x;
  const T rounded = sum - T(1);
  return rounded == T(0) ? x : math::log(sum) * (x / rounded);
}

/// 1 / (1 + exp(-x)): 0 where it is below the least normal number, and 1 from 17.4 on, to which it
/// rounds.
AUTOPAR_ELEMENTWISE float sigmoid(float x) {
  const float lowest = -87.3365F;
  const float above = x < lowest ? lowest : x;  // NaN passes both
  const float share = 1.0F / (1.0F + moderate_exp(-(above > 17.4F ? 17.4F : above)));
  return x < lowest ? 0.0F : share;
}
AUTOPAR_ELEMENTWISE double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// log(1 + exp(x)) without overflow.
template <typename T>
AUTOPAR_ELEMENTWISE T softplus(T x) {
  const T positive = x > T(0) ? x : T(0);
  return x != x ? x : positive + math::log1p(math::exp(-std::fabs(x)));
}

}  // namespace autopar::runtime::math
