#pragma once

#include <memory>

#include "runtime/kernel.h"

/// DFT, STFT and MelWeightMatrix, for all devices. A transform is a product with a matrix of
/// cosines and sines as long as that is small; sums over longer signals take a FourierRows
/// (fourier_items.h).
namespace autopar::runtime {

std::unique_ptr<Kernel> make_dft(const KernelRequest& request);
std::unique_ptr<Kernel> make_stft(const KernelRequest& request);
std::unique_ptr<Kernel> make_mel_weight_matrix(const KernelRequest& request);

}  // namespace autopar::runtime
