#pragma once

#include <algorithm>
#include <type_traits>

#include "base/error.h"
#include "runtime/device.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/lane_sum.h"
#include "runtime/kernels/cpu/simd.h"

/// The loops of kernels/common/loops.h, shared by threads.
namespace autopar::runtime::cpu {

namespace detail {

template <typename Function>
struct LoopRange {
  [[gnu::always_inline]] static inline void run(const Function& function, std::int64_t begin,
                                                std::int64_t end) {
    const Function f = function;  // bytes that it writes could else be its own
    for (std::int64_t i = begin; i < end; ++i) f(i);
  }
};

template <typename Function>
SimdFunction<const Function&, std::int64_t, std::int64_t> loop_range() {
  if constexpr (requires { requires Function::vectorises; })
    return simd_function<LoopRange<Function>, const Function&, std::int64_t, std::int64_t>(
        simd_level());
  else
    return LoopRange<Function>::run;
}

/// Elements that a round touches, about.
template <typename Function>
std::int64_t round_work(const Function& f) {
  if constexpr (requires { f.item_work(); })
    return f.item_work();
  else
    return 4;
}

}  // namespace detail

class Loops {
 public:
  explicit Loops(const KernelRequest& request)
      : node_(request.node.name), threads_(request.device.threads()) {}
  const Loops& on(const KernelIo&) const { return *this; }

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
    // Fewer elements than this are not worth waking a thread.
    constexpr std::int64_t least_work = 8 * 1024;
    const auto run = detail::loop_range<Function>();
    const std::int64_t most_parts =
        std::max<std::int64_t>(1, n * detail::round_work(f) / least_work);
    const std::int64_t parts = std::min<std::int64_t>({most_parts, n, threads_});
    for_in_threads(threads_, parts,
                   [&](std::int64_t part) { run(f, n * part / parts, n * (part + 1) / parts); });
  }

  template <typename Function>
  void rows(std::int64_t rows, std::int64_t n, const Function& f) const {
    for_in_threads(rows * n > 16384 ? threads_ : 1, rows, [&](std::int64_t row) {
      const auto of_row = f(row);
      detail::loop_range<std::remove_const_t<decltype(of_row)>>()(of_row, 0, n);
    });
  }

  template <typename W, typename Function, typename Finish>
  void sums(std::int64_t rows, std::int64_t n, const Function& f, const Finish& finish) const {
    for_in_threads(rows * n > 16384 ? threads_ : 1, rows, [&](std::int64_t row) {
      const auto of_row = f(row);
      finish(row, lane_sum<W>(n, of_row));
    });
  }

 private:
  std::string node_;
  int threads_;
};

}  // namespace autopar::runtime::cpu
