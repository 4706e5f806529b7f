// Operators that choose among the elements of a row along an axis: TopK, ArgMax, ArgMin, Hardmax.
// An item is a row.

#include "runtime/device.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/reduction/kernels.h"
#include "runtime/kernels/reduction/selection.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

/// The best element of a row whose elements lie together, and where it is: in two passes, both of
/// which processors take in lanes.
template <typename T, bool is_max>
struct BestOfTogether {
  using W = Widened<T>;
  static constexpr std::int64_t lanes = 128 / sizeof(W);

  const T* in;
  std::int64_t extent;

  AUTOPAR_ELEMENTWISE W best() const {
    W of_lanes[lanes];
    for (W& best : of_lanes) best = widened(in[0]);
    std::int64_t i = 0;
    for (; i + lanes <= extent; i += lanes)
      for (std::int64_t lane = 0; lane < lanes; ++lane) take(of_lanes[lane], widened(in[i + lane]));
    for (; i < extent; ++i) take(of_lanes[0], widened(in[i]));
    for (const W other : of_lanes) take(of_lanes[0], other);
    return of_lanes[0];
  }
  AUTOPAR_ELEMENTWISE std::int64_t first_of(W best) const {
    std::int64_t i = 0;
    while (i + lanes <= extent && !has(best, i)) i += lanes;
    while (!is_same(widened(in[i]), best)) ++i;
    return i;
  }
  AUTOPAR_ELEMENTWISE std::int64_t last_of(W best) const {
    std::int64_t end = extent;
    while (end >= lanes && !has(best, end - lanes)) end -= lanes;
    while (!is_same(widened(in[end - 1]), best)) --end;
    return end - 1;
  }

 private:
  AUTOPAR_ELEMENTWISE static void take(W& best, W x) {
    best = is_better<is_max>(x, best) ? x : best;
  }
  AUTOPAR_ELEMENTWISE bool has(W best, std::int64_t begin) const {
    bool found = false;
    for (std::int64_t lane = 0; lane < lanes; ++lane)
      found |= is_same(widened(in[begin + lane]), best);
    return found;
  }
};

/// ArgMax and ArgMin. Of equals the first, or the last; NaN comes before all numbers.
template <typename T, bool is_max>
struct ArgOfRow {
  static constexpr bool vectorises = true;
  const T* all;       ///< [outer, extent, inner]
  std::int64_t* out;  ///< [outer, inner]
  AxisExtents rows;
  bool takes_last;

  std::int64_t item_work() const { return rows.extent; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t row) const {
    const T* in = all + rows.row_offset(row);
    out[row] = on_cpu && rows.inner == 1 ? place_in_lanes(in) : place_in(in);
  }

 private:
  AUTOPAR_ELEMENTWISE std::int64_t place_in_lanes(const T* in) const {
    const BestOfTogether<T, is_max> row{in, rows.extent};
    return takes_last ? row.last_of(row.best()) : row.first_of(row.best());
  }
  AUTOPAR_ELEMENTWISE std::int64_t place_in(const T* in) const {
    auto best = widened(in[0]);
    std::int64_t place = 0;
    for (std::int64_t i = 1; i < rows.extent; ++i) {
      const auto x = widened(in[i * rows.inner]);
      if (!is_better<is_max>(x, best) && !(takes_last && is_same(x, best))) continue;
      best = x;
      place = i;
    }
    return place;
  }
};

/// 1 at the first of a row's largest elements, 0 elsewhere.
template <typename T>
struct HardmaxOfRow {
  const T* in;  ///< [outer, extent, inner]
  T* out;       ///< as in
  AxisExtents rows;

  std::int64_t item_work() const { return rows.extent; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t row) const {
    const std::int64_t begin = rows.row_offset(row);
    std::int64_t place = begin;
    for (std::int64_t i = 0; i < rows.extent; ++i) {
      const std::int64_t at = begin + i * rows.inner;
      out[at] = narrowed<T>(0.0F);
      if (is_more(widened(in[at]), widened(in[place]))) place = at;
    }
    out[place] = narrowed<T>(1.0F);
  }
};

/// Entries in two outputs, as a heap whose last in the result is in front.
template <typename T>
struct TopKHeap {
  struct Entry {
    T value;
    std::int64_t index;
  };

  T* values;
  std::int64_t* indices;
  std::int64_t stride;
  bool takes_largest;

