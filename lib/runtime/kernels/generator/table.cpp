#include "runtime/kernels/generator/kernels.h"
#include "runtime/kernels/tables.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::span<const OperatorLine> generator_operators() {
  static constexpr OperatorLine lines[] = {
      {"", "Constant", make_constant},
      {"", "ConstantOfShape", make_constant_of_shape},
      {"", "Shape", make_shape},
      {"", "Size", make_size},
      {"", "Range", make_range},
      {"", "EyeLike", make_eye_like},
      {"", "Trilu", make_trilu},
      {"", "OneHot", make_one_hot},
      {"", "RandomUniform", make_random_uniform},
      {"", "RandomUniformLike", make_random_uniform},
      {"", "RandomNormal", make_random_normal},
      {"", "RandomNormalLike", make_random_normal},
      {"", "Bernoulli", make_bernoulli},
      {"", "Multinomial", make_multinomial},
  };
  return lines;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
