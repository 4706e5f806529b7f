#pragma once

#include <concepts>

#include "runtime/kernels/common/for_device.h"
#include "runtime/kernels/common/host_device.h"
#include "runtime/kernels/common/kernel_arguments.h"

/// Operators that are written once for all devices, as loops whose rounds can be done in any order.
/// make_loops(request, run, scratch_bytes) makes a kernel of a function
///   run(const KernelIo&, const Loops&),
/// which calls any of these, one after the other, on plain data with an operator() that all devices
/// have:
/// - loops.each(n, f): f(0) to f(n - 1);
/// - loops.rows(rows, n, f): f(row) for each row, and on what it returns (0) to (n - 1);
/// - loops.check(n, f): Error, or a fault of the device, where an index is out of range, f(i) being
///   a LookedUp;
/// - loops.sums<W>(rows, n, f, finish): finish(row, the sum of what f(row) returns for 0 to n - 1).
/// An object with `std::int64_t item_work()` tells about how many elements a round touches: whether
/// other threads are worth waking. One with `static constexpr bool vectorises = true` is compiled
/// for several instruction sets.
/// An operator that is one loop may be a LoopBody instead, which is made of the request, and has
/// scratch_bytes() if a run takes scratch memory.
namespace autopar::runtime {

/// One loop, its rounds *items*: rows, elements, boxes. Plain data that a device may copy.
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

}  // namespace autopar::runtime

#if defined(AUTOPAR_FOR_CUDA)
#include "runtime/kernels/cuda/loops.h"
#else
#include "runtime/kernels/cpu/loops.h"
#endif

namespace autopar::runtime::AUTOPAR_DEVICE {

template <typename Operator>
class LoopKernel final : public Kernel {
 public:
  LoopKernel(const KernelRequest& request, Operator of, std::int64_t scratch_bytes)
      : operator_(std::move(of)), scratch_bytes_(scratch_bytes), loops_(request) {}

  std::int64_t scratch_bytes() const override { return scratch_bytes_; }

  void run(const KernelIo& io) override {
    if constexpr (LoopBody<Operator>) {
      if (operator_.items() == 0) return;
      Operator bound = operator_;
      bound.bind(io);
      loops_.on(io).each(bound.items(), bound);
    } else {
      operator_(io, loops_.on(io));
    }
  }

 private:
  Operator operator_;
  std::int64_t scratch_bytes_;
  Loops loops_;
};

template <typename Run>
std::unique_ptr<Kernel> make_loops(const KernelRequest& request, Run run,
                                   std::int64_t scratch_bytes = 0) {
  return std::make_unique<LoopKernel<Run>>(request, std::move(run), scratch_bytes);
}

template <typename Operator>
std::unique_ptr<Kernel> make_loops(const KernelRequest& request) {
  Operator of(request);
  std::int64_t scratch_bytes = 0;
  if constexpr (requires { of.scratch_bytes(); }) scratch_bytes = of.scratch_bytes();
  return make_loops(request, std::move(of), scratch_bytes);
}

/// make_loops<Operator<T>>() for the type of the list that `type` names; Error where it is not
/// there.
template <template <typename> typename Operator, typename List>
std::unique_ptr<Kernel> loops_for_type(const KernelRequest& request, DataType type, List list) {
  return kernel_for_type(request, type, list,
                         [&]<typename T>(T) { return make_loops<Operator<T>>(request); });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
