#include "runtime/kernels/elementwise/pattern_cuda.h"

#include <algorithm>

#include "runtime/kernels/common/strides.h"
#include "runtime/kernels/cuda/fast_division.h"
#include "runtime/kernels/elementwise/patterns_cuda.h"

namespace autopar::runtime::cuda {
namespace {

constexpr int pattern_threads = 256;
/// Packs of each input that a thread has under way, where there are enough.
constexpr int most_packs = 4;

struct PatternInput {
  const uint4* data = nullptr;
  bool is_row = false;  ///< the same row for all of the output's
};

template <int inputs>
struct PatternOperands {
  PatternInput of[inputs];
  uint4* output = nullptr;
  std::int64_t elements = 0;
  FastDivisor row_packs;  ///< of an output row; where an input is one
  int packs_a_thread = 1;
};

/// A pack of results from one of each input.
template <typename T, typename Pattern, int inputs>
__device__ __forceinline__ Pack<T, full_pack<T>> evaluate(const Pattern& pattern,
                                                          const uint4 (&loaded)[inputs]) {
  constexpr int width = full_pack<T>;
  float values[inputs][width];
#pragma unroll
  for (int i = 0; i < inputs; ++i) widen<T>(loaded[i], values[i]);
  Pack<T, width> result;
#pragma unroll
  for (int e = 0; e < width; ++e) {
    float x[inputs];
#pragma unroll
    for (int i = 0; i < inputs; ++i) x[i] = values[i][e];
    result.values[e] = narrowed<T>(pattern.template value<T>(x));
  }
  return result;
}

template <typename T, typename Pattern>
__global__ void __launch_bounds__(pattern_threads)
    run_pattern(const __grid_constant__ Pattern pattern,
                const __grid_constant__ PatternOperands<Pattern::inputs> operands) {
  constexpr int width = full_pack<T>;
  constexpr int inputs = Pattern::inputs;
  const std::int64_t packs = operands.elements / width;
  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.x) * operands.packs_a_thread * pattern_threads +
      threadIdx.x;
  const auto is_there = [&](int j) {
    return j < operands.packs_a_thread && first + j * pattern_threads < packs;
  };
  uint4 loaded[most_packs][inputs];
#pragma unroll
  for (int j = 0; j < most_packs; ++j) {
    const std::int64_t pack = first + j * pattern_threads;
#pragma unroll
    for (int i = 0; i < inputs; ++i) {
      std::int64_t place = pack;
      if (operands.of[i].is_row) {
        auto row = static_cast<std::uint32_t>(pack);
        place = operands.row_packs.divide(row);
      }
      loaded[j][i] = is_there(j) ? operands.of[i].data[place] : uint4{0, 0, 0, 0};
    }
  }
#pragma unroll
  for (int j = 0; j < most_packs; ++j)
    if (is_there(j))
      store_pack(reinterpret_cast<T*>(operands.output + first + j * pattern_threads),
                 evaluate<T>(pattern, loaded[j]));

  // What is left of less than a pack.
  const std::int64_t index = packs * width + threadIdx.x;
  if (blockIdx.x != 0 || index >= operands.elements) return;
  float x[inputs];
#pragma unroll
  for (int i = 0; i < inputs; ++i)
    x[i] = widened(reinterpret_cast<const T*>(operands.of[i].data)[index]);
  reinterpret_cast<T*>(operands.output)[index] = narrowed<T>(pattern.template value<T>(x));
}

/// How an input lies; its data is not yet known.
struct InputLayout {
  bool is_served = false;
  bool is_row = false;
};

template <typename T>
InputLayout layout_of(const ElementwiseProgram& program, const ElementwiseProgram::Input& input) {
  const Shape& shape = program.shape;
  if (input.type != program.output_type) return {};
  if (input.strides == row_major_strides(shape)) return {.is_served = true};
  const bool is_row = shape.size() == 2 && input.strides == std::vector<std::int64_t>{0, 1} &&
                      shape[1] % full_pack<T> == 0 &&
                      graph::num_elements(shape) / full_pack<T> < FastDivisor::limit;
  return {.is_served = is_row, .is_row = is_row};
}

template <typename T, typename Pattern>
class TypedPattern final : public PatternKernel {
 public:
  TypedPattern(const ElementwiseProgram& program, const Pattern& pattern,
               const PatternInputs& places)
      : pattern_(pattern), places_(places) {
    operands_.elements = graph::num_elements(program.shape);
    for (int i = 0; i < Pattern::inputs; ++i) {
      operands_.of[i].is_row = layout_of<T>(program, input_of(program, i)).is_row;
      if (operands_.of[i].is_row)
        operands_.row_packs = FastDivisor(program.shape[1] / full_pack<T>);
    }
    // Small tensors take more threads instead.
    const std::int64_t packs = operands_.elements / full_pack<T>;
    operands_.packs_a_thread = packs < (std::int64_t{1} << 18) ? 1 : most_packs;
    const std::int64_t a_block = std::int64_t{operands_.packs_a_thread} * pattern_threads;
    blocks_ = std::max<std::int64_t>(1, (packs + a_block - 1) / a_block);
  }

  void run(const std::vector<const std::byte*>& inputs, std::byte* output,
           cudaStream_t stream) const override {
    PatternOperands<Pattern::inputs> operands = operands_;
    for (std::size_t i = 0; i < Pattern::inputs; ++i)
      operands.of[i].data =
          reinterpret_cast<const uint4*>(inputs[static_cast<std::size_t>(places_[i])]);
    operands.output = reinterpret_cast<uint4*>(output);
    launch(stream, {dim3(static_cast<unsigned>(blocks_)), dim3(pattern_threads)},
           run_pattern<T, Pattern>, pattern_, operands);
  }

 private:
  const ElementwiseProgram::Input& input_of(const ElementwiseProgram& program, int i) const {
    return program.inputs[static_cast<std::size_t>(places_[static_cast<std::size_t>(i)])];
  }

  Pattern pattern_;
  PatternInputs places_;
  PatternOperands<Pattern::inputs> operands_;
  std::int64_t blocks_ = 0;
};

template <typename T, typename... Ps>
std::unique_ptr<PatternKernel> find_pattern(const ElementwiseProgram& program, Types<Ps...>) {
  std::unique_ptr<PatternKernel> made;
  const auto try_one = [&]<typename Pattern>(Pattern pattern) {
    PatternInputs places = no_inputs;
    if (!pattern.match(MadeBy(program), program.output_slot, places)) return false;
    made = std::make_unique<TypedPattern<T, Pattern>>(program, pattern, places);
    return true;
  };
  static_cast<void>((try_one(Ps{}) || ...));
  return made;
}

}  // namespace

std::unique_ptr<PatternKernel> make_pattern_kernel(const ElementwiseProgram& program) {
  std::unique_ptr<PatternKernel> made;
  visit_type(program.output_type, Types<float, Float16, BFloat16>{}, [&]<typename T>(T) {
    const bool is_served = std::ranges::all_of(
        program.inputs, [&](const auto& input) { return layout_of<T>(program, input).is_served; });
    if (is_served) made = find_pattern<T>(program, Patterns{});
  });
  return made;
}

}  // namespace autopar::runtime::cuda
