// Resize by the tables of its dimensions.

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "graph/arena.h"
#include "runtime/device.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/image/kernels.h"
#include "runtime/kernels/image/resize.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

/// Numbers in the device's memory.
template <typename T>
std::shared_ptr<const T> on_device(Device& device, const std::vector<T>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  auto memory = device.allocate(static_cast<std::int64_t>(bytes.size()));
  device.write(memory.get(), bytes);
  return {memory, reinterpret_cast<const T*>(memory.get())};
}

/// An AxisTable in the device's memory.
template <typename W>
struct AxisWeights {
  const std::int32_t* places;  ///< [out, taps]
  const W* weights;            ///< [out, taps]
  std::int64_t in;
  std::int64_t out;
  int taps;
  W extrapolated;
};

/// Each place of the resized dimension and what lies behind it: rows are [outer, out]. `taps` is 0
/// where they are counted at run time.
template <typename W, int taps>
struct ResizedRows {
  const W* in;  ///< [outer, axis.in, inner]
  W* out;       ///< [outer, axis.out, inner]
  AxisWeights<W> axis;
  std::int64_t inner;

  AUTOPAR_ELEMENTWISE auto operator()(std::int64_t row) const {
    const std::int64_t first = row % axis.out * axis.taps;
    return [from = in + row / axis.out * axis.in * inner, to = out + row * inner,
            places = axis.places + first, weights = axis.weights + first, counted = axis.taps,
            inner = inner, extrapolated = axis.extrapolated](std::int64_t i) {
      if (places[0] < 0) {
        to[i] = extrapolated;
        return;
      }
      const int n = taps > 0 ? taps : counted;
      W sum = 0;
      for (int k = 0; k < n; ++k) sum += weights[k] * from[places[k] * inner + i];
      to[i] = sum;
    };
  }
};

/// The innermost dimension: rows are [outer].
template <typename W, int taps>
struct ResizedLines {
  const W* in;  ///< [outer, axis.in]
  W* out;       ///< [outer, axis.out]
  AxisWeights<W> axis;

