#include "runtime/kernels/cpu/elementwise_program.h"

#include <omp.h>

#include <algorithm>
#include <cstring>

namespace autopar::runtime::cpu {
namespace {

constexpr std::int64_t max_tile_elements = 1024;
constexpr std::int64_t max_element_bytes = 8;
/// Fewer elements than this are not worth waking other threads.
constexpr std::int64_t parallel_elements = 32 * 1024;

struct Widen {
  AUTOPAR_ELEMENTWISE float operator()(Float16 x) const { return to_float(x); }
  AUTOPAR_ELEMENTWISE float operator()(BFloat16 x) const { return to_float(x); }
};
struct NarrowToFloat16 {
  AUTOPAR_ELEMENTWISE Float16 operator()(float x) const { return to_float16(x); }
};
struct NarrowToBFloat16 {
  AUTOPAR_ELEMENTWISE BFloat16 operator()(float x) const { return to_bfloat16(x); }
};
struct RoundToFloat16 {
  AUTOPAR_ELEMENTWISE float operator()(float x) const { return to_float(to_float16(x)); }
};
struct RoundToBFloat16 {
  AUTOPAR_ELEMENTWISE float operator()(float x) const { return to_float(to_bfloat16(x)); }
};

/// What a half type needs on its way to and from float; null functions for all other types.
struct HalfFunctions {
  BlockFunction widen = nullptr;
  BlockFunction narrow = nullptr;
  BlockFunction round = nullptr;
};

HalfFunctions half_functions(DataType type) {
  if (type == DataType::float16)
    return {block_function<Widen, Float16>(), block_function<NarrowToFloat16, float>(),
            block_function<RoundToFloat16, float>()};
  if (type == DataType::bfloat16)
    return {block_function<Widen, BFloat16>(), block_function<NarrowToBFloat16, float>(),
            block_function<RoundToBFloat16, float>()};
  return {};
}

int element_bytes(DataType type) { return graph::bits_of(type) / 8; }

/// Tiles that divide the innermost run, if there are such, never cross from one run to the next, so
/// that row operands are read in place.
std::int64_t tile_for(std::int64_t inner, std::int64_t limit) {
  for (std::int64_t parts = (inner + limit - 1) / limit; inner / parts >= limit / 4; ++parts)
    if (inner % parts == 0) return inner / parts;
  return limit;
}

}  // namespace

DataType compute_type(DataType type) {
  const bool is_half = type == DataType::float16 || type == DataType::bfloat16;
  return is_half ? DataType::float32 : type;
}

int ElementwiseProgram::add_slot(DataType type) {
  require(slots() < max_slots, "an element-wise program fits its slots");
  types_.push_back(type);
  return slots() - 1;
}

bool ElementwiseProgram::can_read(const TensorView& view) const {
  return broadcast_strides(view.shape, shape_).size() == shape_.size();
}

int ElementwiseProgram::add_input(int input, const TensorView& view) {
  const int slot = add_slot(compute_type(view.type));
  inputs_.push_back({input,
                     slot,
                     view.type,
                     broadcast_strides(view.shape, shape_),
                     {},
                     half_functions(view.type).widen});
  return slot;
}

int ElementwiseProgram::add_instruction(Block block, std::span<const int> operands,
                                        Parameters parameters) {
  Instruction instruction;
  instruction.function = block.function;
  std::ranges::copy(operands, instruction.operands.begin());
  instruction.operand_count = static_cast<int>(operands.size());
  instruction.result = add_slot(block.result);
  instruction.parameters = parameters;
  instructions_.push_back(instruction);
  return instruction.result;
}

int ElementwiseProgram::round_to(DataType type, int slot) {
  const BlockFunction round = half_functions(type).round;
  if (round == nullptr) return slot;
  return add_instruction({round, DataType::float32}, std::array{slot});
}

void ElementwiseProgram::set_output(int slot, DataType type) {
  require(type_of(slot) == compute_type(type), "an element-wise result has its output's type");
  output_slot_ = slot;
  output_element_bytes_ = element_bytes(type);
  narrow_ = half_functions(type).narrow;
  elements_ = graph::num_elements(shape_);

  std::vector<std::vector<std::int64_t>> strides;
  for (const Input& input : inputs_) strides.push_back(input.strides);
  merge_dimensions(shape_, strides);
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    inputs_[i].operand.emplace_back(shape_, strides[i], element_bytes(inputs_[i].type));
  const std::int64_t limit = slots() > 8 ? max_tile_elements / 2 : max_tile_elements;
  const std::int64_t inner = shape_.empty() ? 1 : std::max<std::int64_t>(1, shape_.back());
  tile_elements_ = std::min(tile_for(inner, limit), std::max<std::int64_t>(1, elements_));
}

/// One thread's walk over its tiles.
class ElementwiseProgram::TileRun {
 public:
  TileRun(const ElementwiseProgram& program, const KernelIo& io) : program_(program), io_(io) {
    for (const Input& input : program_.inputs_)
      if (input.operand.front().is_uniform()) load(input, 0, program_.tile_elements_);
  }

