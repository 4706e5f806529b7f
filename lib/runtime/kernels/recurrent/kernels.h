#pragma once

#include <memory>

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {

/// One product of the input with its weights for all steps, then for each step the product of the
/// hidden state and a RecurrentCell.
std::unique_ptr<Kernel> make_rnn(const KernelRequest& request);
std::unique_ptr<Kernel> make_gru(const KernelRequest& request);
std::unique_ptr<Kernel> make_lstm(const KernelRequest& request);

}  // namespace autopar::runtime

namespace autopar::runtime::AUTOPAR_DEVICE {

/// A step of RNN, GRU and LSTM (recurrent_cell_portable.cpp).
std::unique_ptr<Kernel> make_recurrent_cell(const KernelRequest& request);

}  // namespace autopar::runtime::AUTOPAR_DEVICE
