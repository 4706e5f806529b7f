#pragma once

#include <concepts>

#include "runtime/kernel.h"
#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/elementwise/functions.h"

/// Function objects as instructions of element-wise programs: what they read and what they give.
namespace autopar::runtime {

using functions::Boolean;
using functions::Parameters;

using Booleans = Types<Boolean>;
using NumbersAndBooleans = Joined<Numbers, Booleans>;

/// The function object `F_` on operands of one type of the list `Ts`.
template <typename F_, typename Ts>
struct Function {
  using F = F_;
  using Served = Ts;
};

/// A function's place in the list of all (operators.h).
using FunctionId = int;

namespace detail {
template <typename F, typename T>
consteval auto operand_types() {
  if constexpr (std::invocable<F, T>)
    return Types<T>{};
  else if constexpr (std::invocable<F, T, T>)
    return Types<T, T>{};
  else
    return Types<Boolean, T, T>{};
}
template <typename F, typename... In>
consteval auto result_type(Types<In...>) {
  return decltype(F{}(In{}...)){};
}
}  // namespace detail

/// The operands of `F` on elements of type `T`: one, two or three, all of them `T` but for the
/// condition of Where.
template <typename F, typename T>
using OperandTypes = decltype(detail::operand_types<F, T>());
template <typename F, typename T>
using ResultType = decltype(detail::result_type<F>(OperandTypes<F, T>{}));

template <typename F>
AUTOPAR_ELEMENTWISE F make_function(const Parameters& parameters) {
  if constexpr (requires { F{parameters}; })
    return F{parameters};
  else
    return F{};
}

}  // namespace autopar::runtime
