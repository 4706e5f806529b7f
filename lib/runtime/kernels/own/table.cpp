#include "graph/own_operators.h"
#include "runtime/kernels/own/kernels.h"
#include "runtime/kernels/tables.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::span<const OperatorLine> own_operators() {
  static constexpr OperatorLine lines[] = {
      {graph::own_domain, "TreeSums", make_tree_sums},
      {graph::own_domain, "ExpertMatMulNBits", make_expert_matmul_n_bits},
  };
  return lines;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
