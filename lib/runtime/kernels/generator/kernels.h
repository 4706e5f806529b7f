#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {

MakeKernel make_constant, make_constant_of_shape, make_shape, make_size;

namespace AUTOPAR_DEVICE {

MakeKernel make_range, make_eye_like, make_trilu, make_one_hot;
/// RandomUniform, RandomNormal, and their forms "Like".
MakeKernel make_random_uniform, make_random_normal;
MakeKernel make_bernoulli, make_multinomial;

}  // namespace AUTOPAR_DEVICE
}  // namespace autopar::runtime
