#pragma once

#include <variant>

#include "runtime/kernels/common/for_device.h"
#include "runtime/kernels/reduction/reduction.h"

namespace autopar::runtime {

using AnyReduction = std::variant<reductions::Sum, reductions::Mean, reductions::Product,
                                  reductions::Max, reductions::Min, reductions::SumSquare,
                                  reductions::L1, reductions::LogSum, reductions::L2>;

namespace cuda {
/// A block a row, or several: null for rows that are too short for that, or whose elements lie
/// apart.
MakeKernel make_cumsum_by_blocks, make_cumprod_by_blocks, make_log_sum_exp_by_blocks;
std::unique_ptr<Kernel> make_arg_by_blocks(const KernelRequest& request, const AxisExtents& rows,
                                           bool is_max);
std::unique_ptr<Kernel> make_hardmax_by_blocks(const KernelRequest& request,
                                               const AxisExtents& rows);
/// In the order of ONNX, `sorted` or not; null, too, for a `k` of more than 2,048.
std::unique_ptr<Kernel> make_top_k_by_blocks(const KernelRequest& request, const AxisExtents& rows,
                                             std::int64_t k, bool takes_largest);
}  // namespace cuda
}  // namespace autopar::runtime

namespace autopar::runtime::AUTOPAR_DEVICE {

std::unique_ptr<Kernel> make_reduction(const KernelRequest& request,
                                       const ReducedDimensions& dimensions, AnyReduction operation);
template <typename Operation>
std::unique_ptr<Kernel> make_reduce(const KernelRequest& request) {
  return make_reduction(request, ReducedDimensions(request), Operation{});
}
template <typename Operation>
std::unique_ptr<Kernel> make_global_pool(const KernelRequest& request) {
  return make_reduction(request, ReducedDimensions::of_images(request), Operation{});
}

MakeKernel make_reduce_log_sum_exp, make_cumsum, make_cumprod;
MakeKernel make_arg_max, make_arg_min, make_hardmax, make_top_k;

}  // namespace autopar::runtime::AUTOPAR_DEVICE
