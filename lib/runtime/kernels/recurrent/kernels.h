#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {

/// One product of the input with its weights for all steps, then for each step the product of the
/// hidden state and a RecurrentCell.
MakeKernel make_rnn, make_gru, make_lstm;

namespace AUTOPAR_DEVICE {

/// A step of RNN, GRU and LSTM (recurrent_cell_portable.cpp).
MakeKernel make_recurrent_cell;

}  // namespace AUTOPAR_DEVICE
}  // namespace autopar::runtime
