#include "runtime/kernels/convolution/windows.h"
#include "runtime/kernels/quantized/kernels.h"

namespace autopar::runtime::cuda {

bool serves_quantized_matmul(const graph::Node&, std::span<const TensorView> inputs,
                             std::span<const TensorView> outputs) {
  constexpr std::size_t most_dimensions = 8;
  if (outputs[0].elements() == 0) return true;
  return inputs[0].elements() > 0 && inputs[1].elements() > 0 &&
         outputs[0].shape.size() <= most_dimensions;
}

bool serves_quantized_conv(const graph::Node&, std::span<const TensorView> inputs,
                           std::span<const TensorView> outputs) {
  if (outputs[0].elements() == 0) return true;
  return inputs[0].elements() > 0 && inputs[1].elements() > 0 &&
         inputs[0].shape.size() <= 2 + Windows::dimensions;
}

}  // namespace autopar::runtime::cuda
