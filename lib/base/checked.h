#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace autopar {

/// Arithmetic on numbers that come from files: extents, counts, offsets, strides, indices. Each
/// function throws an Error that begins with `what`, the thing that is counted ("the offset of
/// tensor 'w'"), where the result is no 64-bit integer. For numbers whose result may be cut to the
/// limits instead there are the saturated ones.

inline std::int64_t checked_add(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) fail("{}: {} + {} is beyond 64 bits", what, a, b);
  return sum;
}

inline std::int64_t checked_subtract(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t difference = 0;
  if (__builtin_sub_overflow(a, b, &difference)) fail("{}: {} - {} is beyond 64 bits", what, a, b);
  return difference;
}

inline std::int64_t checked_multiply(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) fail("{}: {} * {} is beyond 64 bits", what, a, b);
  return product;
}

/// The product of no factors is 1. A factor of 0 does not excuse the others: strides are products
/// of a part of the factors.
template <typename Factors>
std::int64_t checked_product(const Factors& factors, std::string_view what) {
  std::int64_t product = 1;
  bool is_zero = false;
  for (const std::int64_t factor : factors) {
    is_zero = is_zero || factor == 0;
    if (factor != 0) product = checked_multiply(product, factor, what);
  }
  return is_zero ? 0 : product;
}

/// a + b, or the limit that it would cross: for bounds that nothing lies beyond.
inline std::int64_t saturated_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? std::numeric_limits<std::int64_t>::min()
               : std::numeric_limits<std::int64_t>::max();
}

/// a - b, or the limit that it would cross.
inline std::int64_t saturated_subtract(std::int64_t a, std::int64_t b) {
  std::int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return a < 0 ? std::numeric_limits<std::int64_t>::min()
               : std::numeric_limits<std::int64_t>::max();
}

/// a * b, or the limit that it would cross.
inline std::int64_t saturated_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return (a < 0) != (b < 0) ? std::numeric_limits<std::int64_t>::min()
                            : std::numeric_limits<std::int64_t>::max();
}

/// The integer in another type.
template <std::integral To, std::integral From>
To checked_cast(From value, std::string_view what) {
  if (!std::in_range<To>(value))
    fail("{}: {} is not between {} and {}", what, value, std::numeric_limits<To>::min(),
         std::numeric_limits<To>::max());
  return static_cast<To>(value);
}

/// The number without its fraction; nullopt for NaN and what the type does not hold.
template <std::integral To, std::floating_point From>
std::optional<To> truncated(From value) {
  // The limits as powers of two, which every floating-point type here holds exactly.
  constexpr int bits = std::numeric_limits<To>::digits;
  const From end = std::ldexp(From{1}, bits);
  const From begin = std::is_signed_v<To> ? -end : From{0};
  const From whole = std::trunc(value);
  if (!(whole >= begin && whole < end)) return std::nullopt;
  return static_cast<To>(whole);
}

/// The number without its fraction.
template <std::integral To, std::floating_point From>
To checked_cast(From value, std::string_view what) {
  const std::optional<To> whole = truncated<To>(value);
  if (!whole) fail("{}: {} is no integer of {} bits", what, value, 8 * sizeof(To));
  return *whole;
}

}  // namespace autopar
