#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {
namespace cpu {
/// MaxPool and AveragePool in float32, row by row or by oneDNN; null, or the other kernel, where
/// neither has such a form.
MakeKernel make_float_average_pool;
std::unique_ptr<Kernel> make_float_max_pool(const KernelRequest& request,
                                            std::unique_ptr<Kernel> other);
/// The same of images whose channels are last, which the passes make where they are served.
MakeKernel make_channels_last_average_pool, make_channels_last_max_pool;
Serves serves_channels_last_pool;
/// Poolings of images with long rows; null for others.
MakeKernel make_average_pool_by_rows, make_max_pool_by_rows;
}  // namespace cpu

namespace AUTOPAR_DEVICE {

MakeKernel make_average_pool, make_max_pool;
/// LpPool and GlobalLpPool.
MakeKernel make_lp_pool;
MakeKernel make_resize;
MakeKernel make_grid_sample, make_affine_grid, make_deform_conv;
MakeKernel make_roi_align, make_max_roi_pool;

}  // namespace AUTOPAR_DEVICE
}  // namespace autopar::runtime
