// Resize by the tables of its dimensions.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "graph/arena.h"
#include "runtime/device.h"
#include "runtime/kernels/common/floats.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/image/kernels.h"
#include "runtime/kernels/image/resize.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

namespace {

/// Tables of any numbers, one behind the other in the device's memory.
class TableBuilder {
 public:
  template <typename T>
  std::int64_t add(std::span<const T> numbers) {
    const std::size_t at = bytes_.size();
    bytes_.resize(static_cast<std::size_t>(
        graph::aligned(static_cast<std::int64_t>(at + numbers.size_bytes()))));
    if (!numbers.empty()) std::memcpy(bytes_.data() + at, numbers.data(), numbers.size_bytes());
    return static_cast<std::int64_t>(at);
  }
  std::shared_ptr<std::byte> finish(Device& device) const {
    auto memory = device.allocate(static_cast<std::int64_t>(bytes_.size()));
    device.write(memory.get(), bytes_);
    return memory;
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

/// An AxisTable in the device's memory.
template <typename W>
struct AxisWeights {
  const std::int32_t* places = nullptr;
  const W* weights = nullptr;
  std::int64_t in = 1;
  std::int64_t out = 1;
  int taps = 1;
  W extrapolated = 0;
};

/// One place of the resized dimension and what lies behind it. `taps` is 0 where they are counted
/// at run time.
template <typename W, int taps>
struct ResizedRow {
  const W* in;
  W* out;
  const std::int32_t* places;
  const W* weights;
  int counted;
  std::int64_t inner;
  W extrapolated;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    if (places[0] < 0) {
      out[i] = extrapolated;
      return;
    }
    const int n = taps > 0 ? taps : counted;
    W sum = 0;
    for (int k = 0; k < n; ++k) sum += weights[k] * in[places[k] * inner + i];
    out[i] = sum;
  }
};

/// Rows are [outer, out].
template <typename W, int taps>
struct ResizedRows {
  const W* in;
  W* out;
  AxisWeights<W> axis;
  std::int64_t inner;

  AUTOPAR_ELEMENTWISE ResizedRow<W, taps> operator()(std::int64_t row) const {
    const std::int64_t outer = row / axis.out;
    const std::int64_t first = row % axis.out * axis.taps;
    return {in + outer * axis.in * inner,
            out + row * inner,
            axis.places + first,
            axis.weights + first,
            axis.taps,
            inner,
            axis.extrapolated};
  }
};

/// The innermost dimension: rows are [outer].
template <typename W, int taps>
struct ResizedLine {
  const W* in;
  W* out;
  AxisWeights<W> axis;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const int n = taps > 0 ? taps : axis.taps;
    const std::int32_t* places = axis.places + i * n;
    const W* weights = axis.weights + i * n;
    W sum = 0;
    for (int k = 0; k < n; ++k) sum += weights[k] * in[places[k] < 0 ? 0 : places[k]];
    out[i] = places[0] < 0 ? axis.extrapolated : sum;
  }
};

template <typename W, int taps>
struct ResizedLines {
  const W* in;
  W* out;
  AxisWeights<W> axis;

  AUTOPAR_ELEMENTWISE ResizedLine<W, taps> operator()(std::int64_t row) const {
    return {in + row * axis.in, out + row * axis.out, axis};
  }
};

template <typename T, typename W>
struct WidenedElement {
  const T* in;
  W* out;
  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    out[i] = static_cast<W>(widened(in[i]));
  }
};

/// Integers are rounded to nearest even and kept within their type.
template <typename T, typename W>
struct NarrowedElement {
  const W* in;
  T* out;
  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    if constexpr (std::is_integral_v<T>) {
      const W x = std::rint(in[i]);
      constexpr W least = static_cast<W>(std::numeric_limits<T>::min());
      constexpr W most = static_cast<W>(std::numeric_limits<T>::max());
      out[i] = !(x > least) ? std::numeric_limits<T>::min()
                            : (x >= most ? std::numeric_limits<T>::max() : static_cast<T>(x));
    } else {
      out[i] = narrowed<T>(in[i]);
    }
  }
};

/// What elements of a type are weighted in.
template <typename T>
using ResizeCompute =
    std::conditional_t<std::is_same_v<T, double> || (std::is_integral_v<T> && sizeof(T) >= 4),
                       double, float>;

/// Linear and cubic: one dimension after the other.
class InterpolatedResize {
 public:
  using Served = Joined<Floats, Halves, Integers>;

  explicit InterpolatedResize(const KernelRequest& request);

  std::int64_t scratch_bytes() const { return 2 * buffer_bytes_; }

  void run(const KernelIo& io, const Loops& loops) const {
    if (io.outputs[0].elements() == 0) return;
    visit_type(io.outputs[0].type, Served{},
               [&]<typename T>(T) { resize<T, ResizeCompute<T>>(io, loops); });
  }

 private:
  struct Axis {
    std::int64_t outer = 1;
    std::int64_t inner = 1;
    std::int64_t in = 1;
    std::int64_t out = 1;
    int taps = 1;
    std::int64_t places_at = 0;  ///< bytes in the tables
    std::int64_t weights_at = 0;
  };

