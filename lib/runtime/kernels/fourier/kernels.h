#pragma once

#include <memory>

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {

/// A transform is a product with a matrix of cosines and sines as long as that is small; sums over
/// longer signals take a FourierRows.
std::unique_ptr<Kernel> make_dft(const KernelRequest& request);
std::unique_ptr<Kernel> make_stft(const KernelRequest& request);
std::unique_ptr<Kernel> make_mel_weight_matrix(const KernelRequest& request);

}  // namespace autopar::runtime

namespace autopar::runtime::AUTOPAR_DEVICE {

/// Sums over signals too long for a matrix of cosines and sines (fourier_rows_portable.cpp).
std::unique_ptr<Kernel> make_fourier_rows(const KernelRequest& request);

}  // namespace autopar::runtime::AUTOPAR_DEVICE
