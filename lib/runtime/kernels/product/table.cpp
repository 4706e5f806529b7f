#include "runtime/kernels/product/kernels.h"
#include "runtime/kernels/tables.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::span<const OperatorLine> product_operators() {
  static constexpr OperatorLine lines[] = {
      {"", "MatMul", make_matmul},
      {"", "Gemm", make_matmul},
      {passes::internal_domain, "FusedMatMul", make_matmul, false,
       served(cpu::serves_fused_matmul, cuda::serves_fused_matmul)},
      {passes::internal_domain, "GatheredMatMul", make_gathered_matmul, false,
       served(cpu::serves_gathered_matmul, cuda::serves_gathered_matmul)},
      {"", "Einsum", make_einsum},
      {"", "Det", make_determinant},
  };
  return lines;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