  template <typename T, typename W>
  void resize(const KernelIo& io, const Loops& loops) const {
    constexpr bool is_converted = !std::is_same_v<T, W>;
    W* buffers[2] = {reinterpret_cast<W*>(io.scratch),
                     reinterpret_cast<W*>(io.scratch + buffer_bytes_)};
    int next = 0;
    const auto take = [&] { return buffers[next++ % 2]; };
    const W* from = nullptr;
    if constexpr (is_converted) {
      W* widened = take();
      loops.each(io.inputs[0].elements(),
                 WidenedElement<T, W>{io.inputs[0].as<const T>(), widened});
      from = widened;
    } else {
      from = io.inputs[0].as<const W>();
    }
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      W* to = nullptr;
      if constexpr (!is_converted)
        if (i + 1 == axes_.size()) to = io.outputs[0].as<W>();
      if (to == nullptr) to = take();
      resize_axis(axes_[i], from, to, loops);
      from = to;
    }
    if constexpr (is_converted)
      loops.each(io.outputs[0].elements(), NarrowedElement<T, W>{from, io.outputs[0].as<T>()});
  }

  template <typename W>
  void resize_axis(const Axis& axis, const W* from, W* to, const Loops& loops) const {
    const AxisWeights<W> weights{
        reinterpret_cast<const std::int32_t*>(tables_.get() + axis.places_at),
        reinterpret_cast<const W*>(tables_.get() + axis.weights_at),
        axis.in,
        axis.out,
        axis.taps,
        static_cast<W>(extrapolation_value_)};
    if (axis.taps == 2) return resize_taps<W, 2>(axis, weights, from, to, loops);
    if (axis.taps == 4) return resize_taps<W, 4>(axis, weights, from, to, loops);
    resize_taps<W, 0>(axis, weights, from, to, loops);
  }

  template <typename W, int taps>
  void resize_taps(const Axis& axis, const AxisWeights<W>& weights, const W* from, W* to,
                   const Loops& loops) const {
    if (axis.inner == 1)
      loops.rows(axis.outer, axis.out, ResizedLines<W, taps>{from, to, weights});
    else
      loops.rows(axis.outer * axis.out, axis.inner,
                 ResizedRows<W, taps>{from, to, weights, axis.inner});
  }

  std::vector<Axis> axes_;
  double extrapolation_value_ = 0;
  std::int64_t buffer_bytes_ = 0;  ///< of one of two tensors between dimensions
  std::shared_ptr<std::byte> tables_;
};

inline constexpr int most_nearest_dimensions = 8;

/// Each element by its offset along every dimension, -1 for what is extrapolated.
/// `in` is null where all of the row is.
template <typename Word, bool extrapolates>
struct NearestRow {
  const Word* in;
  Word* out;
  const std::int32_t* last;  ///< null: the elements that follow
  Word value;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const std::int64_t offset = last == nullptr ? i : last[i];
    if constexpr (extrapolates)
      out[i] = in == nullptr || offset < 0 ? value : in[offset];
    else
      out[i] = in[offset];
  }
};

template <typename Word, bool extrapolates>
struct NearestRows {
  const Word* in;
  Word* out;
  int dimensions;  ///< but for the innermost, outermost first
  std::int64_t extents[most_nearest_dimensions];
  std::int64_t strides[most_nearest_dimensions];  ///< of the input
  const std::int32_t* places[most_nearest_dimensions];
  std::int64_t row_elements;
  const std::int32_t* last;
  Word value;

  AUTOPAR_ELEMENTWISE NearestRow<Word, extrapolates> operator()(std::int64_t row) const {
    std::int64_t offset = 0;
    std::int64_t rest = row;
    bool is_extrapolated = false;
    for (int d = dimensions - 1; d >= 0; --d) {
      const std::int64_t index = rest % extents[d];
      rest /= extents[d];
      const std::int64_t place = places[d] == nullptr ? index : places[d][index];
      is_extrapolated = is_extrapolated || place < 0;
      offset += place * strides[d];
    }
    return {is_extrapolated ? nullptr : in + offset, out + row * row_elements, last, value};
  }
};

class NearestResize {
 public:
  explicit NearestResize(const KernelRequest& request);

  void run(const KernelIo& io, const Loops& loops) const {
    if (io.outputs[0].elements() == 0) return;
    if (element_bytes_ == 1) return resize_words<std::uint8_t>(io, loops);
    if (element_bytes_ == 2) return resize_words<std::uint16_t>(io, loops);
    if (element_bytes_ == 4) return resize_words<std::uint32_t>(io, loops);
    resize_words<std::uint64_t>(io, loops);
  }

 private:
  struct Dimension {
    std::int64_t out = 1;
    std::int64_t stride = 1;
    std::int64_t places_at = -1;  ///< bytes in the tables; -1: as they are
  };

  template <typename Word>
  void resize_words(const KernelIo& io, const Loops& loops) const {
    if (extrapolates_)
      resize<Word, true>(io, loops);
    else
      resize<Word, false>(io, loops);
  }

