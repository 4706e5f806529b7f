#include "runtime/kernels/recurrent/kernels.h"
#include "runtime/kernels/tables.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::span<const OperatorLine> recurrent_operators() {
  static constexpr OperatorLine lines[] = {
      {"", "RNN", make_rnn},
      {"", "GRU", make_gru},
      {"", "LSTM", make_lstm},
      {passes::internal_domain, "RecurrentCell", make_recurrent_cell},
      {passes::internal_domain,
       "RecurrentSweep",
       on_cpu ? cpu::make_recurrent_sweep : nullptr,
       false,
       {},
       OperatorLine::Devices::cpu},
  };
  return lines;
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
