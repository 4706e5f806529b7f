#pragma once

#include <memory>

#include "runtime/kernel.h"

/// RNN, GRU and LSTM, for all devices: one product of the input with its weights for all steps,
/// then for each step the product of the hidden state and a RecurrentCell (recurrent_items.h).
namespace autopar::runtime {

std::unique_ptr<Kernel> make_rnn(const KernelRequest& request);
std::unique_ptr<Kernel> make_gru(const KernelRequest& request);
std::unique_ptr<Kernel> make_lstm(const KernelRequest& request);

}  // namespace autopar::runtime
