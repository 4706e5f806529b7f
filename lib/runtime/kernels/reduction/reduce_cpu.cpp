// Reductions over several dimensions, and CumSum. Floats of all widths add in double.

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "runtime/device.h"
#include "runtime/kernels/cpu/block_function.h"
#include "runtime/kernels/reduction/cumsum.h"
#include "runtime/kernels/reduction/kernels.h"
#include "runtime/kernels/reduction/reduction.h"

namespace autopar::runtime::cpu {

namespace {

/// The kernel made by `make(T{})` for the input's type.
template <typename Make>
std::unique_ptr<Kernel> kernel_for_type(const KernelRequest& request, Make make) {
  std::unique_ptr<Kernel> kernel;
  const DataType type = request.inputs[0].type;
  if (!visit_type(stored_type(type), Reducible{}, [&](auto element) { kernel = make(element); }))
    fail_type(request, type);
  return kernel;
}

/// The kept and the reduced dimensions, each as offsets into the input.
class ReduceBase : public Kernel {
 public:
  ReduceBase(const KernelRequest& request, const ReducedDimensions& dimensions)
      : threads_(request.device.threads()) {
    kept_ = offsets(dimensions.kept_extents, dimensions.kept_strides);
    elements_ = dimensions.row_elements();
    const Shape& extents = dimensions.reduced_extents;
    neighbours_ =
        extents.empty() || (extents.size() == 1 && dimensions.reduced_strides.back() == 1);
    if (!neighbours_) reduced_ = offsets(extents, dimensions.reduced_strides);
  }

 protected:
  std::vector<std::int64_t> kept_;
  std::int64_t elements_ = 0;          ///< that one result is made of
  bool neighbours_ = false;            ///< they lie together
  std::vector<std::int64_t> reduced_;  ///< where they lie, if not
  int threads_;

 private:
  /// In row-major order.
  static std::vector<std::int64_t> offsets(const Shape& extents,
                                           const std::vector<std::int64_t>& strides) {
    std::vector<std::int64_t> result = {0};
    for (std::size_t d = 0; d < extents.size(); ++d) {
      std::vector<std::int64_t> next;
      for (const std::int64_t base : result) {
        for (std::int64_t i = 0; i < extents[d]; ++i) next.push_back(base + i * strides[d]);
      }
      result = std::move(next);
    }
    return result;
  }
};

/// In lanes, so that elements need not wait for one another.
template <typename T, typename Operation>
[[gnu::always_inline]] inline Accumulator<T> reduce_lanes(const T* from, std::int64_t n) {
  using Wide = Accumulator<T>;
  constexpr int lanes = 16;
  Wide parts[lanes];
  for (Wide& part : parts) part = Operation::template start<Wide>();
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int lane = 0; lane < lanes; ++lane)
      parts[lane] = Operation::take(parts[lane], accumulated(from[i + lane]));
  Wide result = parts[0];
  for (int lane = 1; lane < lanes; ++lane) result = Operation::join(result, parts[lane]);
  for (; i < n; ++i) result = Operation::take(result, accumulated(from[i]));
  return result;
}

/// Reduces elements that lie together.
template <typename T>
using RowReduction = Accumulator<T> (*)(const T* from, std::int64_t n);

template <typename T, typename Operation>
Accumulator<T> reduce_row(const T* from, std::int64_t n) {
  return reduce_lanes<T, Operation>(from, n);
}
#if defined(__x86_64__)
template <typename T, typename Operation>
[[gnu::target("avx2")]] Accumulator<T> reduce_row_avx2(const T* from, std::int64_t n) {
  return reduce_lanes<T, Operation>(from, n);
}
template <typename T, typename Operation>
[[gnu::target("avx512f,avx512dq,avx2")]] Accumulator<T> reduce_row_avx512(const T* from,
                                                                          std::int64_t n) {
  return reduce_lanes<T, Operation>(from, n);
}
#endif

template <typename T, typename Operation>
RowReduction<T> row_reduction() {
#if defined(__x86_64__)
  if constexpr (std::is_floating_point_v<T>) {
    if (simd_level() == SimdLevel::avx512) return reduce_row_avx512<T, Operation>;
    if (simd_level() == SimdLevel::avx2) return reduce_row_avx2<T, Operation>;
  }
#endif
  return reduce_row<T, Operation>;
}

/// Fewer elements than this are not worth waking other threads.
constexpr std::int64_t worth_a_thread = 16384;

template <typename T, typename Operation>
class Reduce final : public ReduceBase {
 public:
  using ReduceBase::ReduceBase;

