#pragma once

#include <memory>

#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/quantized/matmul_n_bits.h"

/// What MatMulNBits chooses among on a GPU. Each is null for products that it does not serve.
namespace autopar::runtime::cuda {

/// Where a product's operands lie. Kernels compute with floats or tensor cores, whatever T is.
template <typename T>
struct PackedOperands {
  const T* a;                        ///< [rows, depth]
  const std::uint8_t* b;             ///< [columns, row_bytes()]
  const T* scales;                   ///< [columns, blocks]
  const std::uint8_t* packed_zeros;  ///< [columns, zero_bytes()]; null where there are none
  const T* zeros;                    ///< [columns, blocks]; null where there are none
  const T* bias;                     ///< [columns]; may be null
  T* out;                            ///< [rows, columns]

  PackedOperands(const KernelIo& io, const PackedProduct& of)
      : a(io.inputs[0].as<const T>()),
        b(io.inputs[1].as<const std::uint8_t>()),
        scales(io.inputs[2].as<const T>()),
        packed_zeros(of.zeros == PackedProduct::Zeros::packed
                         ? io.inputs[3].as<const std::uint8_t>()
                         : nullptr),
        zeros(of.zeros == PackedProduct::Zeros::numbers ? io.inputs[3].as<const T>() : nullptr),
        bias(optional_data<const T>(io.inputs, 5)),
        out(io.outputs[0].as<T>()) {}
};

/// What a block of a column's weights stands around.
template <typename T>
__device__ __forceinline__ float zero_point(const PackedOperands<T>& operands,
                                            const PackedProduct& of, std::int64_t column,
                                            std::int64_t block) {
  if (operands.zeros != nullptr) return widened(operands.zeros[column * of.blocks + block]);
  if (operands.packed_zeros == nullptr) return static_cast<float>(1 << (of.bits - 1));
  const std::uint8_t* const zeros = operands.packed_zeros + column * of.zero_bytes();
  return static_cast<float>(packed_number(zeros, block, of.bits));
}

/// Few rows of a half type with weights of 4 bits, which stream through tensor cores once: one step
/// of a decoder.
std::unique_ptr<Kernel> make_packed_rows(const KernelRequest& request, const PackedProduct& of);

/// Many rows: weights become numbers of the operands' type, some columns at a time in scratch
/// memory, and are multiplied by the library.
std::unique_ptr<Kernel> make_unpacked_product(const KernelRequest& request,
                                              const PackedProduct& of);

}  // namespace autopar::runtime::cuda
