#pragma once

#include "runtime/device.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/product/product.h"

/// What the products of 8-bit integers share: zero points and scales by row, column or channel.
namespace autopar::runtime {

using Bytes = Types<std::int8_t, std::uint8_t>;

/// Numbers of which there is one, or one for each row, column or channel of a tensor whose elements
/// are counted row-major.
struct Repeated {
  std::int64_t count = 1;
  std::int64_t length = 1;  ///< elements that follow one another and have the same

  AUTOPAR_ELEMENTWISE std::int64_t of(std::int64_t element) const {
    return count == 1 ? 0 : element / length % count;
  }
};

/// An optional input of one element, of `count`, or of a multiple of `count`.
inline Repeated repeated_input(const KernelRequest& request, std::size_t input, const char* name,
                               std::int64_t count, std::int64_t length) {
  if (input >= request.inputs.size() || !request.inputs[input].present()) return {};
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

template <typename T>
const T* optional_input(const KernelIo& io, std::size_t input) {
  return input < io.inputs.size() && io.inputs[input].present() ? io.inputs[input].as<const T>()
                                                                : nullptr;
}

/// The product of the node's first two inputs.
inline Product byte_product(const KernelRequest& request) {
  const graph::Node plain{request.node.name, "MatMul", "", {}, {}, {}};
  return product_of({plain,
                     {request.inputs.at(0), request.inputs.at(1)},
                     {request.outputs.at(0)},
                     request.device});
}

}  // namespace autopar::runtime
