// Poolings: on the CPU in float32 row by row, or by oneDNN where its forms are ONNX's; else by
// loops.

#include <cmath>
#include <cstdint>
#include <limits>

#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/image/kernels.h"
#include "runtime/kernels/image/pooling.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

template <typename T>
struct AveragePoolElement {
  const T* in;  ///< [images, channels, places]
  T* out;       ///< [images, channels, out places]
  Windows windows;
  std::array<int, Windows::dimensions> padded_ends;
  bool counts_padding;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const std::int64_t places = windows.out_places();
    const TapsInside taps(windows, Place(i % places, windows.out));
    const T* plane = in + i / places * windows.in_places();
    Widened<T> sum = 0;
    taps.visit(windows, [&](std::int64_t offset) { sum += widened(plane[offset]); });
    std::int64_t count = 1;
    for (int d = 0; d < Windows::dimensions; ++d)
      count *= counts_padding ? taps.taps_before(windows, d, padded_ends[d])
                              : taps.last[d] - taps.first[d];
    out[i] = narrowed<T>(sum / static_cast<Widened<T>>(count));
  }
};

/// The first of equal elements counts; `indices` may be null. In column-major order the first
/// spatial dimension changes fastest.
template <typename T>
struct MaxPoolElement {
  const T* in;            ///< [images, channels, places]
  T* out;                 ///< [images, channels, out places]
  std::int64_t* indices;  ///< as out
  Windows windows;
  bool is_column_major;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const std::int64_t places = windows.out_places();
    const TapsInside taps(windows, Place(i % places, windows.out));
    const std::int64_t base = i / places * windows.in_places();
    std::int64_t largest = -1;
    taps.visit(windows, [&](std::int64_t offset) {
      if (largest < 0 || widened(in[base + offset]) > widened(in[base + largest])) largest = offset;
    });
    out[i] = in[base + largest];
    if (indices != nullptr) indices[i] = base + (is_column_major ? transposed(largest) : largest);
  }

  AUTOPAR_ELEMENTWISE std::int64_t transposed(std::int64_t offset) const {
    const Place place(offset, windows.in);
    return place.at[0] + windows.in[0] * (place.at[1] + std::int64_t{windows.in[1]} * place.at[2]);
  }
};

/// |x|^p, and its inverse of a sum of such.
template <typename W>
AUTOPAR_ELEMENTWISE W power_of(W x, int p) {
  const W magnitude = x < 0 ? -x : x;
  if (p == 1) return magnitude;
  return p == 2 ? x * x : static_cast<W>(std::pow(magnitude, static_cast<W>(p)));
}
template <typename W>
AUTOPAR_ELEMENTWISE W root_of(W sum, int p) {
  if (p == 1) return sum;
  return p == 2 ? static_cast<W>(std::sqrt(sum))
                : static_cast<W>(std::pow(sum, 1 / static_cast<W>(p)));
}

template <typename T>
struct LpPoolElement {
  const T* in;  ///< [images, channels, places]
  T* out;       ///< [images, channels, out places]
  Windows windows;
  int p;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const std::int64_t places = windows.out_places();
    const TapsInside taps(windows, Place(i % places, windows.out));
    const T* plane = in + i / places * windows.in_places();
    Widened<T> sum = 0;
    taps.visit(windows, [&](std::int64_t offset) { sum += power_of(widened(plane[offset]), p); });
    out[i] = narrowed<T>(root_of(sum, p));
  }
};

std::unique_ptr<Kernel> make_average_pool(const KernelRequest& request) {
  if constexpr (on_cpu)
    if (auto kernel = cpu::make_float_average_pool(request)) return kernel;
  const Pooling pooling(request);
  const bool counts_padding = request.node.int_attribute("count_include_pad", 0) != 0;
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      loops.each(io.outputs[0].elements(),
                 AveragePoolElement<T>{io.inputs[0].as<const T>(), io.outputs[0].as<T>(),
                                       pooling.windows, pooling.padded_ends, counts_padding});
    });
  });
}

std::unique_ptr<Kernel> make_max_pool(const KernelRequest& request) {
  using Served = Joined<AllFloats, Types<std::int8_t, std::uint8_t>>;
  const Pooling pooling(request);
  const bool is_column_major = request.node.int_attribute("storage_order", 0) != 0;
  require_type(request, request.inputs[0].type, Served{});
  if (!pooling.sees_image && request.outputs[0].elements() > 0)
    fail("node '{}': MaxPool has windows that see nothing but padding", request.node.name);
  auto kernel = kernel_for_type(request, request.inputs[0].type, Served{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      loops.each(io.outputs[0].elements(),
                 MaxPoolElement<T>{io.inputs[0].as<const T>(), io.outputs[0].as<T>(),
                                   optional_data<std::int64_t>(io.outputs, 1), pooling.windows,
                                   is_column_major});
    });
  });
  if constexpr (on_cpu) return cpu::make_float_max_pool(request, std::move(kernel));
  return kernel;
}

std::unique_ptr<Kernel> make_lp_pool(const KernelRequest& request) {
  const Pooling pooling(request);
  const std::int64_t given = request.node.int_attribute("p", 2);
  require_type(request, request.inputs[0].type, AllFloats{});
  if (given < 1 || given > std::numeric_limits<int>::max())
    fail("node '{}': {} wants a p of at least 1, and of 31 bits", request.node.name,
         request.node.op_type);
  const auto p = static_cast<int>(given);
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      loops.each(
          io.outputs[0].elements(),
          LpPoolElement<T>{io.inputs[0].as<const T>(), io.outputs[0].as<T>(), pooling.windows, p});
    });
  });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
