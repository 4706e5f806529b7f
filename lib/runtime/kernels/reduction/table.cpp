#include "runtime/kernels/reduction/kernels.h"
#include "runtime/kernels/tables.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::span<const OperatorLine> reduction_operators() {
  static constexpr OperatorLine lines[] = {
      {"", "ReduceSum", make_reduce_sum},
      {"", "ReduceMean", make_reduce_mean},
      {"", "ReduceProd", make_reduce_prod},
      {"", "ReduceMax", make_reduce_max},
      {"", "ReduceMin", make_reduce_min},
      {"", "ReduceSumSquare", make_reduce_sum_square},
      {"", "ReduceLogSum", make_reduce_log_sum},
      {"", "ReduceLogSumExp", make_reduce_log_sum_exp},
      {"", "ReduceL1", make_reduce_l1},
      {"", "ReduceL2", make_reduce_l2},
      {"", "GlobalAveragePool", make_global_average_pool},
      {"", "GlobalMaxPool", make_global_max_pool},
      {"", "CumSum", make_cumsum},
      {"", "CumProd", make_cumprod},
      {"", "ArgMax", make_arg_max},
      {"", "ArgMin", make_arg_min},
      {"", "Hardmax", make_hardmax},
      {"", "TopK", make_top_k},
  };
  return lines;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
