// Reductions over several dimensions. Floats of all widths add up in double.

#include <algorithm>
#include <span>

#include "runtime/device.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/simd.h"
#include "runtime/kernels/reduction/kernels.h"

namespace autopar::runtime::cpu {

namespace {

/// Where elements lie, in row-major order.
std::vector<std::int64_t> offsets(const StridedShape& of) {
  std::vector<std::int64_t> result = {0};
  for (std::size_t d = 0; d < of.dims.size(); ++d) {
    std::vector<std::int64_t> next;
    for (const std::int64_t base : result)
      for (std::int64_t i = 0; i < of.dims[d]; ++i) next.push_back(base + i * of.strides[d]);
    result = std::move(next);
  }
  return result;
}

/// What rows are reduced in: the elements' own type where one of them is chosen.
template <typename T, typename Operation>
using Partial = std::conditional_t<Operation::selects, Widened<T>, Accumulator<T>>;

template <typename T, typename Operation>
Partial<T, Operation> start_of() {
  return static_cast<Partial<T, Operation>>(Operation::template start<T>);
}
template <typename T, typename Operation>
[[gnu::always_inline]] inline Partial<T, Operation> take(Partial<T, Operation> partial, T element) {
  return Operation::take(partial, static_cast<Partial<T, Operation>>(widened(element)));
}

/// In lanes, so that elements need not wait for one another.
template <typename T, typename Operation>
[[gnu::always_inline]] inline Partial<T, Operation> reduce_lanes(const T* from, std::int64_t n) {
  using Wide = Partial<T, Operation>;
  constexpr int lanes = 128 / sizeof(Wide);
  Wide parts[lanes];
  for (Wide& part : parts) part = start_of<T, Operation>();
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
#pragma omp simd
    for (int lane = 0; lane < lanes; ++lane)
      parts[lane] = take<T, Operation>(parts[lane], from[i + lane]);
  Wide result = parts[0];
  for (int lane = 1; lane < lanes; ++lane) result = Operation::join(result, parts[lane]);
  for (; i < n; ++i) result = take<T, Operation>(result, from[i]);
  return result;
}

/// Reduces elements that lie together.
template <typename T, typename Operation>
using RowReduction = Partial<T, Operation> (*)(const T* from, std::int64_t n);

#if defined(__x86_64__)
template <typename T, typename Operation>
[[gnu::target("avx2")]] Partial<T, Operation> reduce_row_avx2(const T* from, std::int64_t n) {
  return reduce_lanes<T, Operation>(from, n);
}
template <typename T, typename Operation>
[[gnu::target("avx512f,avx512dq,avx2")]] Partial<T, Operation> reduce_row_avx512(const T* from,
                                                                                 std::int64_t n) {
  return reduce_lanes<T, Operation>(from, n);
}
#endif

template <typename T, typename Operation>
RowReduction<T, Operation> row_reduction() {
#if defined(__x86_64__)
  if constexpr (std::is_floating_point_v<T>) {
    if (simd_level() == SimdLevel::avx512) return reduce_row_avx512<T, Operation>;
    if (simd_level() == SimdLevel::avx2) return reduce_row_avx2<T, Operation>;
  }
#endif
  return reduce_lanes<T, Operation>;
}

/// Rows that lie side by side: the next element of each is at the next of the offsets.
template <typename T>
struct Columns {
  const T* from;
  std::span<const std::int64_t> offsets;
  std::int64_t count;
};

/// Reduces each row in the order in which it would be reduced by itself.
template <typename T, typename Operation>
struct ReduceColumns {
  [[gnu::always_inline]] static inline void run(const Columns<T>& of,
                                                Partial<T, Operation>* results) {
    std::fill_n(results, of.count, start_of<T, Operation>());
    for (const std::int64_t offset : of.offsets) {
      const T* const from = of.from + offset;
#pragma omp simd
      for (std::int64_t c = 0; c < of.count; ++c)
        results[c] = take<T, Operation>(results[c], from[c]);
    }
  }
};

template <typename T, typename Operation>
SimdFunction<const Columns<T>&, Partial<T, Operation>*> column_reduction() {
  const SimdLevel level = std::is_floating_point_v<T> ? simd_level() : SimdLevel::baseline;
  return simd_function<ReduceColumns<T, Operation>, const Columns<T>&, Partial<T, Operation>*>(
      level);
}

/// Fewer elements than this are not worth waking other threads.
constexpr std::int64_t worth_a_thread = 16384;

template <typename T, typename Operation>
class Reduce final : public Kernel {
 public:
  Reduce(const KernelRequest& request, const ReducedDimensions& dimensions)
      : kept_(offsets(dimensions.kept)),
        elements_(dimensions.row_elements()),
        threads_(request.device.threads()) {
    const auto& strides = dimensions.reduced.strides;
    neighbours_ = strides.empty() || (strides.size() == 1 && strides.back() == 1);
    if (neighbours_) return;
    StridedShape apart = dimensions.reduced;
    if (strides.back() == 1) {
      run_ = apart.dims.back();
      apart.dims.pop_back();
      apart.strides.pop_back();
    }
    reduced_ = offsets(apart);
    const StridedShape& kept = dimensions.kept;
    if (!kept.dims.empty() && kept.strides.back() == 1) side_by_side_ = kept.dims.back();
  }

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
    if (side_by_side_ > 1) return reduce_columns(in, out, is_large);
    for_in_threads(is_large ? threads_ : 1, rows, [&](std::int64_t row) {
      const T* from = in + kept_[static_cast<std::size_t>(row)];
      out[row] = finished(neighbours_ ? reduce_row_(from, elements_) : reduce_runs(from));
    });
  }

