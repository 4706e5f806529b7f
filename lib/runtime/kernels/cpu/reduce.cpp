// Reductions over several dimensions, and CumSum. Floats of all widths add in double.

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/error.h"
#include "runtime/device.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/element_types.h"
#include "runtime/kernels/kernel_arguments.h"

namespace autopar::runtime::cpu {

namespace {

/// What elements are added up in.
template <typename T>
auto load(T value) {
  using Value = decltype(widened(value));
  using Wide = std::conditional_t<std::is_floating_point_v<Value>, double, std::int64_t>;
  return static_cast<Wide>(widened(value));
}

using Reducible =
    Joined<Floats, Halves, SignedIntegers, Types<std::uint8_t, std::uint16_t, std::uint32_t>>;

/// The kernel made by `make(T{})` for the input's type.
template <typename Make>
std::unique_ptr<Kernel> kernel_for_type(const KernelRequest& request, Make make) {
  std::unique_ptr<Kernel> kernel;
  const DataType type = request.inputs[0].type;
  if (!visit_type(stored_type(type), Reducible{}, [&](auto element) { kernel = make(element); }))
    fail_type(request, type);
  return kernel;
}

/// One reduction: what it starts from, how it takes an element in, and what it makes of the end.
struct Sum {
  template <typename W>
  static W start() {
    return 0;
  }
  template <typename W>
  static W take(W sum, W x) {
    return sum + x;
  }
  template <typename W>
  static W finish(W sum, std::int64_t) {
    return sum;
  }
};
struct Mean : Sum {
  template <typename W>
  static W finish(W sum, std::int64_t n) {
    if constexpr (std::is_integral_v<W>) {
      return n == 0 ? 0 : sum / n;
    } else {
      return sum / static_cast<W>(n);
    }
  }
};
struct Product : Sum {
  template <typename W>
  static W start() {
    return 1;
  }
  template <typename W>
  static W take(W product, W x) {
    return product * x;
  }
};
struct Max : Sum {
  template <typename W>
  static W start() {
    return std::numeric_limits<W>::has_infinity ? -std::numeric_limits<W>::infinity()
                                                : std::numeric_limits<W>::lowest();
  }
  template <typename W>
  static W take(W largest, W x) {
    return (x > largest || x != x) ? x : largest;
  }
};
struct Min : Sum {
  template <typename W>
  static W start() {
    return std::numeric_limits<W>::has_infinity ? std::numeric_limits<W>::infinity()
                                                : std::numeric_limits<W>::max();
  }
  template <typename W>
  static W take(W least, W x) {
    return (x < least || x != x) ? x : least;
  }
};
struct SumSquare : Sum {
  template <typename W>
  static W take(W sum, W x) {
    return sum + x * x;
  }
};
struct L1 : Sum {
  template <typename W>
  static W take(W sum, W x) {
    return sum + (x < 0 ? -x : x);
  }
};
struct L2 : SumSquare {
  template <typename W>
  static W finish(W sum, std::int64_t) {
    return static_cast<W>(std::sqrt(static_cast<double>(sum)));
  }
};

/// The kept and the reduced dimensions, each as offsets into the input.
class ReduceBase : public Kernel {
 public:
  explicit ReduceBase(const KernelRequest& request) : threads_(request.device.threads()) {
    const Shape& shape = request.inputs[0].shape;
    std::vector<bool> reduced(shape.size(), false);
    std::vector<std::int64_t> axes;
    if (request.inputs.size() > 1 && request.inputs[1].present()) {
      axes = constant_integers(request, 1, "axes");
    }
    for (const std::int64_t axis : axes) reduced[checked_axis(request, axis, shape.size())] = true;
    const bool noop = request.node.int_attribute("noop_with_empty_axes", 0) != 0;
    if (axes.empty() && !noop) reduced.assign(shape.size(), true);
    std::int64_t stride = 1;
    Shape kept_extents;
    Shape kept_strides;
    Shape reduced_extents;
    Shape reduced_strides;
    for (std::size_t d = shape.size(); d-- > 0;) {
      (reduced[d] ? reduced_extents : kept_extents).push_back(shape[d]);
      (reduced[d] ? reduced_strides : kept_strides).push_back(stride);
      stride *= shape[d];
    }
    kept_ = offsets(kept_extents, kept_strides);
    reduced_ = offsets(reduced_extents, reduced_strides);
    neighbours_ =
        !reduced_.empty() && reduced_.back() == static_cast<std::int64_t>(reduced_.size()) - 1;
  }

