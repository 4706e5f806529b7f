#pragma once

#include "runtime/kernel.h"
#include "runtime/kernels/common/for_device.h"

namespace autopar::runtime {

/// A transform is a product with a matrix of cosines and sines as long as that is small; sums over
/// longer signals take a FourierRows.
MakeKernel make_dft, make_stft;
MakeKernel make_mel_weight_matrix;

namespace cpu {
/// A FourierRows by fast transforms; null where the length has a large prime factor, or signals
/// would take too much memory.
MakeKernel make_fast_fourier_rows;
}  // namespace cpu

namespace AUTOPAR_DEVICE {

/// Sums over signals too long for a matrix of cosines and sines (fourier_rows_portable.cpp).
MakeKernel make_fourier_rows;

}  // namespace AUTOPAR_DEVICE
}  // namespace autopar::runtime
