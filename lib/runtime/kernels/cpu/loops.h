#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/device.h"
#include "runtime/kernel.h"
#include "runtime/kernels/cpu/lane_sum.h"

/// Operators that are written once for all devices as loops whose rounds can be done in any order.
/// Such an operator is a class that is made of a KernelRequest and has scratch_bytes() and
///   template <typename Loops> void run(const KernelIo&, const Loops&) const,
/// which calls any of these, one after the other; all functions are host_device ones:
/// - loops.each(n, f): f(0) to f(n - 1);
/// - loops.rows(rows, n, f): f(row) for each row, and on what it returns (0) to (n - 1);
/// - loops.check(n, f): Error, or a fault of the device, where an index is out of range, f(i) being
///   an index and its extent;
/// - loops.sums<W>(rows, n, f, finish): finish(row, the sum of what f(row) returns for 0 to n - 1).
namespace autopar::runtime::cpu {

class Loops {
 public:
  Loops(std::string node, int threads) : node_(std::move(node)), threads_(threads) {}

  template <typename Function>
  void check(std::int64_t n, const Function& f) const {
    for (std::int64_t i = 0; i < n; ++i) {
      const auto [index, extent] = f(i);
      if (index < 0 || index >= extent)
        fail("node '{}': index {} is out of range for {} elements", node_, index, extent);
    }
  }

  template <typename Function>
  void each(std::int64_t n, const Function& f) const {
#pragma omp parallel for num_threads(threads_) schedule(static) if (threads_ > 1 && n > 4096)
    for (std::int64_t i = 0; i < n; ++i) f(i);
  }

  template <typename Function>
  void rows(std::int64_t rows, std::int64_t n, const Function& f) const {
#pragma omp parallel for num_threads(threads_) \
    schedule(static) if (threads_ > 1 && rows * n > 16384)
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto of_row = f(row);
      for (std::int64_t i = 0; i < n; ++i) of_row(i);
    }
  }

  template <typename W, typename Function, typename Finish>
  void sums(std::int64_t rows, std::int64_t n, const Function& f, const Finish& finish) const {
#pragma omp parallel for num_threads(threads_) \
    schedule(static) if (threads_ > 1 && rows * n > 16384)
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto of_row = f(row);
      finish(row, lane_sum<W>(n, of_row));
    }
  }

 private:
  std::string node_;
  int threads_;
};

template <typename Operator>
class LoopKernel final : public Kernel {
 public:
  explicit LoopKernel(const KernelRequest& request)
      : operator_(request), loops_(request.node.name, request.device.threads()) {}

  std::int64_t scratch_bytes() const override { return operator_.scratch_bytes(); }
  void run(const KernelIo& io) override { operator_.run(io, loops_); }

 private:
  Operator operator_;
  Loops loops_;
};

template <typename Operator>
std::unique_ptr<Kernel> make_loops(const KernelRequest& request) {
  return std::make_unique<LoopKernel<Operator>>(request);
}

}  // namespace autopar::runtime::cpu
