#pragma once

#include <concepts>
#include <cstdint>
#include <memory>

#include "runtime/kernel.h"
#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/common/host_device.h"
#include "runtime/kernels/common/kernel_arguments.h"

/// Operators whose work is many *items*, each independent of the others: rows, elements, boxes.
/// What is done for one item is written once for all devices, as a *body*: plain data that a device
/// may copy, made from the node. Each device has an ItemsDevice that makes a kernel of a body
/// (cpu/items_kernel.h, cuda/items_kernel.h).
namespace autopar::runtime {

template <typename B>
concept ItemsBody = std::copyable<B> && requires(B body, const KernelIo& io, std::int64_t item) {
  /// Where the tensors of a run lie; called on the host.
  body.bind(io);
  { body.items() } -> std::convertible_to<std::int64_t>;
  /// Elements that an item touches, about: whether threads are worth waking.
  { body.item_work() } -> std::convertible_to<std::int64_t>;
  body(item);
};

/// The rows along an axis, as devices walk them: row after row, `inner` apart within one.
struct AxisRows {
  std::int64_t count = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;

  explicit AxisRows(const AxisExtents& extents)
      : count(extents.rows()), extent(extents.extent), inner(extents.inner) {}

  /// Of a row's first element in a tensor of `elements` along the axis.
  AUTOPAR_ELEMENTWISE std::int64_t offset(std::int64_t row, std::int64_t elements) const {
    return row / inner * elements * inner + row % inner;
  }
  AUTOPAR_ELEMENTWISE std::int64_t offset(std::int64_t row) const { return offset(row, extent); }
};

/// Scratch memory that a body's run takes; 0 where it says nothing.
template <typename Body>
std::int64_t scratch_bytes_of(const Body& body) {
  if constexpr (requires { body.scratch_bytes(); })
    return body.scratch_bytes();
  else
    return 0;
}

/// The kernel that `make(T{})` makes for the type of the list that `type` names; Error where it is
/// not there.
template <typename List, typename Make>
std::unique_ptr<Kernel> kernel_for_type(const KernelRequest& request, DataType type, List list,
                                        Make make) {
  std::unique_ptr<Kernel> kernel;
  if (!visit_type(type, list, [&](auto element) { kernel = make(element); }))
    fail_type(request, type);
  return kernel;
}

}  // namespace autopar::runtime
