#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <tuple>
#include <utility>

#include "runtime/kernels/cpu/simd.h"
#include "runtime/kernels/elementwise/function.h"

/// Loops over blocks of a few hundred elements that lie together: what every element-wise kernel
/// is put together from. Those behind the functions of operators.h are compiled by several
/// sources, since they take long.
namespace autopar::runtime::cpu {

struct BlockArguments {
  std::array<const std::byte*, 3> inputs{};
  std::byte* output = nullptr;  ///< overlaps no input
  std::int64_t elements = 0;
  Parameters parameters;
};
using BlockFunction = void (*)(const BlockArguments&);

template <typename Op, typename... In>
struct BlockLoop {
  [[gnu::always_inline]] static inline void run(const BlockArguments& arguments) {
    run(arguments, std::index_sequence_for<In...>{});
  }

 private:
  template <std::size_t... I>
  [[gnu::always_inline]] static inline void run(const BlockArguments& arguments,
                                                std::index_sequence<I...>) {
    using Out = decltype(Op{}(In{}...));
    const Op op = make_function<Op>(arguments.parameters);
    Out* __restrict out = reinterpret_cast<Out*>(arguments.output);
    const std::int64_t n = arguments.elements;
    const std::int64_t whole = n - n % lanes;
    for (std::int64_t i = 0; i < whole; ++i)
      out[i] = op(reinterpret_cast<const In*>(arguments.inputs[I])[i]...);
    if (whole == n) return;
    // The last ones in vectors, too: a compiler's loop over single elements may round otherwise,
    // and an element is to have one value wherever it lies.
    const auto tail = std::tuple(
        Lanes<In>(reinterpret_cast<const In*>(arguments.inputs[I]) + whole, n - whole)...);
    Out last[lanes];
    for (std::int64_t i = 0; i < lanes; ++i) last[i] = op(std::get<I>(tail).values[i]...);
    std::copy_n(last, n - whole, out + whole);
  }

  /// A whole number of every machine's vectors.
  static constexpr std::int64_t lanes = 16;
  /// Some elements, the last one as often as fills the lanes.
  template <typename T>
  struct Lanes {
    T values[lanes];
    Lanes(const T* some, std::int64_t count) {
      for (std::int64_t i = 0; i < lanes; ++i) values[i] = some[std::min(i, count - 1)];
    }
  };
};

/// The loop that calls `Op` on every element of operands of types `In`.
template <typename Op, typename... In>
BlockFunction block_function(SimdLevel level = simd_level()) {
  return simd_function<BlockLoop<Op, In...>, const BlockArguments&>(level);
}

/// A function's loop over elements of a type; null where it does not serve the type.
using BlockFinder = BlockFunction (*)(DataType type);

// In the order of FunctionId
std::span<const BlockFinder> arithmetic_blocks();
/// Activations, too.
std::span<const BlockFinder> mathematical_blocks();
/// Casts, too, and what operators are composed of beside the functions of lines.
std::span<const BlockFinder> logical_blocks();

/// The loop of `F` over elements of type `T`.
template <typename F, typename T>
struct BlockOf {
  static BlockFunction find() { return of(OperandTypes<F, T>{}); }

 private:
  template <typename... In>
  static BlockFunction of(Types<In...>) {
    return block_function<F, In...>();
  }
};

template <typename F, typename Ts>
BlockFunction find_block(Function<F, Ts>, DataType type) {
  BlockFunction found = nullptr;
  visit_type(type, Ts{}, [&]<typename T>(T) { found = BlockOf<F, T>::find(); });
  return found;
}

template <typename... Fs>
std::span<const BlockFinder> blocks_of(Types<Fs...>) {
  static constexpr BlockFinder finders[] = {
      [](DataType type) { return find_block(Fs{}, type); }...};
  return finders;
}

}  // namespace autopar::runtime::cpu
