#include <omp.h>

#include <algorithm>
#include <cstring>

#include "runtime/device.h"
#include "runtime/kernels/cpu/broadcast.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/elementwise/blocks_cpu.h"
#include "runtime/kernels/elementwise/elementwise.h"

namespace autopar::runtime::cpu {
namespace {

constexpr std::int64_t max_tile_elements = 1024;
constexpr std::int64_t max_element_bytes = 8;
/// Fewer elements than this are not worth waking other threads.
constexpr std::int64_t parallel_elements = 32 * 1024;

/// From a half type to float; null for all other types.
BlockFunction widening(DataType type) {
  BlockFunction found = nullptr;
  visit_type(type, Halves{}, [&]<typename Half>(Half) {
    found = [](const BlockArguments& of) {
      widen(reinterpret_cast<const Half*>(of.inputs[0]), of.elements,
            reinterpret_cast<float*>(of.output));
    };
  });
  return found;
}
/// From float to a half type; null for all other types.
BlockFunction narrowing(DataType type) {
  BlockFunction found = nullptr;
  visit_type(type, Halves{}, [&]<typename Half>(Half) {
    found = [](const BlockArguments& of) {
      narrow(reinterpret_cast<const float*>(of.inputs[0]), of.elements,
             reinterpret_cast<Half*>(of.output));
    };
  });
  return found;
}

/// The loop behind an instruction of a program.
BlockFunction block_of(FunctionId function, DataType type) {
  static const std::vector<BlockFinder> finders = [] {
    std::vector<BlockFinder> all;
    for (const auto& blocks : {arithmetic_blocks(), mathematical_blocks(), logical_blocks()})
      all.insert(all.end(), blocks.begin(), blocks.end());
    return all;
  }();
  return finders.at(static_cast<std::size_t>(function))(type);
}

int element_bytes(DataType type) { return graph::bits_of(type) / 8; }

/// Tiles that divide the innermost run, if there are such, never cross from one run to the next, so
/// that row operands are read in place.
std::int64_t tile_for(std::int64_t inner, std::int64_t limit) {
  for (std::int64_t parts = (inner + limit - 1) / limit; inner / parts >= limit / 4; ++parts)
    if (inner % parts == 0) return inner / parts;
  return limit;
}

/// Runs a program tile by tile. A *tile* is a run of the output's flat index; each slot has a
/// buffer for one. Operands that lie together are read where they are; broadcast and half ones are
/// put together in the slot's buffer. The results between a chain's links stay in the cache.
class ElementwiseKernel final : public Kernel {
 public:
  ElementwiseKernel(const ElementwiseProgram& program, const KernelRequest& request);
  void run(const KernelIo& io) override;

 private:
  struct Input {
    int index = 0;
    int slot = 0;
    BroadcastOperand operand;
    BlockFunction widen = nullptr;  ///< for half types
  };
  struct Instruction {
    BlockFunction function = nullptr;
    ElementwiseProgram::Instruction of;
  };
  class TileRun;

  int threads_;
  std::int64_t elements_;
  std::int64_t tile_elements_;
  std::vector<Input> inputs_;
  std::vector<Instruction> instructions_;
  int output_slot_;
  int output_element_bytes_;
  BlockFunction narrow_;  ///< for half outputs
};

ElementwiseKernel::ElementwiseKernel(const ElementwiseProgram& program,
                                     const KernelRequest& request)
    : threads_(request.device.threads()),
      elements_(graph::num_elements(program.shape)),
      output_slot_(program.output_slot),
      output_element_bytes_(element_bytes(program.output_type)),
      narrow_(narrowing(program.output_type)) {
  if (program.slots() > max_chain_slots)
    fail("node '{}': {} inputs are too many for {} on the CPU", request.node.name,
         request.inputs.size(), qualified_op_type(request.node));
  for (const auto& input : program.inputs)
    inputs_.push_back({input.index, input.slot,
                       BroadcastOperand(program.shape, input.strides, element_bytes(input.type)),
                       widening(input.type)});
  for (const auto& instruction : program.instructions)
    instructions_.push_back({block_of(instruction.function, instruction.type), instruction});
  const Shape& shape = program.shape;
  const std::int64_t limit = program.slots() > 8 ? max_tile_elements / 2 : max_tile_elements;
  const std::int64_t inner = shape.empty() ? 1 : std::max<std::int64_t>(1, shape.back());
  tile_elements_ = std::min(tile_for(inner, limit), std::max<std::int64_t>(1, elements_));
}

/// One thread's walk over its tiles.
class ElementwiseKernel::TileRun {
 public:
  TileRun(const ElementwiseKernel& kernel, const KernelIo& io) : kernel_(kernel), io_(io) {
    for (const Input& input : kernel_.inputs_)
      if (input.operand.is_uniform()) load(input, 0, kernel_.tile_elements_);
  }

