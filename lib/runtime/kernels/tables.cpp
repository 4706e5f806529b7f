#include "runtime/kernels/tables.h"

#include <initializer_list>

namespace autopar::runtime::AUTOPAR_DEVICE {

std::vector<OperatorLine> all_operators() {
  std::vector<OperatorLine> all;
  for (const auto family :
       {attention_operators(), collective_operators(), control_operators(), convolution_operators(),
        elementwise_operators(), fourier_operators(), generator_operators(), image_operators(),
        movement_operators(), normalization_operators(), own_operators(), product_operators(),
        quantized_operators(), recurrent_operators(), reduction_operators()})
    all.insert(all.end(), family.begin(), family.end());
  return all;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
