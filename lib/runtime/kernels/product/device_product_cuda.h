#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/devices/cuda/cuda_device.h"
#include "runtime/kernels/product/product.h"

namespace autopar::runtime::cuda {

/// Where a product's first elements lie; `c` is null where there is none.
struct ProductData {
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  const std::byte* c = nullptr;
  std::byte* out = nullptr;
};

/// One product on a GPU, ready to run.
class DeviceProduct {
 public:
  virtual ~DeviceProduct() = default;
  virtual std::int64_t scratch_bytes() const { return 0; }
  /// `scratch` is aligned to 64 bytes. Throws Error naming the node where it cannot be launched.
  virtual void run(const ProductData& data, std::byte* scratch, cudaStream_t stream) = 0;
};

/// What a product is made from. `out` holds the results of all batches and nothing else.
struct ProductRequest {
  CudaDevice& device;
  std::string node;  ///< for messages
  DataType type = DataType::undefined;
  Product product;         ///< its batches merged, not empty
  int out_alignment = 64;  ///< bytes that `out` is a multiple of in every run
  int b_alignment = 64;    ///< the same of `b`; the others are multiples of 64
};

/// A product by cuBLASLt, or by a kernel of its own: few rows, integers, sums over nothing. Null
/// for a type that has none. Throws Error naming the node where cuBLASLt refuses the product.
std::unique_ptr<DeviceProduct> make_device_product(const ProductRequest& request);

/// Rows of a by columns of b, each of which lies together; rows of the result begin `out_stride`
/// apart.
inline Product product_of_vectors(std::int64_t rows, std::int64_t depth, std::int64_t columns,
                                  std::int64_t out_stride) {
  Product product;
  product.rows = rows;
  product.depth = depth;
  product.columns = columns;
  product.a = {{}, depth, 1};
  product.b = {{}, 1, depth};
  product.out = {{}, out_stride, 1};
  return product;
}

// What it chooses among.

/// Floating point, or int8 with results in int32, over at least one number. Integer products have b
/// by columns and all else by rows, strides and columns that are multiples of 4, and no c (cuBLASLt
/// API reference, cublasLtMatmul, "to use IMMA kernels"). Null for other types, and where cuBLASLt
/// has no algorithm for integers, which kernels of ours multiply as well; Error naming the node
/// where it has none for the others.
std::unique_ptr<DeviceProduct> make_cublas_product(const ProductRequest& request);
/// A few rows times one matrix of weights, which is read once at full bandwidth: one step of a
/// decoder. Null where it does not serve the layout, which must allow reads of 16 bytes.
std::unique_ptr<DeviceProduct> make_row_product(const ProductRequest& request);
/// Many rows of a half type whose results begin nowhere that cuBLASLt's fast kernels can write.
/// Null for other products.
std::unique_ptr<DeviceProduct> make_padded_product(const ProductRequest& request);
/// Any layout, one output element a thread. Null for a type that it does not serve.
std::unique_ptr<DeviceProduct> make_plain_product(const ProductRequest& request);

/// Applies an activation in place to elements that lie together from a multiple of 16 bytes on.
void activate(Activation activation, DataType type, std::byte* data, std::int64_t elements,
              cudaStream_t stream);

}  // namespace autopar::runtime::cuda