 private:
  using Wide = Partial<T, Operation>;

  T finished(Wide result) const { return narrowed<T>(Operation::finish(result, elements_)); }

  /// Reduces the runs of a row: long ones each by itself, short ones side by side.
  Wide reduce_runs(const T* from) const {
    constexpr std::int64_t most_short = 512;
    Wide result = start_of<T, Operation>();
    if (run_ == 1) {
      for (const std::int64_t offset : reduced_) result = take<T, Operation>(result, from[offset]);
    } else if (run_ <= most_short) {
      Wide results[most_short];
      reduce_columns_({from, reduced_, run_}, results);
      for (std::int64_t i = 0; i < run_; ++i) result = Operation::join(result, results[i]);
    } else {
      for (const std::int64_t offset : reduced_)
        result = Operation::join(result, reduce_row_(from + offset, run_));
    }
    return result;
  }

  /// Reduces as many rows at a time as leave their results in the cache and work for each thread.
  void reduce_columns(const T* in, T* out, bool is_large) const {
    constexpr std::int64_t most = 512;
    constexpr std::int64_t least = 32;
    const std::int64_t runs = std::ssize(kept_) / side_by_side_;
    const std::int64_t width = std::clamp(std::ssize(kept_) / threads_, least, most);
    const std::int64_t parts = (side_by_side_ + width - 1) / width;
    for_in_threads(is_large ? threads_ : 1, runs * parts, [&](std::int64_t i) {
      const std::int64_t first = i % parts * width;
      const std::int64_t count = std::min(width, side_by_side_ - first);
      const std::int64_t row = i / parts * side_by_side_ + first;
      Wide results[most];
      reduce_columns_({in + kept_[static_cast<std::size_t>(row)], reduced_, count}, results);
      for (std::int64_t c = 0; c < count; ++c) out[row + c] = finished(results[c]);
    });
  }

  /// Reduces by all threads.
  Wide reduce_in_parts(const T* from) const {
    constexpr int most_parts = 64;
    const int parts = std::min(threads_, most_parts);
    Wide results[most_parts] = {};
    for_in_threads(threads_, parts, [&](std::int64_t part) {
      const std::int64_t begin = elements_ * part / parts;
      results[part] = reduce_row_(from + begin, elements_ * (part + 1) / parts - begin);
    });
    Wide result = results[0];
    for (int part = 1; part < parts; ++part) result = Operation::join(result, results[part]);
    return result;
  }

  RowReduction<T, Operation> reduce_row_ = row_reduction<T, Operation>();
  SimdFunction<const Columns<T>&, Wide*> reduce_columns_ = column_reduction<T, Operation>();
  std::vector<std::int64_t> kept_;     ///< where rows begin in the input
  std::int64_t elements_;              ///< of a row
  bool neighbours_ = false;            ///< they lie together
  std::vector<std::int64_t> reduced_;  ///< where they lie, if not: runs of them
  std::int64_t run_ = 1;               ///< elements that lie together there
  std::int64_t side_by_side_ = 1;      ///< rows, if their elements do not lie together
  int threads_;
};

}  // namespace

std::unique_ptr<Kernel> make_reduction(const KernelRequest& request,
                                       const ReducedDimensions& dimensions,
                                       AnyReduction operation) {
  const auto make = [&]<typename Operation>(Operation) {
    return kernel_for_type(
        request, stored_type(request.inputs[0].type), AllNumbers{},
        [&]<typename T>(T) { return std::make_unique<Reduce<T, Operation>>(request, dimensions); });
  };
  return std::visit(make, operation);
}

}  // namespace autopar::runtime::cpu