  AUTOPAR_ELEMENTWISE Entry at(std::int64_t i) const {
    return {values[i * stride], indices[i * stride]};
  }
  AUTOPAR_ELEMENTWISE void put(std::int64_t i, Entry entry) const {
    values[i * stride] = entry.value;
    indices[i * stride] = entry.index;
  }
  /// Whether `x` comes before `y` in the result.
  AUTOPAR_ELEMENTWISE bool is_before(Entry x, Entry y) const {
    const auto a = widened(x.value);
    const auto b = widened(y.value);
    const bool more = is_more(a, b);
    const bool less = is_more(b, a);
    if (!more && !less) return x.index < y.index;
    return takes_largest ? more : less;
  }
  /// Moves the entry at `i` down until what is below it, of `size` entries, comes before it.
  AUTOPAR_ELEMENTWISE void sink(std::int64_t i, std::int64_t size) const {
    const Entry entry = at(i);
    for (;;) {
      std::int64_t child = 2 * i + 1;
      if (child >= size) break;
      if (child + 1 < size && is_before(at(child), at(child + 1))) ++child;
      if (!is_before(entry, at(child))) break;
      put(i, at(child));
      i = child;
    }
    put(i, entry);
  }
};

/// The first k elements of a row in descending order (ascending unless `takes_largest`), of equals
/// those with lower indices first. They are kept in their outputs as a heap with the last of them
/// in front, which is sorted in the end; `sorted` = 0 leaves the order open, and gets the same.
template <typename T>
struct TopKOfRow {
  const T* all;           ///< [outer, extent, inner]
  T* values;              ///< [outer, k, inner]
  std::int64_t* indices;  ///< as values
  AxisExtents rows;
  std::int64_t k;
  bool takes_largest;

  std::int64_t item_work() const { return 2 * rows.extent; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t row) const {
    const T* in = all + rows.row_offset(row);
    const std::int64_t begin = rows.row_offset(row, k);
    const TopKHeap<T> heap{values + begin, indices + begin, rows.inner, takes_largest};
    for (std::int64_t i = 0; i < k; ++i) heap.put(i, {in[i * rows.inner], i});
    for (std::int64_t i = k / 2; i-- > 0;) heap.sink(i, k);
    for (std::int64_t i = k; i < rows.extent; ++i) {
      const typename TopKHeap<T>::Entry entry{in[i * rows.inner], i};
      if (!heap.is_before(entry, heap.at(0))) continue;
      heap.put(0, entry);
      heap.sink(0, k);
    }
    for (std::int64_t last = k - 1; last > 0; --last) {
      const auto front = heap.at(0);
      heap.put(0, heap.at(last));
      heap.put(last, front);
      heap.sink(0, last);
    }
  }
};

template <bool is_max>
std::unique_ptr<Kernel> make_arg(const KernelRequest& request) {
  const TensorView& in = request.inputs.at(0);
  const AxisExtents rows = extents_around_axis(request, in.shape, 0);
  const bool takes_last = request.node.int_attribute("select_last_index", 0) != 0;
  if (in.elements() == 0 && rows.rows() > 0)
    fail("node '{}': {} of no elements", request.node.name, request.node.op_type);
  if constexpr (!on_cpu)
    if (auto kernel = cuda::make_arg_by_blocks(request, rows, is_max)) return kernel;
  return kernel_for_type(request, in.type, AllNumbers{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      loops.each(rows.rows(),
                 ArgOfRow<T, is_max>{io.inputs[0].as<const T>(), io.outputs[0].as<std::int64_t>(),
                                     rows, takes_last});
    });
  });
}

std::unique_ptr<Kernel> make_arg_max(const KernelRequest& request) {
  return make_arg<true>(request);
}
std::unique_ptr<Kernel> make_arg_min(const KernelRequest& request) {
  return make_arg<false>(request);
}

std::unique_ptr<Kernel> make_hardmax(const KernelRequest& request) {
  const AxisExtents rows = extents_around_axis(request, request.inputs.at(0).shape, -1);
  if constexpr (!on_cpu)
    if (auto kernel = cuda::make_hardmax_by_blocks(request, rows)) return kernel;
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      loops.each(rows.extent == 0 ? 0 : rows.rows(),
                 HardmaxOfRow<T>{io.inputs[0].as<const T>(), io.outputs[0].as<T>(), rows});
    });
  });
}

std::unique_ptr<Kernel> make_top_k(const KernelRequest& request) {
  const AxisExtents rows = extents_around_axis(request, request.inputs.at(0).shape, -1);
  const std::int64_t k = extents_around_axis(request, request.outputs.at(0).shape, -1).extent;
  const bool takes_largest = request.node.int_attribute("largest", 1) != 0;
  if (k > rows.extent)
    fail("node '{}': TopK of {} among {} elements", request.node.name, k, rows.extent);
  if (!is_given(request.outputs, 0) || !is_given(request.outputs, 1))
    fail("node '{}': TopK without its values or its indices has no {} kernel", request.node.name,
         request.device.kernels().device);
  if constexpr (!on_cpu)
    if (auto kernel = cuda::make_top_k_by_blocks(request, rows, k, takes_largest)) return kernel;
  return kernel_for_type(request, request.inputs[0].type, AllNumbers{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      loops.each(k == 0 ? 0 : rows.rows(),
                 TopKOfRow<T>{io.inputs[0].as<const T>(), io.outputs[0].as<T>(),
                              io.outputs[1].as<std::int64_t>(), rows, k, takes_largest});
    });
  });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
