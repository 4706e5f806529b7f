#pragma once

#include <memory>

#include "runtime/kernel.h"

namespace autopar::runtime::cuda {

/// MatMulInteger, or QuantizedMatMul where results are floats, of many rows by cuBLASLt, whose
/// integer products know no zero points and no unsigned bytes. Null for products that it does not
/// serve.
std::unique_ptr<Kernel> make_byte_product(const KernelRequest& request);

}  // namespace autopar::runtime::cuda
