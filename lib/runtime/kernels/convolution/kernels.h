#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

MakeKernel make_conv, make_conv_transpose;
/// ConvTranspose by its definition.
MakeKernel make_conv_transpose_loops;
MakeKernel make_col2im, make_max_unpool;

}  // namespace autopar::runtime::AUTOPAR_DEVICE
