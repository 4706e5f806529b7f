#pragma once

#include "runtime/kernels/cpu/onednn.h"
#include "runtime/kernels/product/product.h"

/// What products by oneDNN have in common.
namespace autopar::runtime::cpu {

/// A product's matrices of some type as oneDNN has them: dimensions of extent 1 are what it
/// broadcasts.
dnnl::memory::desc matrices(const Product& product, const MatrixLayout& layout, std::int64_t rows,
                            std::int64_t columns, dnnl::memory::data_type type);

/// Whether the processor adds products of bytes up in 32 bits; others add them in 16 and lose some.
bool adds_bytes_exactly();

/// oneDNN's type for int8 or uint8.
dnnl::memory::data_type byte_type(DataType type);

/// oneDNN has signed weights alone: uint8 moves down by this much, and its zero point with it.
std::int32_t byte_shift(DataType type);
void move_down(const std::byte* from, std::int8_t* to, std::int64_t elements);

/// The only element of a tensor of int8 or uint8.
std::int32_t zero_point(const TensorView& view);

/// Constant weights of int8 or uint8, input 1, moved and brought from one layout into another; null
/// where they may stay as they are.
std::shared_ptr<std::byte> kept_bytes(const KernelRequest& request, const dnnl::memory::desc& from,
                                      const dnnl::memory::desc& to);

/// Whether the product is one of rows of float32, as they lie, by a constant matrix that nothing
/// else reads, with one number a column added at most.
bool can_be_blocked(const KernelRequest& request, const Product& product);

/// Such a product, which keeps its matrix in blocks that oneDNN has for convolutions; null where it
/// has no such blocks for this processor, or they take more memory than the matrix.
std::unique_ptr<Kernel> make_blocked_matmul(const KernelRequest& request, const Product& product);

/// Such a product where the matrix is small, which takes no longer than a call of oneDNN's product;
/// null where it is not, or the machine has no AVX2. It depends on the matrix alone, so that a row
/// has the same product whatever others are with it.
std::unique_ptr<Kernel> make_panel_matmul(const KernelRequest& request, const Product& product);

}  // namespace autopar::runtime::cpu