 protected:
  std::vector<std::int64_t> kept_;
  std::vector<std::int64_t> reduced_;
  bool neighbours_ = false;  ///< what is reduced lies together
  int threads_;

 private:
  /// Row-major offsets of a space whose last dimension comes first.
  static std::vector<std::int64_t> offsets(const Shape& extents, const Shape& strides) {
    std::vector<std::int64_t> result = {0};
    for (std::size_t d = extents.size(); d-- > 0;) {
      std::vector<std::int64_t> next;
      for (const std::int64_t base : result) {
        for (std::int64_t i = 0; i < extents[d]; ++i) next.push_back(base + i * strides[d]);
      }
      result = std::move(next);
    }
    return result;
  }
};

template <typename T, typename Operation>
class Reduce final : public ReduceBase {
 public:
  using ReduceBase::ReduceBase;

  void run(const KernelIo& io) override {
    const T* in = io.inputs[0].as<const T>();
    T* out = io.outputs[0].as<T>();
    const auto rows = static_cast<std::int64_t>(kept_.size());
    const auto n = static_cast<std::int64_t>(reduced_.size());
    using Wide = decltype(load(T{}));
    const bool is_large = rows * n > 16384;
#pragma omp parallel for num_threads(threads_) if (is_large)
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* from = in + kept_[static_cast<std::size_t>(row)];
      auto result = Operation::template start<Wide>();
      if (neighbours_) {
        for (std::int64_t i = 0; i < n; ++i) result = Operation::take(result, Wide{load(from[i])});
      } else {
        for (const std::int64_t offset : reduced_) {
          result = Operation::take(result, Wide{load(from[offset])});
        }
      }
      out[row] = narrowed<T>(Operation::finish(result, n));
    }
  }
};

template <typename Operation>
std::unique_ptr<Kernel> make(const KernelRequest& request) {
  return kernel_for_type(
      request, [&]<typename T>(T) { return std::make_unique<Reduce<T, Operation>>(request); });
}

template <typename T>
class CumSum final : public Kernel {
 public:
  explicit CumSum(const KernelRequest& request)
      : exclusive_(request.node.int_attribute("exclusive", 0) != 0),
        reverse_(request.node.int_attribute("reverse", 0) != 0) {
    const Shape& shape = request.inputs[0].shape;
    const auto axes = constant_integers(request, 1, "axis");
    if (axes.size() != 1) fail("node '{}': CumSum has one axis", request.node.name);
    rows_ = extents_around(shape, checked_axis(request, axes.front(), shape.size()));
  }

  void run(const KernelIo& io) override {
    const T* in = io.inputs[0].as<const T>();
    T* out = io.outputs[0].as<T>();
    for (std::int64_t row = 0; row < rows_.rows(); ++row) {
      const std::int64_t begin = rows_.row_offset(row);
      auto sum = load(T{});
      for (std::int64_t step = 0; step < rows_.extent; ++step) {
        const std::int64_t at = begin + (reverse_ ? rows_.extent - 1 - step : step) * rows_.inner;
        const auto x = load(in[at]);
        out[at] = narrowed<T>(exclusive_ ? sum : sum + x);
        sum += x;
      }
    }
  }

 private:
  bool exclusive_;
  bool reverse_;
  AxisExtents rows_;
};

}  // namespace

std::unique_ptr<Kernel> make_reduce_sum(const KernelRequest& request) { return make<Sum>(request); }
std::unique_ptr<Kernel> make_reduce_mean(const KernelRequest& request) {
  return make<Mean>(request);
}
std::unique_ptr<Kernel> make_reduce_prod(const KernelRequest& request) {
  return make<Product>(request);
}
std::unique_ptr<Kernel> make_reduce_max(const KernelRequest& request) { return make<Max>(request); }
std::unique_ptr<Kernel> make_reduce_min(const KernelRequest& request) { return make<Min>(request); }
std::unique_ptr<Kernel> make_reduce_sum_square(const KernelRequest& request) {
  return make<SumSquare>(request);
}
std::unique_ptr<Kernel> make_reduce_l1(const KernelRequest& request) { return make<L1>(request); }
std::unique_ptr<Kernel> make_reduce_l2(const KernelRequest& request) { return make<L2>(request); }

std::unique_ptr<Kernel> make_cumsum(const KernelRequest& request) {
  return kernel_for_type(request,
                         [&]<typename T>(T) { return std::make_unique<CumSum<T>>(request); });
}

}  // namespace autopar::runtime::cpu
