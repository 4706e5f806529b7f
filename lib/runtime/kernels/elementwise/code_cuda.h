#pragma once

#include "runtime/kernels/cuda/fast_division.h"
#include "runtime/kernels/elementwise/elementwise.h"

/// An element-wise program as the interpreter (interpreter_cuda.h) reads it: plain data that
/// is handed to the kernel as its parameter.
///
/// A thread has an *accumulator* for some consecutive elements, in which every instruction leaves
/// its results. Results that a later instruction than the next reads are saved in a slot of shared
/// memory; inputs are loaded anew wherever they are read.
namespace autopar::runtime::cuda {

inline constexpr int max_code_inputs = 20;
inline constexpr int max_code_instructions = 24;
/// Enough for a chain of max_chain_slots (elementwise.h): where m results wait, here and in
/// the accumulator, m instructions have made them, and (m - 1) / 2 more will read them.
inline constexpr int max_code_slots = 12;

/// How an operand's elements lie along the output's.
enum class Access : std::uint8_t {
  one,         ///< one for all
  one_a_row,   ///< one for all elements that a thread has
  contiguous,  ///< where the output's are
  rows,        ///< those that a thread has lie together
  runs,        ///< those that a thread has are parts of two rows at most
  scattered
};

struct CodeInput {
  const void* data = nullptr;
  DataType type = DataType::undefined;  ///< as stored, one of StoredIn (registers_cuda.h)
  std::uint8_t element_bytes = 0;
  Access access = Access::one;
  bool is_aligned = false;  ///< a thread's elements can be loaded at once, where they lie together
  std::int64_t strides[max_code_dimensions] = {};
};

/// Where an instruction finds an operand.
struct Source {
  enum class Kind : std::uint8_t { none, accumulator, slot, input } kind = Kind::none;
  std::uint8_t index = 0;
};

struct CodeInstruction {
  std::int16_t function = -1;  ///< -1: the first operand itself
  std::int8_t save = -1;       ///< the slot that gets a copy of the results
  Source sources[3] = {};
  DataType type = DataType::undefined;      ///< of the operands in registers
  DataType round_to = DataType::undefined;  ///< what the results must fit in, where they may not
  Parameters parameters;
};

struct ElementwiseCode {
  std::int64_t elements = 0;
  int dimensions = 0;
  bool has_small_indices = true;  ///< below 2^31, for which divisors serve
  std::int64_t extents[max_code_dimensions] = {};
  FastDivisor divisors[max_code_dimensions];
  CodeInput inputs[max_code_inputs];
  int instruction_count = 0;
  CodeInstruction instructions[max_code_instructions];
  void* output = nullptr;
  DataType output_type = DataType::undefined;
  bool output_is_aligned = false;
  int slots = 0;
};

/// The type that holds elements of `type` in registers: of 32 bits at least.
DataType register_type(DataType type);
/// Whether the interpreter with 64-bit registers is needed.
bool needs_wide_registers(const ElementwiseProgram& program);
/// The code of a program, of which a thread computes `width` elements, but for pointers and their
/// alignment. Throws Error naming `node` where there are more dimensions or inputs than the
/// interpreter serves.
ElementwiseCode make_code(const ElementwiseProgram& program, int width, const graph::Node& node);

/// The interpreters, a source each, and the elements that a thread of theirs computes. There is an
/// element at least.
inline constexpr int narrow_width = 8;
inline constexpr int wide_width = 4;
void run_narrow(const ElementwiseCode& code, cudaStream_t stream);
void run_wide(const ElementwiseCode& code, cudaStream_t stream);

}  // namespace autopar::runtime::cuda
