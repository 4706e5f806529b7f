// Reductions and scans that are rare: ReduceLogSumExp and CumProd. An item is a row.

#include <algorithm>
#include <cmath>

#include "runtime/device.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/elementwise/functions.h"
#include "runtime/kernels/reduction/cumsum.h"
#include "runtime/kernels/reduction/kernels.h"
#include "runtime/kernels/reduction/reduction.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

/// Extents and strides of some merged dimensions of the input.
class ReducedSpace {
 public:
  static constexpr int max_dimensions = 6;

  ReducedSpace(const KernelRequest& request, const Shape& extents,
               const std::vector<std::int64_t>& strides)
      : dimensions_(static_cast<int>(extents.size())), count_(graph::num_elements(extents)) {
    if (extents.size() > max_dimensions)
      fail("node '{}': {} over dimensions that alternate {} times has no {} kernel",
           request.node.name, request.node.op_type, extents.size(),
           request.device.kernels().device);
    std::ranges::copy(extents, extents_);
    std::ranges::copy(strides, strides_);
  }

  AUTOPAR_ELEMENTWISE std::int64_t count() const { return count_; }
  AUTOPAR_ELEMENTWISE std::int64_t offset(std::int64_t index) const {
    std::int64_t result = 0;
    for (int d = dimensions_ - 1; d >= 0; --d) {
      result += index % extents_[d] * strides_[d];
      index /= extents_[d];
    }
    return result;
  }

 private:
  int dimensions_;
  std::int64_t count_;
  std::int64_t extents_[max_dimensions] = {};
  std::int64_t strides_[max_dimensions] = {};
};

/// log(sum of exp(x)), in double, the largest x taken off first so that nothing overflows.
template <typename T>
class LogSumExpItems {
 public:
  explicit LogSumExpItems(const KernelRequest& request)
      : LogSumExpItems(request, ReducedDimensions(request)) {}

  void bind(const KernelIo& io) {
    in_ = io.inputs[0].as<const T>();
    out_ = io.outputs[0].as<T>();
  }
  std::int64_t items() const { return kept_.count(); }
  std::int64_t item_work() const { return 8 * reduced_.count(); }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t row) const {
    const T* in = in_ + kept_.offset(row);
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < reduced_.count(); ++i) {
      const auto x = static_cast<double>(widened(in[reduced_.offset(i)]));
      if (x > largest || x != x) largest = x;
    }
    double sum = 0;
    // What is all -inf, or has an infinity, needs no shift and must not become NaN by it.
    const double shift = std::isfinite(largest) ? largest : 0;
    for (std::int64_t i = 0; i < reduced_.count(); ++i)
      sum += std::exp(static_cast<double>(widened(in[reduced_.offset(i)])) - shift);
    out_[row] = narrowed<T>(shift + std::log(sum));
  }

 private:
  LogSumExpItems(const KernelRequest& request, const ReducedDimensions& dimensions)
      : kept_(request, dimensions.kept_extents, dimensions.kept_strides),
        reduced_(request, dimensions.reduced_extents, dimensions.reduced_strides) {}

  ReducedSpace kept_;
  ReducedSpace reduced_;
  const T* in_ = nullptr;
  T* out_ = nullptr;
};

/// Products of the elements up to each one, or before it.
template <typename T>
class CumProdItems {
 public:
  explicit CumProdItems(const KernelRequest& request) : CumProdItems(cumsum_arguments(request)) {}

  void bind(const KernelIo& io) {
    in_ = io.inputs[0].as<const T>();
    out_ = io.outputs[0].as<T>();
  }
  std::int64_t items() const { return rows_.count; }
  std::int64_t item_work() const { return rows_.extent; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t row) const {
    const std::int64_t begin = rows_.offset(row);
    Accumulator<T> product = 1;
    for (std::int64_t step = 0; step < rows_.extent; ++step) {
      const std::int64_t at = begin + (reverse_ ? rows_.extent - 1 - step : step) * rows_.inner;
      const Accumulator<T> next = functions::Mul{}(product, accumulated(in_[at]));
      out_[at] = narrowed<T>(exclusive_ ? product : next);
      product = next;
    }
  }

 private:
  explicit CumProdItems(const CumSumArguments& arguments)
      : rows_(arguments.extents), exclusive_(arguments.exclusive), reverse_(arguments.reverse) {}

  AxisRows rows_;
  bool exclusive_;
  bool reverse_;
  const T* in_ = nullptr;
  T* out_ = nullptr;
};

std::unique_ptr<Kernel> make_reduce_log_sum_exp(const KernelRequest& request) {
  return kernel_for_type(request, request.inputs.at(0).type, Joined<Numbers, Halves>{},
                         [&]<typename T>(T) { return make_loops<LogSumExpItems<T>>(request); });
}

std::unique_ptr<Kernel> make_cumprod(const KernelRequest& request) {
  return kernel_for_type(request, request.inputs.at(0).type, Joined<Numbers, Halves>{},
                         [&]<typename T>(T) { return make_loops<CumProdItems<T>>(request); });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
