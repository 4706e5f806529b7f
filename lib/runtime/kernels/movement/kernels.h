#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {

// Strided copies alone (data_movement.cpp), or a Gather (Compress by a constant condition).
MakeKernel make_copy, make_dropout, make_transpose, make_slice, make_split, make_concat;
MakeKernel make_expand, make_tile, make_depth_to_space, make_space_to_depth, make_compress;

namespace AUTOPAR_DEVICE {

MakeKernel make_pad, make_tensor_scatter, make_reverse_sequence;
MakeKernel make_gather, make_gather_elements, make_gather_nd;
MakeKernel make_scatter_elements, make_scatter_nd;

}  // namespace AUTOPAR_DEVICE
}  // namespace autopar::runtime
