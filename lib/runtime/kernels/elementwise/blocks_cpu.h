#pragma once

#include <span>

#include "runtime/kernels/cpu/block_function.h"

/// The loops behind the functions of operators.h; a source for each of its tables, since
/// they take long to compile.
namespace autopar::runtime::cpu {

/// A function's loop over elements of a type; null where it does not serve the type.
using BlockFinder = BlockFunction (*)(DataType type);

std::span<const BlockFinder> arithmetic_blocks();
std::span<const BlockFinder> mathematical_blocks();
std::span<const BlockFinder> activation_blocks();
std::span<const BlockFinder> logical_blocks();
/// Casts, and what operators are composed of beside the functions of lines.
std::span<const BlockFinder> other_blocks();

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
