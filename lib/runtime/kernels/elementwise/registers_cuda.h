#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "runtime/kernels/elementwise/function.h"

/// How the interpreter of element-wise code holds elements in registers, and which functions it
/// runs on them.
namespace autopar::runtime::cuda {

/// What elements of type `T` are computed in: integers of 8 and 16 bits in 32, and wrapped
/// afterwards, which gives the same.
template <typename T>
using RegisterType =
    std::conditional_t<std::integral<T> && sizeof(T) < 4,
                       std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>, T>;

using NarrowTypes = Types<float, Boolean, std::int32_t, std::uint32_t>;
using WideTypes = Joined<NarrowTypes, Types<double, std::int64_t, std::uint64_t>>;

/// Registers of `Word` bits: with 64 for programs that have a 64-bit type or a function whose code
/// would weigh on all others.
template <typename Word>
using TypesIn = std::conditional_t<sizeof(Word) == 8, WideTypes, NarrowTypes>;

/// The elements that a thread computes together.
template <typename Word>
inline constexpr int width_of = 32 / sizeof(Word);

template <typename T, typename... Ts>
inline constexpr bool is_one_of = (std::same_as<T, Ts> || ...);

/// Whether some type of the list is computed in `Register`.
template <typename Register, typename... Ts>
consteval bool has_register(Types<Ts...>) {
  return (std::same_as<RegisterType<Ts>, Register> || ...);
}

/// Functions whose reduction of large arguments needs memory.
template <typename Function>
inline constexpr bool is_only_wide_function =
    is_one_of<typename Function::F, functions::Sin, functions::Cos, functions::Tan>;

/// Whether the interpreter with these registers has an instruction for a function on a type.
/// Rounding is a part of every instruction.
template <typename Function, typename Register, typename Word>
inline constexpr bool is_instruction =
    has_register<Register>(typename Function::Served{}) &&
    !is_one_of<typename Function::F, functions::RoundTo<Float16>, functions::RoundTo<BFloat16>> &&
    (sizeof(Word) == 8 || !is_only_wide_function<Function>);

template <typename T, typename Word>
AUTOPAR_ELEMENTWISE T from_word(Word word) {
  if constexpr (std::same_as<T, Boolean>) {
    Boolean value;
    value.byte = static_cast<std::uint8_t>(word);
    return value;
  } else if constexpr (sizeof(T) == 8) {
    return std::bit_cast<T>(static_cast<std::uint64_t>(word));
  } else {
    return std::bit_cast<T>(static_cast<std::uint32_t>(word));
  }
}

template <typename Word, typename T>
AUTOPAR_ELEMENTWISE Word to_word(T value) {
  if constexpr (std::same_as<T, Boolean>)
    return value.byte;
  else if constexpr (sizeof(T) == 8)
    return static_cast<Word>(std::bit_cast<std::uint64_t>(value));
  else if constexpr (std::integral<T>)
    return static_cast<Word>(static_cast<std::uint32_t>(static_cast<RegisterType<T>>(value)));
  else
    return std::bit_cast<std::uint32_t>(value);
}

/// The unsigned integer of `bytes` bytes.
template <int bytes>
using Bits = std::conditional_t<
    bytes == 1, std::uint8_t,
    std::conditional_t<bytes == 2, std::uint16_t,
                       std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>>;

/// What memory holds, as far as it matters on the way to registers: 32 bits are 32 bits, and a bool
/// is a byte.
using NarrowStored =
    Types<std::uint32_t, Float16, BFloat16, std::int8_t, std::int16_t, std::uint8_t, std::uint16_t>;
template <typename Word>
using StoredIn =
    std::conditional_t<sizeof(Word) == 8, Joined<NarrowStored, Types<std::uint64_t>>, NarrowStored>;
/// What holds fewer values than its register.
using Rounded = Types<Float16, BFloat16, std::int8_t, std::int16_t, std::uint8_t, std::uint16_t>;

template <typename Word, typename Stored>
AUTOPAR_ELEMENTWISE Word unpacked(Bits<sizeof(Stored)> bits) {
  return to_word<Word>(widened(std::bit_cast<Stored>(bits)));
}
template <typename Stored, typename Word>
AUTOPAR_ELEMENTWISE Bits<sizeof(Stored)> packed(Word word) {
  using Register = RegisterType<decltype(widened(Stored{}))>;
  return std::bit_cast<Bits<sizeof(Stored)>>(narrowed<Stored>(from_word<Register>(word)));
}

}  // namespace autopar::runtime::cuda
