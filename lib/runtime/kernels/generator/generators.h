#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "runtime/kernels/common/kernel_arguments.h"

/// Tensors made from shapes and a few numbers: what is known when the kernel is made is the same
/// for all devices; of the others, what their nodes say.
namespace autopar::runtime {

std::unique_ptr<Kernel> make_constant(const KernelRequest& request);
std::unique_ptr<Kernel> make_constant_of_shape(const KernelRequest& request);
std::unique_ptr<Kernel> make_shape(const KernelRequest& request);
std::unique_ptr<Kernel> make_size(const KernelRequest& request);

/// The diagonal of EyeLike that is 1: columns right of the main one. Its output is a matrix.
std::int64_t eye_diagonal(const KernelRequest& request);
/// The element 1 of a type, as it lies in memory.
std::array<std::byte, 8> one_of(DataType type);

/// Whether Trilu keeps the upper triangle, of at least two dimensions.
bool keeps_upper_triangle(const KernelRequest& request);

/// The output of OneHot around its new axis; indices are of a numeric type.
AxisExtents one_hot_extents(const KernelRequest& request);

}  // namespace autopar::runtime
