// Operators that choose among the elements of a row along an axis: TopK, ArgMax, ArgMin, Hardmax.
// An item is a row.

#include <type_traits>

#include "runtime/device.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/reduction/kernels.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

/// Whether `x` is more than `y`; NaN is more than all numbers, as NumPy and PyTorch sort.
template <typename T>
AUTOPAR_ELEMENTWISE bool is_more(T x, T y) {
  return x > y || (x != x && y == y);
}

inline AxisRows rows_along(const KernelRequest& request, std::int64_t default_axis) {
  const Shape& shape = request.inputs.at(0).shape;
  const std::int64_t axis = request.node.int_attribute("axis", default_axis);
  return AxisRows(extents_around(shape, checked_axis(request, axis, shape.size())));
}

/// ArgMax and ArgMin. Of equals the first, or the last; NaN comes before all numbers.
template <typename T, bool is_max>
class ArgItems {
 public:
  explicit ArgItems(const KernelRequest& request)
      : rows_(rows_along(request, 0)),
        takes_last_(request.node.int_attribute("select_last_index", 0) != 0) {}

  void bind(const KernelIo& io) {
    in_ = io.inputs[0].as<const T>();
    out_ = io.outputs[0].as<std::int64_t>();
  }
  std::int64_t items() const { return rows_.count; }
  std::int64_t item_work() const { return rows_.extent; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t row) const {
    const T* in = in_ + rows_.offset(row);
    auto best = widened(in[0]);
    std::int64_t place = 0;
    for (std::int64_t i = 1; i < rows_.extent; ++i) {
      const auto x = widened(in[i * rows_.inner]);
      const bool is_equal = x == best || (x != x && best != best);
      if (!(takes_last_ && is_equal) && !is_better(x, best)) continue;
      best = x;
      place = i;
    }
    out_[row] = place;
  }

 private:
  template <typename Wide>
  AUTOPAR_ELEMENTWISE static bool is_better(Wide x, Wide best) {
    return (is_max ? x > best : x < best) || (x != x && best == best);
  }

  AxisRows rows_;
  bool takes_last_;
  const T* in_ = nullptr;
  std::int64_t* out_ = nullptr;
};

/// 1 at the first of a row's largest elements, 0 elsewhere.
template <typename T>
class HardmaxItems {
 public:
  explicit HardmaxItems(const KernelRequest& request) : rows_(rows_along(request, -1)) {}

  void bind(const KernelIo& io) {
    in_ = io.inputs[0].as<const T>();
    out_ = io.outputs[0].as<T>();
  }
  std::int64_t items() const { return rows_.extent == 0 ? 0 : rows_.count; }
  std::int64_t item_work() const { return rows_.extent; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t row) const {
    const T* in = in_ + rows_.offset(row);
    T* out = out_ + rows_.offset(row);
    std::int64_t place = 0;
    for (std::int64_t i = 0; i < rows_.extent; ++i) {
      out[i * rows_.inner] = narrowed<T>(0.0F);
      if (is_more(widened(in[i * rows_.inner]), widened(in[place * rows_.inner]))) place = i;
    }
    out[place * rows_.inner] = narrowed<T>(1.0F);
  }

 private:
  AxisRows rows_;
  const T* in_ = nullptr;
  T* out_ = nullptr;
};

/// The first k elements of a row in descending order (ascending unless `largest`), of equals those
/// with lower indices first. They are kept in their outputs as a heap with the last of them in
/// front, which is sorted in the end; `sorted` = 0 leaves the order open, and gets the same.
template <typename T>
class TopKItems {
 public:
  explicit TopKItems(const KernelRequest& request)
      : rows_(rows_along(request, -1)), takes_largest_(request.node.int_attribute("largest", 1)) {
    const Shape& shape = request.outputs.at(0).shape;
    const auto axis = checked_axis(request, request.node.int_attribute("axis", -1), shape.size());
    k_ = shape[axis];
    if (k_ > rows_.extent)
      fail("node '{}': TopK of {} among {} elements", request.node.name, k_, rows_.extent);
    if (!has_output(request, 0) || !has_output(request, 1))
      fail("node '{}': TopK without its values or its indices has no {} kernel", request.node.name,
           request.device.kernels().device);
  }

  void bind(const KernelIo& io) {
    in_ = io.inputs[0].as<const T>();
    values_ = io.outputs[0].as<T>();
    indices_ = io.outputs[1].as<std::int64_t>();
  }
  std::int64_t items() const { return k_ == 0 ? 0 : rows_.count; }
  std::int64_t item_work() const { return 2 * rows_.extent; }

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t row) const {
    const T* in = in_ + rows_.offset(row);
    const Heap heap{values_ + rows_.offset(row, k_), indices_ + rows_.offset(row, k_), rows_.inner,
                    takes_largest_};
    for (std::int64_t i = 0; i < k_; ++i) heap.put(i, {in[i * rows_.inner], i});
    for (std::int64_t i = k_ / 2; i-- > 0;) heap.sink(i, k_);
    for (std::int64_t i = k_; i < rows_.extent; ++i) {
      const Entry entry{in[i * rows_.inner], i};
      if (!heap.is_before(entry, heap.at(0))) continue;
      heap.put(0, entry);
      heap.sink(0, k_);
    }
    for (std::int64_t last = k_ - 1; last > 0; --last) {
      const Entry front = heap.at(0);
      heap.put(0, heap.at(last));
      heap.put(last, front);
      heap.sink(0, last);
    }
  }

 private:
  struct Entry {
    T value;
    std::int64_t index;
  };

  struct Heap {
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

  AxisRows rows_;
  std::int64_t k_ = 0;
  bool takes_largest_;
  const T* in_ = nullptr;
  T* values_ = nullptr;
  std::int64_t* indices_ = nullptr;
};

using Comparable = Joined<Numbers, Halves>;

template <bool is_max>
std::unique_ptr<Kernel> make_arg_items(const KernelRequest& request) {
  return kernel_for_type(request, request.inputs.at(0).type, Comparable{}, [&]<typename T>(T) {
    const ArgItems<T, is_max> body(request);
    if (request.inputs[0].elements() == 0 && body.items() > 0)
      fail("node '{}': {} of no elements", request.node.name, request.node.op_type);
    return make_loops<ArgItems<T, is_max>>(request);
  });
}

std::unique_ptr<Kernel> make_arg_max(const KernelRequest& request) {
  return make_arg_items<true>(request);
}
std::unique_ptr<Kernel> make_arg_min(const KernelRequest& request) {
  return make_arg_items<false>(request);
}

std::unique_ptr<Kernel> make_hardmax(const KernelRequest& request) {
  return kernel_for_type(request, request.inputs.at(0).type, Joined<Floats, Halves>{},
                         [&]<typename T>(T) { return make_loops<HardmaxItems<T>>(request); });
}

std::unique_ptr<Kernel> make_top_k(const KernelRequest& request) {
  return kernel_for_type(request, request.inputs.at(0).type, Comparable{},
                         [&]<typename T>(T) { return make_loops<TopKItems<T>>(request); });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