  template <typename Word, bool extrapolates>
  void resize(const KernelIo& io, const Loops& loops) const {
    const auto places = [&](const Dimension& dimension) {
      return dimension.places_at < 0
                 ? nullptr
                 : reinterpret_cast<const std::int32_t*>(tables_.get() + dimension.places_at);
    };
    NearestRows<Word, extrapolates> rows{};
    rows.in = io.inputs[0].as<const Word>();
    rows.out = io.outputs[0].as<Word>();
    rows.dimensions = static_cast<int>(dimensions_.size()) - 1;
    std::int64_t count = 1;
    for (std::size_t d = 0; d + 1 < dimensions_.size(); ++d) {
      rows.extents[d] = dimensions_[d].out;
      rows.strides[d] = dimensions_[d].stride;
      rows.places[d] = places(dimensions_[d]);
      count *= dimensions_[d].out;
    }
    rows.row_elements = dimensions_.back().out;
    rows.last = places(dimensions_.back());
    rows.value = static_cast<Word>(extrapolated_bits_);
    loops.rows(count, rows.row_elements, rows);
  }

  int element_bytes_ = 4;
  std::vector<Dimension> dimensions_;
  bool extrapolates_ = false;
  std::uint64_t extrapolated_bits_ = 0;
  std::shared_ptr<std::byte> tables_;
};

InterpolatedResize::InterpolatedResize(const KernelRequest& request) {
  const DataType type = request.inputs.at(0).type;
  bool is_double = false;
  if (!visit_type(type, Served{},
                  [&]<typename T>(T) { is_double = std::is_same_v<ResizeCompute<T>, double>; }))
    fail_type(request, type);
  const Resizing resizing = resizing_of(request);
  extrapolation_value_ = resizing.extrapolation_value;
  Shape shape = request.inputs[0].shape;
  std::int64_t most = graph::num_elements(shape);
  TableBuilder tables;
  const auto add = [&](const AxisTable& table) {
    Axis axis;
    axis.in = shape[table.axis];
    axis.out = table.out;
    axis.taps = static_cast<int>(table.taps);
    for (std::size_t d = 0; d < table.axis; ++d) axis.outer *= shape[d];
    for (std::size_t d = table.axis + 1; d < shape.size(); ++d) axis.inner *= shape[d];
    axis.places_at = tables.add(std::span<const std::int32_t>(table.places));
    const std::vector<float> floats(table.weights.begin(), table.weights.end());
    axis.weights_at = is_double ? tables.add(std::span<const double>(table.weights))
                                : tables.add(std::span<const float>(floats));
    axes_.push_back(axis);
    shape[table.axis] = table.out;
    most = std::max(most, graph::num_elements(shape));
  };
  for (const AxisTable& table : resizing.axes) add(table);
  // Nothing to do is done as well: the innermost dimension as it is.
  if (axes_.empty() && request.outputs[0].elements() > 0) {
    const std::int64_t n = request.outputs[0].elements();
    shape = {n, 1};
    most = n;
    add({1, 1, 1, 1, {0}, {1.0}});
  }
  const std::int64_t element = is_double ? sizeof(double) : sizeof(float);
  buffer_bytes_ = graph::aligned(most * element);
  tables_ = tables.finish(request.device);
}

NearestResize::NearestResize(const KernelRequest& request)
    : element_bytes_(element_bytes_of(request, request.inputs.at(0))) {
  const Resizing resizing = resizing_of(request);
  const Shape& in = request.inputs[0].shape;
  const Shape& out = request.outputs[0].shape;
  const Shape strides = row_major_strides(in);
  TableBuilder tables;
  // Dimensions that stay as they are become one with their neighbours.
  bool can_join = false;
  for (std::size_t d = 0; d < in.size(); ++d) {
    const auto table = std::ranges::find(resizing.axes, d, &AxisTable::axis);
    if (table != resizing.axes.end()) {
      dimensions_.push_back(
          {out[d], strides[d], tables.add(std::span<const std::int32_t>(table->places))});
      extrapolates_ = extrapolates_ || std::ranges::any_of(table->places, [](std::int32_t place) {
                        return place < 0;
                      });
      can_join = false;
    } else if (can_join) {
      dimensions_.back().out *= out[d];
      dimensions_.back().stride = strides[d];
    } else {
      dimensions_.push_back({out[d], strides[d], -1});
      can_join = true;
    }
  }
  if (dimensions_.empty()) dimensions_.push_back({1, 1, -1});
  if (dimensions_.size() > most_nearest_dimensions)
    fail("node '{}': Resize of so many dimensions has no kernel", request.node.name);
  visit_type(request.inputs[0].type, Joined<Floats, Halves, Integers>{}, [&]<typename T>(T) {
    const T value = narrowed<T>(resizing.extrapolation_value);
    std::memcpy(&extrapolated_bits_, &value, sizeof(T));
  });
  tables_ = tables.finish(request.device);
}

std::unique_ptr<Kernel> make_resize(const KernelRequest& request) {
  if (request.node.string_attribute("mode", "nearest") == "nearest")
    return make_loops<NearestResize>(request);
  return make_loops<InterpolatedResize>(request);
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