  void run(const KernelIo& io) override {
    const T* in = io.inputs[0].as<const T>();
    T* out = io.outputs[0].as<T>();
    const auto rows = static_cast<std::int64_t>(kept_.size());
    const bool is_large = rows * elements_ > worth_a_thread;
    if (neighbours_ && is_large && rows < threads_) {
      for (std::int64_t row = 0; row < rows; ++row)
        out[row] = finished(reduce_in_parts(in + kept_[static_cast<std::size_t>(row)]));
      return;
    }
#pragma omp parallel for num_threads(threads_) if (is_large)
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* from = in + kept_[static_cast<std::size_t>(row)];
      out[row] = finished(neighbours_ ? reduce_row_(from, elements_) : reduce_offsets(from));
    }
  }

 private:
  using Wide = Accumulator<T>;

  T finished(Wide result) const { return narrowed<T>(Operation::finish(result, elements_)); }

  Wide reduce_offsets(const T* from) const {
    auto result = Operation::template start<Wide>();
    for (const std::int64_t offset : reduced_)
      result = Operation::take(result, accumulated(from[offset]));
    return result;
  }

  /// Reduces by all threads.
  Wide reduce_in_parts(const T* from) const {
    constexpr int most_parts = 64;
    const int parts = std::min(threads_, most_parts);
    Wide results[most_parts];
#pragma omp parallel for num_threads(threads_)
    for (int part = 0; part < parts; ++part) {
      const std::int64_t begin = elements_ * part / parts;
      results[part] = reduce_row_(from + begin, elements_ * (part + 1) / parts - begin);
    }
    Wide result = results[0];
    for (int part = 1; part < parts; ++part) result = Operation::join(result, results[part]);
    return result;
  }

  RowReduction<T> reduce_row_ = row_reduction<T, Operation>();
};

template <typename Operation>
std::unique_ptr<Kernel> make(const KernelRequest& request, const ReducedDimensions& dimensions) {
  return kernel_for_type(request, [&]<typename T>(T) {
    return std::make_unique<Reduce<T, Operation>>(request, dimensions);
  });
}

template <typename Operation>
std::unique_ptr<Kernel> make(const KernelRequest& request) {
  return make<Operation>(request, ReducedDimensions(request));
}

template <typename T>
class CumSum final : public Kernel {
 public:
  explicit CumSum(const KernelRequest& request) : arguments_(cumsum_arguments(request)) {}

  void run(const KernelIo& io) override {
    const T* in = io.inputs[0].as<const T>();
    T* out = io.outputs[0].as<T>();
    const auto& [exclusive, reverse, extents] = arguments_;
    for (std::int64_t row = 0; row < extents.rows(); ++row) {
      const std::int64_t begin = extents.row_offset(row);
      auto sum = accumulated(T{});
      for (std::int64_t step = 0; step < extents.extent; ++step) {
        const std::int64_t at =
            begin + (reverse ? extents.extent - 1 - step : step) * extents.inner;
        const auto x = accumulated(in[at]);
        out[at] = narrowed<T>(exclusive ? sum : sum + x);
        sum += x;
      }
    }
  }

 private:
  CumSumArguments arguments_;
};

}  // namespace

std::unique_ptr<Kernel> make_reduce_sum(const KernelRequest& request) {
  return make<reductions::Sum>(request);
}
std::unique_ptr<Kernel> make_reduce_mean(const KernelRequest& request) {
  return make<reductions::Mean>(request);
}
std::unique_ptr<Kernel> make_reduce_prod(const KernelRequest& request) {
  return make<reductions::Product>(request);
}
std::unique_ptr<Kernel> make_reduce_max(const KernelRequest& request) {
  return make<reductions::Max>(request);
}
std::unique_ptr<Kernel> make_reduce_min(const KernelRequest& request) {
  return make<reductions::Min>(request);
}
std::unique_ptr<Kernel> make_reduce_sum_square(const KernelRequest& request) {
  return make<reductions::SumSquare>(request);
}
std::unique_ptr<Kernel> make_reduce_log_sum(const KernelRequest& request) {
  return make<reductions::LogSum>(request);
}
std::unique_ptr<Kernel> make_reduce_l1(const KernelRequest& request) {
  return make<reductions::L1>(request);
}
std::unique_ptr<Kernel> make_reduce_l2(const KernelRequest& request) {
  return make<reductions::L2>(request);
}
std::unique_ptr<Kernel> make_global_average_pool(const KernelRequest& request) {
  return make<reductions::Mean>(request, ReducedDimensions::of_images(request));
}
std::unique_ptr<Kernel> make_global_max_pool(const KernelRequest& request) {
  return make<reductions::Max>(request, ReducedDimensions::of_images(request));
}

std::unique_ptr<Kernel> make_cumsum(const KernelRequest& request) {
  return kernel_for_type(request,
                         [&]<typename T>(T) { return std::make_unique<CumSum<T>>(request); });
}

}  // namespace autopar::runtime::cpu
