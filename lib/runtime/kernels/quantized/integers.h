#pragma once

#include "runtime/device.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/convolution/convolution.h"
#include "runtime/kernels/product/product.h"

/// What the products of 8-bit integers share: zero points and scales by row, column or channel.
namespace autopar::runtime {

using Bytes = Types<std::int8_t, std::uint8_t>;

/// Numbers of which there is one, or one for each row, column or channel of a tensor whose elements
/// are counted row-major.
struct Repeated {
  std::int64_t count = 1;
  std::int64_t length = 1;  ///< elements that follow one another and have the same
  std::int64_t period = 0;  ///< as many, one for each element, come `rows` times before the next
  std::int64_t rows = 1;

  AUTOPAR_ELEMENTWISE std::int64_t of(std::int64_t element) const {
    if (count == 1) return 0;
    if (period > 0) return (element / (period * rows) * period + element % period) % count;
    return element / length % count;
  }
};

/// An optional input of one element, of `count`, or of a multiple of `count`.
inline Repeated repeated_input(const KernelRequest& request, std::size_t input, const char* name,
                               std::int64_t count, std::int64_t length) {
  if (!is_given(request.inputs, input)) return {};
  const std::int64_t given = request.inputs[input].elements();
  const bool fits = given == 1 || (count == 0 ? given == 0 : given % count == 0);
  if (!fits)
    fail("node '{}': {} of {} has {} elements for {}", request.node.name, name,
         qualified_op_type(request.node), given, count);
  return {given, length};
}

/// One of 8 bits; 0 where it is left out.
template <typename T>
AUTOPAR_ELEMENTWISE std::int32_t zero_point_at(const T* zero_points, std::int64_t i) {
  return zero_points == nullptr ? 0 : zero_points[i];
}

/// The kernel that `make(A{}, B{})` makes for the types of inputs 0 and 1.
template <typename Make>
std::unique_ptr<Kernel> kernel_for_bytes(const KernelRequest& request, Make make) {
  return kernel_for_types(request, request.inputs.at(0).type, Bytes{}, request.inputs.at(1).type,
                          Bytes{}, make);
}

/// The product of the node's first two inputs.
inline Product byte_product(const KernelRequest& request) {
  const graph::Node plain{request.node.name, "MatMul", "", {}, {}, {}};
  return product_of({plain,
                     {request.inputs.at(0), request.inputs.at(1)},
                     {request.outputs.at(0)},
                     request.device});
}

/// Throws Error for more batch dimensions than strides have.
inline ProductStrides byte_strides(const KernelRequest& request, const Product& product) {
  if (product.batches.size() > ProductStrides::max_batch_dimensions)
    fail("node '{}': {} over {} batch dimensions that do not merge has no kernel",
         request.node.name, request.node.op_type, product.batches.size());
  return ProductStrides(product);
}

/// The convolution of the node's first two inputs, and its sizes.
inline Convolution byte_convolution(const KernelRequest& request) {
  return convolution_of({request.node,
                         {request.inputs.at(0), request.inputs.at(1)},
                         {request.outputs.at(0)},
                         request.device});
}

inline ConvolutionSizes byte_convolution_sizes(const KernelRequest& request) {
  return sizes_of(request, byte_convolution(request), request.inputs.at(0), request.outputs.at(0));
}

}  // namespace autopar::runtime
