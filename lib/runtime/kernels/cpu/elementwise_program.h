#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/kernel.h"
#include "runtime/kernels/cpu/block_function.h"
#include "runtime/kernels/cpu/broadcast.h"

namespace autopar::runtime::cpu {

/// The type in which elements of `type` are computed: float for the half types, else the same.
DataType compute_type(DataType type);

/// Element-wise operators run tile by tile. A *tile* is a run of the output's flat index; a *slot*
/// holds one tile of an operand or of an instruction's results, in its compute type. Operands that
/// lie together are read where they are; broadcast and half ones are put together in the slot's
/// buffer. A single operator is a program of one instruction; a chain of operators is one of
/// several, whose results between stay in the cache.
class ElementwiseProgram {
 public:
  static constexpr int max_slots = 24;

  explicit ElementwiseProgram(Shape output_shape) : shape_(std::move(output_shape)) {}

  /// The slot of kernel input `input`. False where it cannot be broadcast to the output's shape.
  bool can_read(const TensorView& view) const;
  int add_input(int input, const TensorView& view);
  int add_instruction(Block block, std::span<const int> operands, Parameters parameters = {});
  /// Rounds a slot to what `type` can hold; itself where that changes nothing.
  int round_to(DataType type, int slot);
  /// The slot whose tiles become output 0, of type `type`. Ends the making.
  void set_output(int slot, DataType type);

  DataType type_of(int slot) const { return types_[static_cast<std::size_t>(slot)]; }
  const Shape& shape() const { return shape_; }
  int slots() const { return static_cast<int>(types_.size()); }

  void run(const KernelIo& io, int threads) const;

 private:
  struct Input {
    int index = 0;
    int slot = 0;
    DataType type = DataType::undefined;
    std::vector<std::int64_t> strides;
    std::vector<BroadcastOperand> operand;  ///< one, once the dimensions are merged
    BlockFunction widen = nullptr;          ///< for half types
  };
  struct Instruction {
    BlockFunction function = nullptr;
    std::array<int, 3> operands{};
    int operand_count = 0;
    int result = 0;
    Parameters parameters;
  };
  class TileRun;

  int add_slot(DataType type);

  Shape shape_;
  std::int64_t elements_ = 0;
  std::int64_t tile_elements_ = 0;
  std::vector<Input> inputs_;
  std::vector<Instruction> instructions_;
  std::vector<DataType> types_;  ///< by slot
  int output_slot_ = -1;
  int output_element_bytes_ = 0;
  BlockFunction narrow_ = nullptr;  ///< for half outputs
};

}  // namespace autopar::runtime::cpu