  AUTOPAR_ELEMENTWISE auto operator()(std::int64_t row) const {
    return [from = in + row * axis.in, to = out + row * axis.out, axis = axis](std::int64_t i) {
      const int n = taps > 0 ? taps : axis.taps;
      const std::int32_t* places = axis.places + i * n;
      const W* weights = axis.weights + i * n;
      W sum = 0;
      for (int k = 0; k < n; ++k) sum += weights[k] * from[places[k] < 0 ? 0 : places[k]];
      to[i] = places[0] < 0 ? axis.extrapolated : sum;
    };
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

/// One dimension of a tensor [outer, in, inner] resized.
template <typename W>
struct AxisResize {
  std::int64_t outer;
  std::int64_t inner;
  std::shared_ptr<const std::int32_t> places;
  std::shared_ptr<const W> weights;
  AxisWeights<W> axis;

  AxisResize(Device& device, const AxisTable& table, const AxisExtents& around, double extrapolated)
      : outer(around.outer),
        inner(around.inner),
        places(on_device(device, table.places)),
        weights(on_device(device, std::vector<W>(table.weights.begin(), table.weights.end()))),
        axis{places.get(),
             weights.get(),
             around.extent,
             table.out,
             static_cast<int>(table.taps),
             static_cast<W>(extrapolated)} {}

  void run(const W* from, W* to, const Loops& loops) const {
    if (axis.taps == 2) return run_taps<2>(from, to, loops);
    if (axis.taps == 4) return run_taps<4>(from, to, loops);
    run_taps<0>(from, to, loops);
  }

 private:
  template <int taps>
  void run_taps(const W* from, W* to, const Loops& loops) const {
    if (inner == 1)
      loops.rows(outer, axis.out, ResizedLines<W, taps>{from, to, axis});
    else
      loops.rows(outer * axis.out, inner, ResizedRows<W, taps>{from, to, axis, inner});
  }
};

/// Linear and cubic: one dimension after the other.
template <typename T>
std::unique_ptr<Kernel> make_interpolated(const KernelRequest& request) {
  using W = ResizeCompute<T>;
  const Resizing resizing = resizing_of(request);
  Shape shape = request.inputs[0].shape;
  std::int64_t most = graph::num_elements(shape);
  std::vector<AxisResize<W>> axes;
  const auto add = [&](const AxisTable& table) {
    axes.emplace_back(request.device, table, extents_around(shape, table.axis),
                      resizing.extrapolation_value);
    shape[table.axis] = table.out;
    most = std::max(most, graph::num_elements(shape));
  };
  for (const AxisTable& table : resizing.axes) add(table);
  // Nothing to do is done as well: the innermost dimension as it is.
  if (axes.empty() && request.outputs[0].elements() > 0) {
    shape = {request.outputs[0].elements(), 1};
    add({1, 1, 1, 1, {0}, {1.0}});
  }
  // Two tensors of this size hold what lies between two dimensions.
  const std::int64_t buffer_bytes = graph::aligned(most * std::int64_t{sizeof(W)});
  const auto run = [=](const KernelIo& io, const Loops& loops) {
    if (io.outputs[0].elements() == 0) return;
    constexpr bool is_converted = !std::is_same_v<T, W>;
    int next = 0;
    const auto take = [&] {
      return reinterpret_cast<W*>(io.scratch + (next++ % 2 == 0 ? 0 : buffer_bytes));
    };
    const W* from = io.inputs[0].as<const W>();
    if constexpr (is_converted) {
      W* wide = take();
      loops.each(io.inputs[0].elements(), WidenedElement<T, W>{io.inputs[0].as<const T>(), wide});
      from = wide;
    }
    for (const AxisResize<W>& axis : axes) {
      const bool is_last = &axis == &axes.back();
      W* to = !is_converted && is_last ? io.outputs[0].as<W>() : take();
      axis.run(from, to, loops);
      from = to;
    }
    if constexpr (is_converted)
      loops.each(io.outputs[0].elements(), NarrowedElement<T, W>{from, io.outputs[0].as<T>()});
  };
  return make_loops(request, run, 2 * buffer_bytes);
}

inline constexpr int most_nearest_dimensions = 8;

/// Each element by its offset along every dimension, -1 for what is extrapolated.
template <typename Word, bool extrapolates>
struct NearestRows {
  const Word* in;
  Word* out;
  int dimensions;  ///< but for the innermost, outermost first
  std::int64_t extents[most_nearest_dimensions];
  std::int64_t strides[most_nearest_dimensions];        ///< of the input
  const std::int32_t* places[most_nearest_dimensions];  ///< null: as they are
  std::int64_t row_elements;
  const std::int32_t* last;  ///< null: the elements that follow
  Word value;

  AUTOPAR_ELEMENTWISE auto operator()(std::int64_t row) const {
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
    return [from = extrapolates && is_extrapolated ? nullptr : in + offset,
            to = out + row * row_elements, last = last, value = value](std::int64_t i) {
      const std::int64_t at = last == nullptr ? i : last[i];
      if constexpr (extrapolates)
        to[i] = from == nullptr || at < 0 ? value : from[at];
      else
        to[i] = from[at];
    };
  }
};

/// A dimension of the result, or several that stay as they are.
struct NearestDimension {
  std::int64_t out = 1;
  std::int64_t stride = 1;
  std::shared_ptr<const std::int32_t> places;  ///< null: as they are
};

template <typename Word, bool extrapolates>
std::unique_ptr<Kernel> make_nearest_rows(const KernelRequest& request,
                                          const std::vector<NearestDimension>& dimensions,
                                          Word value) {
  const auto run = [=](const KernelIo& io, const Loops& loops) {
    if (io.outputs[0].elements() == 0) return;
    NearestRows<Word, extrapolates> rows{};
    rows.in = io.inputs[0].as<const Word>();
    rows.out = io.outputs[0].as<Word>();
    rows.dimensions = static_cast<int>(dimensions.size()) - 1;
    std::int64_t count = 1;
    for (std::size_t d = 0; d + 1 < dimensions.size(); ++d) {
      rows.extents[d] = dimensions[d].out;
      rows.strides[d] = dimensions[d].stride;
      rows.places[d] = dimensions[d].places.get();
      count *= dimensions[d].out;
    }
    rows.row_elements = dimensions.back().out;
    rows.last = dimensions.back().places.get();
    rows.value = value;
    loops.rows(count, rows.row_elements, rows);
  };
  return make_loops(request, run);
}

std::unique_ptr<Kernel> make_nearest(const KernelRequest& request) {
  const Resizing resizing = resizing_of(request);
  const Shape& in = request.inputs.at(0).shape;
  const Shape& out = request.outputs[0].shape;
  const Shape strides = row_major_strides(in);
  std::vector<NearestDimension> dimensions;
  bool extrapolates = false;
  for (std::size_t d = 0; d < in.size(); ++d) {
    const auto table = std::ranges::find(resizing.axes, d, &AxisTable::axis);
    if (table != resizing.axes.end()) {
      dimensions.push_back({out[d], strides[d], on_device(request.device, table->places)});
      extrapolates |= std::ranges::any_of(table->places, [](auto place) { return place < 0; });
    } else if (!dimensions.empty() && dimensions.back().places == nullptr) {
      dimensions.back().out *= out[d];
      dimensions.back().stride = strides[d];
    } else {
      dimensions.push_back({out[d], strides[d], nullptr});
    }
  }
  if (dimensions.empty()) dimensions.emplace_back();
  if (dimensions.size() > most_nearest_dimensions)
    fail("node '{}': Resize of so many dimensions has no kernel", request.node.name);
  return kernel_for_element(request, request.inputs[0], [&]<typename Word>(Word value) {
    const auto set_value = [&](auto element) {
      if constexpr (sizeof element == sizeof(Word)) value = std::bit_cast<Word>(element);
    };
    const DataType type = request.inputs[0].type;
    const auto number = resizing.extrapolation_value;
    visit_type(type, AllNumbers{}, [&]<typename T>(T) { set_value(narrowed<T>(number)); });
    if (type == DataType::complex64) set_value(std::complex<float>(number));
    if (type == DataType::complex128) set_value(std::complex<double>(number));
    return extrapolates ? make_nearest_rows<Word, true>(request, dimensions, value)
                        : make_nearest_rows<Word, false>(request, dimensions, value);
  });
}

std::unique_ptr<Kernel> make_resize(const KernelRequest& request) {
  if (request.node.string_attribute("mode", "nearest") == "nearest") return make_nearest(request);
  return kernel_for_type(request, request.inputs.at(0).type, Joined<AllFloats, Integers>{},
                         [&]<typename T>(T) { return make_interpolated<T>(request); });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
