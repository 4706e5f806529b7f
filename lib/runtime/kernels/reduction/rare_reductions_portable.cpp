// ReduceLogSumExp, CumSum and CumProd. An item is a row, or some that lie side by side.

#include <algorithm>
#include <cmath>

#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/elementwise/functions.h"
#include "runtime/kernels/reduction/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

/// log(sum of exp(x)), in double, the largest x taken off first so that nothing overflows.
template <typename T>
struct LogSumExpOfRow {
  const T* all;  ///< the input
  T* out;        ///< [rows]
  ReducedSpace kept;
  ReducedSpace reduced;
  std::int64_t elements;

  std::int64_t item_work() const { return 8 * elements; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t row) const {
    const T* in = all + kept.offset(row);
    double largest = -std::numeric_limits<double>::infinity();
    for (std::int64_t i = 0; i < elements; ++i) {
      const auto x = static_cast<double>(widened(in[reduced.offset(i)]));
      if (x > largest || x != x) largest = x;
    }
    double sum = 0;
    // What is all -inf, or has an infinity, needs no shift and must not become NaN by it.
    const double shift = std::isfinite(largest) ? largest : 0;
    for (std::int64_t i = 0; i < elements; ++i)
      sum += std::exp(static_cast<double>(widened(in[reduced.offset(i)])) - shift);
    out[row] = narrowed<T>(shift + std::log(sum));
  }
};

/// Sums or products of the elements up to each one, or before it, of rows that lie side by side.
template <typename T, typename Operation>
struct CumulativeRows {
  static constexpr bool vectorises = true;
  static constexpr std::int64_t together = on_cpu ? 32 : 1;

  const T* in;  ///< [outer, extent, inner]
  T* out;       ///< as in
  CumSumArguments of;
  Accumulator<T> start;

  std::int64_t items() const { return of.extents.outer * blocks(); }
  std::int64_t item_work() const {
    return of.extents.extent * std::min(of.extents.inner, together);
  }
  AUTOPAR_ELEMENTWISE std::int64_t blocks() const {
    return (of.extents.inner + together - 1) / together;
  }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t item) const {
    const auto& [outer, extent, inner] = of.extents;
    const std::int64_t first = item % blocks() * together;
    const std::int64_t begin = item / blocks() * extent * inner + first;
    const std::int64_t rows = inner - first < together ? inner - first : together;
    Accumulator<T> results[together] = {};
    for (std::int64_t row = 0; row < rows; ++row) results[row] = start;
    for (std::int64_t step = 0; step < extent; ++step) {
      const std::int64_t at = begin + (of.reverse ? extent - 1 - step : step) * inner;
      for (std::int64_t row = 0; row < rows; ++row) {
        const Accumulator<T> next = Operation{}(results[row], accumulated(in[at + row]));
        out[at + row] = narrowed<T>(of.exclusive ? results[row] : next);
        results[row] = next;
      }
    }
  }
};

template <typename Operation>
std::unique_ptr<Kernel> make_cumulative(const KernelRequest& request, int start) {
  const CumSumArguments of = cumsum_arguments(request);
  return kernel_for_type(
      request, stored_type(request.inputs[0].type), AllNumbers{}, [&]<typename T>(T) {
        return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
          const CumulativeRows<T, Operation> rows{io.inputs[0].as<const T>(), io.outputs[0].as<T>(),
                                                  of, static_cast<Accumulator<T>>(start)};
          loops.each(rows.items(), rows);
        });
      });
}

std::unique_ptr<Kernel> make_reduce_log_sum_exp(const KernelRequest& request) {
  if constexpr (!on_cpu)
    if (auto kernel = cuda::make_log_sum_exp_by_blocks(request)) return kernel;
  const ReducedDimensions of(request);
  const ReducedSpace kept(request, of.kept);
  const ReducedSpace reduced(request, of.reduced);
  const std::int64_t rows = of.rows();
  const std::int64_t elements = of.row_elements();
  return kernel_for_type(request, request.inputs[0].type, AllNumbers{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      loops.each(rows, LogSumExpOfRow<T>{io.inputs[0].as<const T>(), io.outputs[0].as<T>(), kept,
                                         reduced, elements});
    });
  });
}

std::unique_ptr<Kernel> make_cumsum(const KernelRequest& request) {
  if constexpr (!on_cpu)
    if (auto kernel = cuda::make_cumsum_by_blocks(request)) return kernel;
  return make_cumulative<functions::Add>(request, 0);
}

std::unique_ptr<Kernel> make_cumprod(const KernelRequest& request) {
  if constexpr (!on_cpu)
    if (auto kernel = cuda::make_cumprod_by_blocks(request)) return kernel;
  return make_cumulative<functions::Mul>(request, 1);
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
