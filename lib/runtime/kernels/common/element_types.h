#pragma once

#include <bit>
#include <concepts>

#include "graph/data_type.h"
#include "runtime/kernels/common/half.h"

/// The C++ types of tensors' elements, and choosing among them when a kernel is made.
namespace autopar::runtime {

/// The tensor type of elements of C++ type `T`; types of our own tell it as `data_type`. Undefined
/// for what no tensor has.
template <typename T>
inline constexpr graph::DataType data_type_of = [] {
  using graph::DataType;
  if constexpr (requires { T::data_type; }) {
    return T::data_type;
  } else if constexpr (std::floating_point<T>) {
    return sizeof(T) == 4 ? DataType::float32 : DataType::float64;
  } else if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    constexpr DataType by_sign_and_size[2][4] = {
        {DataType::uint8, DataType::uint16, DataType::uint32, DataType::uint64},
        {DataType::int8, DataType::int16, DataType::int32, DataType::int64}};
    return by_sign_and_size[std::signed_integral<T> ? 1 : 0][std::countr_zero(sizeof(T))];
  } else {
    return DataType::undefined;
  }
}();

template <typename... Ts>
struct Types {};
using Floats = Types<float, double>;
using Halves = Types<Float16, BFloat16>;
using SignedIntegers = Types<std::int8_t, std::int16_t, std::int32_t, std::int64_t>;
using UnsignedIntegers = Types<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>;

/// All types of several lists.
template <typename... Lists>
struct Join;
template <typename... Ts>
struct Join<Types<Ts...>> {
  using type = Types<Ts...>;
};
template <typename... Ts, typename... Us, typename... Lists>
struct Join<Types<Ts...>, Types<Us...>, Lists...> : Join<Types<Ts..., Us...>, Lists...> {};
template <typename... Lists>
using Joined = typename Join<Lists...>::type;

using Integers = Joined<SignedIntegers, UnsignedIntegers>;
using SignedNumbers = Joined<Floats, SignedIntegers>;
using Numbers = Joined<Floats, Integers>;
using AllFloats = Joined<Floats, Halves>;
using AllNumbers = Joined<Numbers, Halves>;

/// The type that elements are read as: a bool is a byte.
inline graph::DataType stored_type(graph::DataType type) {
  return type == graph::DataType::boolean ? graph::DataType::uint8 : type;
}

/// A floating type that kernels compute with, unlike the 8-bit floats.
inline bool is_wide_float(graph::DataType type) {
  return graph::is_floating_point(type) && graph::bits_of(type) >= 16;
}

/// Calls `visitor(T{})` with the type of the list that `type` names; false where it is not there.
template <typename... Ts, typename Visitor>
bool visit_type([[maybe_unused]] graph::DataType type, Types<Ts...>,
                [[maybe_unused]] Visitor visitor) {
  return ((type == data_type_of<Ts> && (visitor(Ts{}), true)) || ...);
}

/// The same by the size of an element.
template <typename... Ts, typename Visitor>
bool visit_size(int bytes, Types<Ts...>, Visitor visitor) {
  return ((bytes == sizeof(Ts) && (visitor(Ts{}), true)) || ...);
}

/// What elements of each size are moved as.
struct Word16 {
  std::uint64_t parts[2];
};
using Words = Joined<UnsignedIntegers, Types<Word16>>;

/// An element as arithmetic has it: half types as float.
template <typename T>
AUTOPAR_ELEMENTWISE auto widened(T value) {
  if constexpr (std::same_as<T, Float16> || std::same_as<T, BFloat16>)
    return to_float(value);
  else
    return value;
}

/// The reverse, and from any wider number.
template <typename T, typename Wide>
AUTOPAR_ELEMENTWISE T narrowed(Wide value) {
  if constexpr (std::same_as<T, Float16>)
    return to_float16(static_cast<float>(value));
  else if constexpr (std::same_as<T, BFloat16>)
    return to_bfloat16(static_cast<float>(value));
  else
    return static_cast<T>(value);
}

/// What elements of `T` are computed in.
template <typename T>
using Widened = decltype(widened(T{}));

inline bool is_half(graph::DataType type) {
  return type == graph::DataType::float16 || type == graph::DataType::bfloat16;
}

/// visit_type where elements are computed, on every device.
template <typename... Ts, typename Visitor>
AUTOPAR_ELEMENTWISE void visit_stored([[maybe_unused]] graph::DataType type, Types<Ts...>,
                                      Visitor visitor) {
  static_cast<void>(((type == data_type_of<Ts> && (visitor(Ts{}), true)) || ...));
}

template <typename... Ts>
bool is_among(graph::DataType type, Types<Ts...>) {
  return ((type == data_type_of<Ts>) || ...);
}

}  // namespace autopar::runtime
