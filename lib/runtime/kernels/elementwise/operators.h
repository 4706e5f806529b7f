#pragma once

#include <tuple>

#include "runtime/kernels/elementwise/activation_functions.h"
#include "runtime/kernels/elementwise/operator.h"

/// Every element-wise operator, one line each, for all devices: function, types served, name,
/// operands, and what else its node says. Lines of one name stand together.
namespace autopar::runtime {
namespace elementwise_table {

using namespace functions;
inline constexpr int variadic = ElementwiseOperator::variadic;
inline constexpr double selu_alpha = 1.67326319217681884765625;
inline constexpr double selu_gamma = 1.05070102214813232421875;

// clang-format off

inline constexpr auto arithmetic = operators(
    line<Add, Numbers>({"Add", 2}),
    line<Sub, Numbers>({"Sub", 2}),
    line<Mul, Numbers>({"Mul", 2}),
    line<Div, Numbers>({"Div", 2}),
    line<FloorMod, Numbers>({"Mod", 2, nullptr, {}, {"fmod", "0", "0"}}),
    line<TruncatedMod, Numbers>({"Mod", 2, nullptr, {}, {"fmod", "1", "0"}}),
    line<Pow, Numbers>({"Pow", 2, compose_pow}),
    line<Min, Numbers>({"Min", variadic, compose_fold}),
    line<Max, Numbers>({"Max", variadic, compose_fold}),
    line<Add, Floats>({"Sum", variadic, compose_fold}),
    line<Add, Floats>({"Mean", variadic, compose_mean}),
    composed({"Clip", 3, compose_clip}),
    line<Neg, SignedNumbers>({"Neg"}),
    line<Abs, Numbers>({"Abs"}),
    line<Sign, Numbers>({"Sign"}));

inline constexpr auto mathematical = operators(
    line<Sqrt, Floats>({"Sqrt"}),
    line<Reciprocal, Floats>({"Reciprocal"}),
    line<Exp, Floats>({"Exp"}),
    line<Log, Floats>({"Log"}),
    line<Erf, Floats>({"Erf"}),
    line<Floor, Floats>({"Floor"}),
    line<Ceil, Floats>({"Ceil"}),
    line<Round, Floats>({"Round"}),
    line<Sin, Floats>({"Sin"}),
    line<Cos, Floats>({"Cos"}),
    line<Tan, Floats>({"Tan"}),
    line<Asin, Floats>({"Asin"}),
    line<Acos, Floats>({"Acos"}),
    line<Atan, Floats>({"Atan"}),
    line<Sinh, Floats>({"Sinh"}),
    line<Cosh, Floats>({"Cosh"}),
    line<Tanh, Floats>({"Tanh"}),
    line<Asinh, Floats>({"Asinh"}),
    line<Acosh, Floats>({"Acosh"}),
    line<Atanh, Floats>({"Atanh"}));

inline constexpr auto activations = operators(
    line<Relu, SignedNumbers>({"Relu"}),
    line<LeakyRelu, Floats>({"LeakyRelu", 1, nullptr, {{{"alpha", 0.01}}}}),
    line<PRelu, Numbers>({"PRelu", 2}),
    line<ThresholdedRelu, Floats>({"ThresholdedRelu", 1, nullptr, {{{"alpha", 1}}}}),
    line<Shrink, Floats>({"Shrink", 1, nullptr, {{{"bias", 0}, {"lambd", 0.5}}}}),
    line<Elu, Floats>({"Elu", 1, nullptr, {{{"alpha", 1}}}}),
    line<Celu, Floats>({"Celu", 1, nullptr, {{{"alpha", 1}}}}),
    line<Selu, Floats>({"Selu", 1, nullptr, {{{"alpha", selu_alpha}, {"gamma", selu_gamma}}}}),
    line<Gelu, Floats>({"Gelu", 1, nullptr, {}, {"approximate", "none", "none"}}),
    line<GeluTanh, Floats>({"Gelu", 1, nullptr, {}, {"approximate", "tanh", "none"}}),
    line<Sigmoid, Floats>({"Sigmoid"}),
    line<Swish, Floats>({"Swish", 1, nullptr, {{{"alpha", 1}}}}),
    line<HardSigmoid, Floats>({"HardSigmoid", 1, nullptr, {{{"alpha", 0.2}, {"beta", 0.5}}}}),
    line<HardSwish, Floats>({"HardSwish"}),
    line<Softplus, Floats>({"Softplus"}),
    line<Softsign, Floats>({"Softsign"}),
    line<Mish, Floats>({"Mish"}));

inline constexpr auto logical = operators(
    line<And, Booleans>({"And", 2}),
    line<Or, Booleans>({"Or", 2}),
    line<Xor, Booleans>({"Xor", 2}),
    line<Not, Booleans>({"Not"}),
    line<Equal, NumbersAndBooleans>({"Equal", 2}),
    line<Less, Numbers>({"Less", 2}),
    line<LessOrEqual, Numbers>({"LessOrEqual", 2}),
    line<Greater, Numbers>({"Greater", 2}),
    line<GreaterOrEqual, Numbers>({"GreaterOrEqual", 2}),
    line<Where, NumbersAndBooleans>({"Where", 3}),
    line<IsNaN, Floats>({"IsNaN"}),
    line<IsInf, Floats>({"IsInf", 1, nullptr, {{{"detect_negative", 1}, {"detect_positive", 1}}}}),
    line<BitwiseAnd, Integers>({"BitwiseAnd", 2}),
    line<BitwiseOr, Integers>({"BitwiseOr", 2}),
    line<BitwiseXor, Integers>({"BitwiseXor", 2}),
    line<BitwiseNot, Integers>({"BitwiseNot"}),
    line<ShiftLeft, Integers>({"BitShift", 2, nullptr, {}, {"direction", "LEFT", ""}}),
    line<ShiftRight, Integers>({"BitShift", 2, nullptr, {}, {"direction", "RIGHT", ""}}));

/// CastLike's second operand gives its type alone, which the output has as well.
inline constexpr auto casts = operators(
    composed({"Cast", 1, compose_cast}),
    composed({"CastLike", 1, compose_cast}));

// clang-format on

/// What operators are composed of beside the functions of lines: casts to each type, Mean's
/// division, and the rounding of half types between the links of a chain.
template <typename... Ts>
Types<Function<Convert<Ts>, NumbersAndBooleans>...> conversions_to(Types<Ts...>);
using Conversions = decltype(conversions_to(NumbersAndBooleans{}));
using Helpers =
    Types<Function<RoundTo<Float16>, Types<float>>, Function<RoundTo<BFloat16>, Types<float>>,
          Function<Scale, Floats>, Function<PowOfInteger, Types<double>>>;

}  // namespace elementwise_table

/// In the order of FunctionId.
using ElementwiseFunctions = Joined<decltype(elementwise_table::arithmetic)::Functions,
                                    decltype(elementwise_table::mathematical)::Functions,
                                    decltype(elementwise_table::activations)::Functions,
                                    decltype(elementwise_table::logical)::Functions,
                                    decltype(elementwise_table::casts)::Functions,
                                    elementwise_table::Conversions, elementwise_table::Helpers>;

namespace detail {
template <typename Wanted, typename... Fs>
consteval FunctionId place_in(Types<Fs...>) {
  FunctionId place = 0;
  static_cast<void>(((std::same_as<Wanted, Fs> || (++place, false)) || ...));
  return place;
}
template <typename... Fs>
std::tuple<Fs...> as_tuple(Types<Fs...>);
using FunctionTuple = decltype(as_tuple(ElementwiseFunctions{}));
}  // namespace detail

inline constexpr int function_count = std::tuple_size_v<detail::FunctionTuple>;
template <FunctionId place>
using FunctionAt = std::tuple_element_t<place, detail::FunctionTuple>;

/// The place of a function in the list of all.
template <typename F, typename Ts>
inline constexpr FunctionId function = [] {
  constexpr FunctionId place = detail::place_in<Function<F, Ts>>(ElementwiseFunctions{});
  static_assert(place < function_count, "the function has no line");
  return place;
}();

}  // namespace autopar::runtime
