#pragma once

#include <concepts>
#include <cstdint>
#include <memory>

#include "runtime/kernel.h"
#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/common/for_device.h"
#include "runtime/kernels/common/host_device.h"
#include "runtime/kernels/common/kernel_arguments.h"

/// Operators that are written once for all devices, as loops whose rounds can be done in any order.
/// make_loops<Operator>(request) makes a kernel of a class that is made of a KernelRequest and has
///   template <typename Loops> void run(const KernelIo&, const Loops&) const,
/// which calls any of these, one after the other; all functions are host_device ones:
/// - loops.each(n, f): f(0) to f(n - 1);
/// - loops.rows(rows, n, f): f(row) for each row, and on what it returns (0) to (n - 1);
/// - loops.check(n, f): Error, or a fault of the device, where an index is out of range, f(i) being
///   a LookedUp;
/// - loops.sums<W>(rows, n, f, finish): finish(row, the sum of what f(row) returns for 0 to n - 1).
/// An operator that is one loop may be a LoopBody instead. scratch_bytes() says how much scratch
/// memory a run takes, if any.
namespace autopar::runtime {

/// One loop, its rounds *items*: rows, elements, boxes. Plain data that a device may copy. One with
/// `static constexpr bool vectorises = true` is compiled for several instruction sets.
template <typename B>
concept LoopBody = std::copyable<B> && requires(B body, const KernelIo& io, std::int64_t item) {
  /// Takes the addresses of a run's tensors; called on the host.
  body.bind(io);
  { body.items() } -> std::convertible_to<std::int64_t>;
  /// Elements that an item touches, about: whether other threads are worth waking.
  { body.item_work() } -> std::convertible_to<std::int64_t>;
  body(item);
};

/// An index into a flat tensor, and how many elements that has.
struct LookedUp {
  std::int64_t index;
  std::int64_t extent;
};

template <typename Operator>
std::int64_t scratch_bytes_of(const Operator& of) {
  if constexpr (requires { of.scratch_bytes(); })
    return of.scratch_bytes();
  else
    return 0;
}

template <typename Operator, typename Loops>
void run_operator(const Operator& of, const KernelIo& io, const Loops& loops) {
  if constexpr (LoopBody<Operator>) {
    if (of.items() == 0) return;
    Operator bound = of;
    bound.bind(io);
    loops.each(bound.items(), bound);
  } else {
    of.run(io, loops);
  }
}

/// The rows along an axis, as devices walk them: row after row, `inner` apart within one.
struct AxisRows {
  std::int64_t count = 1;
  std::int64_t extent = 1;
  std::int64_t inner = 1;

  explicit AxisRows(const AxisExtents& extents)
      : count(extents.rows()), extent(extents.extent), inner(extents.inner) {}

  /// The first element of a row in a tensor of `elements` along the axis.
  AUTOPAR_ELEMENTWISE std::int64_t offset(std::int64_t row, std::int64_t elements) const {
    return row / inner * elements * inner + row % inner;
  }
  AUTOPAR_ELEMENTWISE std::int64_t offset(std::int64_t row) const { return offset(row, extent); }
};

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

#if defined(AUTOPAR_FOR_CUDA)
#include "runtime/kernels/cuda/loops.h"
#else
#include "runtime/kernels/cpu/loops.h"
#endif
