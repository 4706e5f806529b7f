#include "runtime/kernels/elementwise/blocks_cpu.h"
#include "runtime/kernels/elementwise/operators.h"

namespace autopar::runtime::cpu {
namespace {

using namespace functions;

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

/// A loop over Pow does not vectorise, not even where all exponents are 2 or 3.
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

}  // namespace

template <typename T>
struct BlockOf<Pow, T> {
  static BlockFunction find() { return pow_block<T>; }
};

std::span<const BlockFinder> arithmetic_blocks() {
  return blocks_of(decltype(elementwise_table::arithmetic)::Functions{});
}

}  // namespace autopar::runtime::cpu
