#include "runtime/kernels/attention/kernels.h"
#include "runtime/kernels/tables.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::span<const OperatorLine> attention_operators() {
  static constexpr OperatorLine lines[] = {
      {"", "Attention", make_attention, false,
       served(cpu::serves_attention, cuda::serves_attention)},
      {passes::internal_domain, "Attention", make_attention, false,
       served(cpu::serves_attention, cuda::serves_attention)},
      {"", "RotaryEmbedding", make_rotary_embedding, false,
       served(serves_rotary_embedding, serves_rotary_embedding)},
      {passes::internal_domain, "RotaryEmbedding", make_rotary_embedding, false,
       served(serves_rotary_embedding, serves_rotary_embedding)},
  };
  return lines;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