  void run(std::int64_t begin, std::int64_t n) {
    for (const Input& input : kernel_.inputs_)
      if (!input.operand.is_uniform()) load(input, begin, n);
    std::byte* out = io_.outputs[0].data + begin * kernel_.output_element_bytes_;
    for (const Instruction& instruction : kernel_.instructions_) compute(instruction, n, out);
    store(n, out);
  }

 private:
  std::byte* buffer(int slot) { return buffers_[static_cast<std::size_t>(slot)].data(); }
  const std::byte*& where(int slot) { return where_[static_cast<std::size_t>(slot)]; }

  void load(const Input& input, std::int64_t begin, std::int64_t n) {
    const std::byte* data = io_.inputs[static_cast<std::size_t>(input.index)].data;
    std::byte* raw = input.widen ? half_buffer_.data() : buffer(input.slot);
    const std::byte* values = input.operand.read(data, begin, n, raw);
    if (input.widen) {
      input.widen({{values}, buffer(input.slot), n, {}});
      values = buffer(input.slot);
    }
    where(input.slot) = values;
  }

  void compute(const Instruction& instruction, std::int64_t n, std::byte* out) {
    const auto& [function, of] = instruction;
    const bool is_output = of.result == kernel_.output_slot_ && !kernel_.narrow_;
    BlockArguments arguments{{}, is_output ? out : buffer(of.result), n, of.parameters};
    for (std::size_t i = 0; i < of.operands.size(); ++i)
      arguments.inputs[i] = where(of.operands[i]);
    function(arguments);
    where(of.result) = arguments.output;
  }

  void store(std::int64_t n, std::byte* out) {
    const std::byte* result = where(kernel_.output_slot_);
    if (kernel_.narrow_)
      kernel_.narrow_({{result}, out, n, {}});
    else if (result != out)
      std::memcpy(out, result, static_cast<std::size_t>(n * kernel_.output_element_bytes_));
  }

  const ElementwiseKernel& kernel_;
  const KernelIo& io_;
  std::array<const std::byte*, max_chain_slots> where_{};
  alignas(64) std::array<std::byte, max_tile_elements * 2> half_buffer_;
  alignas(64) std::array<std::array<std::byte, max_tile_elements * max_element_bytes>,
                         max_chain_slots> buffers_;
};

void ElementwiseKernel::run(const KernelIo& io) {
  const std::int64_t tiles = (elements_ + tile_elements_ - 1) / tile_elements_;
  if (tiles == 0) return;
  in_threads(elements_ >= parallel_elements ? threads_ : 1, [&] {
    const std::int64_t thread = omp_get_thread_num();
    const std::int64_t team = omp_get_num_threads();
    TileRun tile_run(*this, io);
    for (std::int64_t tile = tiles * thread / team; tile < tiles * (thread + 1) / team; ++tile) {
      const std::int64_t begin = tile * tile_elements_;
      tile_run.run(begin, std::min(tile_elements_, elements_ - begin));
    }
  });
}

}  // namespace

std::unique_ptr<Kernel> make_elementwise(const KernelRequest& request) {
  if (auto fold = make_long_fold(request)) return fold;
  return std::make_unique<ElementwiseKernel>(elementwise_program(request), request);
}

std::unique_ptr<Kernel> make_elementwise_chain(const KernelRequest& request) {
  return std::make_unique<ElementwiseKernel>(chain_program(request), request);
}

std::optional<int> chain_slots(const graph::Node& node, std::span<const TensorView> inputs,
                               const TensorView& output) {
  const auto program = link_program(node, inputs, output);
  if (!program) return std::nullopt;
  return program->slots() - static_cast<int>(program->inputs.size());
}

}  // namespace autopar::runtime::cpu
