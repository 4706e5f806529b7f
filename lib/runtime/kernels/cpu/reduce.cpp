// Reductions over several dimensions, and CumSum. Floats of all widths add in double.

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/error.h"
#include "runtime/device.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cumsum.h"
#include "runtime/kernels/reduction.h"

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
    reduced_ = offsets(dimensions.reduced_extents, dimensions.reduced_strides);
    neighbours_ =
        !reduced_.empty() && reduced_.back() == static_cast<std::int64_t>(reduced_.size()) - 1;
  }

 protected:
  std::vector<std::int64_t> kept_;
  std::vector<std::int64_t> reduced_;
  bool neighbours_ = false;  ///< what is reduced lies together
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
Accumulator<T> reduce_neighbours(const T* from, std::int64_t n) {
  using Wide = Accumulator<T>;
  constexpr int lanes = 8;
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

template <typename T, typename Operation>
class Reduce final : public ReduceBase {
 public:
  using ReduceBase::ReduceBase;

  void run(const KernelIo& io) override {
    const T* in = io.inputs[0].as<const T>();
    T* out = io.outputs[0].as<T>();
    const auto rows = static_cast<std::int64_t>(kept_.size());
    const auto n = static_cast<std::int64_t>(reduced_.size());
    using Wide = Accumulator<T>;
    const bool is_large = rows * n > 16384;
#pragma omp parallel for num_threads(threads_) if (is_large)
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* from = in + kept_[static_cast<std::size_t>(row)];
      auto result = Operation::template start<Wide>();
      if (neighbours_) {
        result = reduce_neighbours<T, Operation>(from, n);
      } else {
        for (const std::int64_t offset : reduced_) {
          result = Operation::take(result, accumulated(from[offset]));
        }
      }
      out[row] = narrowed<T>(Operation::finish(result, n));
    }
  }
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