  void run(std::int64_t begin, std::int64_t n) {
    for (const Input& input : program_.inputs_)
      if (!input.operand.front().is_uniform()) load(input, begin, n);
    std::byte* out = io_.outputs[0].data + begin * program_.output_element_bytes_;
    for (const Instruction& instruction : program_.instructions_) compute(instruction, n, out);
    store(n, out);
  }

 private:
  std::byte* buffer(int slot) { return buffers_[static_cast<std::size_t>(slot)].data(); }
  const std::byte*& where(int slot) { return where_[static_cast<std::size_t>(slot)]; }

  void load(const Input& input, std::int64_t begin, std::int64_t n) {
    const std::byte* data = io_.inputs[static_cast<std::size_t>(input.index)].data;
    std::byte* raw = input.widen ? half_buffer_.data() : buffer(input.slot);
    const std::byte* values = input.operand.front().read(data, begin, n, raw);
    if (input.widen) {
      input.widen({{values}, buffer(input.slot), n, {}});
      values = buffer(input.slot);
    }
    where(input.slot) = values;
  }

  void compute(const Instruction& instruction, std::int64_t n, std::byte* out) {
    const bool is_output = instruction.result == program_.output_slot_ && !program_.narrow_;
    BlockArguments arguments{
        {}, is_output ? out : buffer(instruction.result), n, instruction.parameters};
    for (int i = 0; i < instruction.operand_count; ++i)
      arguments.inputs[static_cast<std::size_t>(i)] =
          where(instruction.operands[static_cast<std::size_t>(i)]);
    instruction.function(arguments);
    where(instruction.result) = arguments.output;
  }

  void store(std::int64_t n, std::byte* out) {
    const std::byte* result = where(program_.output_slot_);
    if (program_.narrow_)
      program_.narrow_({{result}, out, n, {}});
    else if (result != out)
      std::memcpy(out, result, static_cast<std::size_t>(n * program_.output_element_bytes_));
  }

  const ElementwiseProgram& program_;
  const KernelIo& io_;
  std::array<const std::byte*, max_slots> where_{};
  alignas(64) std::array<std::byte, max_tile_elements * 2> half_buffer_;
  alignas(64)
      std::array<std::array<std::byte, max_tile_elements * max_element_bytes>, max_slots> buffers_;
};

void ElementwiseProgram::run(const KernelIo& io, int threads) const {
  const std::int64_t tiles = (elements_ + tile_elements_ - 1) / tile_elements_;
  if (tiles == 0) return;
#pragma omp parallel num_threads(threads) if (threads > 1 && elements_ >= parallel_elements)
  {
    const std::int64_t thread = omp_get_thread_num();
    const std::int64_t team = omp_get_num_threads();
    TileRun tile_run(*this, io);
    for (std::int64_t tile = tiles * thread / team; tile < tiles * (thread + 1) / team; ++tile) {
      const std::int64_t begin = tile * tile_elements_;
      tile_run.run(begin, std::min(tile_elements_, elements_ - begin));
    }
  }
}

}  // namespace autopar::runtime::cpu
