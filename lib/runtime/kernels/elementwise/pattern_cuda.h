#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "runtime/kernels/elementwise/elementwise.h"

/// Kernels of their own for the programs that models consist of (patterns_cuda.h), which then run
/// at the speed of memory.
namespace autopar::runtime::cuda {

class PatternKernel {
 public:
  virtual ~PatternKernel() = default;
  /// `inputs` are those of the program, in its order; all and `output` are multiples of 16 bytes.
  virtual void run(const std::vector<const std::byte*>& inputs, std::byte* output,
                   cudaStream_t stream) const = 0;
};

/// Null where the program is none of the patterns, or its operands have several types or lie
/// otherwise than the output or a row of it.
std::unique_ptr<PatternKernel> make_pattern_kernel(const ElementwiseProgram& program);

}  // namespace autopar::runtime::cuda
