#pragma once

#include "runtime/kernels/cpu/onednn.h"
#include "runtime/kernels/product.h"

/// What products by oneDNN have in common.
namespace autopar::runtime::cpu {

/// A product's matrices of some type as oneDNN has them: dimensions of extent 1 are what it
/// broadcasts.
dnnl::memory::desc matrices(const Product& product, const MatrixLayout& layout, std::int64_t rows,
                            std::int64_t columns, dnnl::memory::data_type type);

/// Whether the processor adds products of bytes up in 32 bits; others add them in 16 and lose some.
bool adds_bytes_exactly();

/// Of int8 and uint8.
dnnl::memory::data_type byte_type(DataType type);

}  // namespace autopar::runtime::cpu
