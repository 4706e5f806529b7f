#include "runtime/kernels/reduction/kernels.h"
#include "runtime/kernels/tables.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::span<const OperatorLine> reduction_operators() {
  using namespace reductions;
  static constexpr OperatorLine lines[] = {
      {"", "ReduceSum", make_reduce<Sum>},
      {"", "ReduceMean", make_reduce<Mean>},
      {"", "ReduceProd", make_reduce<Product>},
      {"", "ReduceMax", make_reduce<Max>},
      {"", "ReduceMin", make_reduce<Min>},
      {"", "ReduceSumSquare", make_reduce<SumSquare>},
      {"", "ReduceLogSum", make_reduce<LogSum>},
      {"", "ReduceLogSumExp", make_reduce_log_sum_exp},
      {"", "ReduceL1", make_reduce<L1>},
      {"", "ReduceL2", make_reduce<L2>},
      {"", "GlobalAveragePool", make_global_pool<Mean>},
      {"", "GlobalMaxPool", make_global_pool<Max>},
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
