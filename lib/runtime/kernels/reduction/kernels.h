#pragma once

#include <variant>

#include "runtime/kernels/common/for_device.h"
#include "runtime/kernels/reduction/reduction.h"

namespace autopar::runtime {

using AnyReduction = std::variant<reductions::Sum, reductions::Mean, reductions::Product,
                                  reductions::Max, reductions::Min, reductions::SumSquare,
                                  reductions::L1, reductions::LogSum, reductions::L2>;

namespace cuda {
/// CumSum of rows that lie together, or nearly so; null for others.
MakeKernel make_cumsum_by_blocks;
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
