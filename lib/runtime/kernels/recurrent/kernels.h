#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {

namespace cpu {

/// All steps of a direction at once, of float32 and of few elements of the batch: each thread has
/// some units of the hidden state, whose weights stay in its cache.
///
///   RecurrentSweep(x_gates, weights, w_bias?, r_bias?, hidden, cell?, peepholes?, lengths?)
///     -> (hidden, cell?, y?)
///
/// as RecurrentCell, but for `weights` [gates * hidden, hidden], and x_gates and y being those of
/// step 0; `x_step` and `y_step` elements on lie those of the next.
MakeKernel make_recurrent_sweep;

}  // namespace cpu

/// One product of the input with its weights for all steps, then for each step the product of the
/// hidden state and a RecurrentCell.
MakeKernel make_rnn, make_gru, make_lstm;

namespace AUTOPAR_DEVICE {

/// A step of RNN, GRU and LSTM (recurrent_cell_portable.cpp).
MakeKernel make_recurrent_cell;

}  // namespace AUTOPAR_DEVICE
}  // namespace autopar::runtime
