// What a step of RNN, GRU and LSTM does with its gates, an element of the hidden state an item:
//
//   RecurrentCell(x_gates, state_gates, w_bias?, r_bias?, hidden, cell?, peepholes?, lengths?)
//     -> (hidden, cell?, y?)
//
// of the domain passes::internal_domain; hidden and cell may be the inputs themselves. `kind` says
// which: "rnn"; "lstm"; "gru", whose state_gates are of the state as it is; or a GRU that resets
// the state before its product, in two: "gru_gates" gives the state as it is reset, and as cell
// the update gate, which "gru_candidate" reads. An element of the batch that is over at this
// `step` keeps its state, and its y is 0.

#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/recurrent/kernels.h"
#include "runtime/kernels/recurrent/recurrent_cell.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

std::unique_ptr<Kernel> make_recurrent_cell(const KernelRequest& request) {
  const RecurrentStep of = recurrent_step(request);
  const std::int64_t items = request.inputs[0].shape[0] * of.hidden_size;
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      const auto input = [&](std::size_t i) { return optional_data<const T>(io.inputs, i); };
      loops.each(items,
                 RecurrentCellElement<T>{
                     of, input(0), input(1), input(2), input(3), input(4), input(5), input(6),
                     optional_data<const std::int32_t>(io.inputs, 7), io.outputs[0].as<T>(),
                     optional_data<T>(io.outputs, 1), optional_data<T>(io.outputs, 2)});
    });
  });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
