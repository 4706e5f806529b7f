#include "runtime/kernels/cpu/elementwise_operators.h"

namespace autopar::runtime::cpu {
namespace {

using namespace functions;
constexpr int variadic = ElementwiseOperator::variadic;

struct Square {
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x) const {
    return Mul{}(x, x);
  }
};
struct Cube {
  template <typename T>
  AUTOPAR_ELEMENTWISE T operator()(T x) const {
    return Mul{}(Mul{}(x, x), x);
  }
};

/// Models raise to the second and third power, for which pow is fifty times too slow.
template <typename T>
void pow_block(const BlockArguments& arguments) {
  const T* exponents = reinterpret_cast<const T*>(arguments.inputs[1]);
  const T first = exponents[0];
  std::uint32_t others = 0;
  for (std::int64_t i = 0; i < arguments.elements; ++i)  // no early exit: this vectorises
    others += exponents[i] != first ? 1 : 0;
  const bool is_uniform = others == 0;
  static const BlockFunction square = block_function<Square, T>();
  static const BlockFunction cube = block_function<Cube, T>();
  static const BlockFunction power = block_function<Pow, T, T>();
  if (is_uniform && first == T(2)) return square(arguments);
  if (is_uniform && first == T(3)) return cube(arguments);
  power(arguments);
}

Block pow_of(DataType type) {
  Block found;
  visit_type(type, Numbers{}, [&]<typename T>(T) { found = {pow_block<T>, type}; });
  return found;
}

/// The result has the base's type; an integer to a float's power is computed in double.
int compose_pow(ElementwiseProgram& program, const ElementwiseUse& use) {
  const int base = use.operands[0];
  const DataType base_type = program.type_of(base);
  const bool is_mixed = !graph::is_floating_point(base_type) &&
                        graph::is_floating_point(program.type_of(use.operands[1]));
  const DataType type = is_mixed ? DataType::float64 : base_type;
  const std::array operands{append_cast(program, use, base, type),
                            append_cast(program, use, use.operands[1], type)};
  return append_cast(program, use, append_block(program, use, pow_of, operands), base_type);
}

int compose_mean(ElementwiseProgram& program, const ElementwiseUse& use) {
  const int sum = compose_fold(program, use);
  const double share = 1.0 / static_cast<double>(use.operands.size());
  return append_block(program, use, block<Scale, Floats>, std::array{sum}, {share, 0});
}

int compose_clip(ElementwiseProgram& program, const ElementwiseUse& use) {
  const auto bound = [&](std::size_t i) { return i < use.operands.size() ? use.operands[i] : -1; };
  int slot = use.operands[0];
  if (bound(1) >= 0)
    slot = append_block(program, use, block<Max, Numbers>, std::array{slot, bound(1)});
  if (bound(2) >= 0)
    slot = append_block(program, use, block<Min, Numbers>, std::array{slot, bound(2)});
  return slot;
}

constexpr ElementwiseOperator lines[] = {
    {"Add", 2, block<Add, Numbers>},
    {"Sub", 2, block<Sub, Numbers>},
    {"Mul", 2, block<Mul, Numbers>},
    {"Div", 2, block<Div, Numbers>},
    {"Mod", 2, block<FloorMod, Numbers>, nullptr, {}, {"fmod", "0", "0"}},
    {"Mod", 2, block<TruncatedMod, Numbers>, nullptr, {}, {"fmod", "1", "0"}},
    {"Pow", 2, pow_of, compose_pow},
    {"Min", variadic, block<Min, Numbers>, compose_fold},
    {"Max", variadic, block<Max, Numbers>, compose_fold},
    {"Sum", variadic, block<Add, Floats>, compose_fold},
    {"Mean", variadic, block<Add, Floats>, compose_mean},
    {"Clip", 3, nullptr, compose_clip},
    {"Neg", 1, block<Neg, SignedNumbers>},
    {"Abs", 1, block<Abs, Numbers>},
    {"Sign", 1, block<Sign, Numbers>},
};

}  // namespace

std::span<const ElementwiseOperator> arithmetic_operators() { return lines; }

}  // namespace autopar::runtime::cpu
