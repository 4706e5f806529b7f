// Poolings: on the CPU in float32 by oneDNN where its forms are ONNX's, else by loops.

#include <cmath>
#include <cstdint>

#include "runtime/kernels/common/floats.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/image/kernels.h"
#include "runtime/kernels/image/onednn_pooling.h"
#include "runtime/kernels/image/pooling.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

namespace {

template <typename Served>
void require_type(const KernelRequest& request) {
  const DataType type = request.inputs[0].type;
  if (!visit_type(type, Served{}, [](auto) {})) fail_type(request, type);
}

}  // namespace

template <typename T>
struct AveragePoolElement {
  const T* in;
  T* out;
  Windows windows;
  int padded_ends[Windows::dimensions];
  bool counts_padding;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const std::int64_t places = windows.out_places();
    const TapsInside taps(windows, Place(i % places, windows.out));
    const T* plane = in + i / places * windows.in_places();
    WideFloat<T> sum = 0;
    taps.visit(windows, [&](std::int64_t offset) { sum += widened(plane[offset]); });
    std::int64_t count = 1;
    for (int d = 0; d < Windows::dimensions; ++d)
      count *= counts_padding ? taps.taps_before(windows, d, padded_ends[d])
                              : taps.last[d] - taps.first[d];
    out[i] = narrowed<T>(sum / static_cast<WideFloat<T>>(count));
  }
};

class AveragePool {
 public:
  explicit AveragePool(const KernelRequest& request);

  void run(const KernelIo& io, const Loops& loops) const {
    const TensorView& out = io.outputs[0];
    visit_type(out.type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
      AveragePoolElement<T> element{
          io.inputs[0].as<const T>(), out.as<T>(), pooling_.windows, {}, counts_padding_};
      for (int d = 0; d < Windows::dimensions; ++d)
        element.padded_ends[d] = pooling_.padded_ends[d];
      loops.each(out.elements(), element);
    });
  }

 private:
  Pooling pooling_;
  bool counts_padding_;
};

/// The first of equal elements counts; `indices` may be null. In column-major order the first
/// spatial dimension changes fastest.
template <typename T>
struct MaxPoolElement {
  const T* in;
  T* out;
  std::int64_t* indices;
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

class MaxPool {
 public:
  using Served = Joined<Floats, Halves, Types<std::int8_t, std::uint8_t>>;

  explicit MaxPool(const KernelRequest& request);

  void run(const KernelIo& io, const Loops& loops) const {
    const TensorView& out = io.outputs[0];
    const bool has_indices = io.outputs.size() > 1 && io.outputs[1].present();
    visit_type(out.type, Served{}, [&]<typename T>(T) {
      loops.each(out.elements(),
                 MaxPoolElement<T>{io.inputs[0].as<const T>(), out.as<T>(),
                                   has_indices ? io.outputs[1].as<std::int64_t>() : nullptr,
                                   pooling_.windows, is_column_major_});
    });
  }

 private:
  Pooling pooling_;
  bool is_column_major_;
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
  const T* in;
  T* out;
  Windows windows;
  int p;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const std::int64_t places = windows.out_places();
    const TapsInside taps(windows, Place(i % places, windows.out));
    const T* plane = in + i / places * windows.in_places();
    WideFloat<T> sum = 0;
    taps.visit(windows, [&](std::int64_t offset) { sum += power_of(widened(plane[offset]), p); });
    out[i] = narrowed<T>(root_of(sum, p));
  }
};

/// LpPool, and GlobalLpPool as one window.
class LpPool {
 public:
  explicit LpPool(const KernelRequest& request);

  void run(const KernelIo& io, const Loops& loops) const {
    const TensorView& out = io.outputs[0];
    visit_type(out.type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
      loops.each(out.elements(),
                 LpPoolElement<T>{io.inputs[0].as<const T>(), out.as<T>(), pooling_.windows, p_});
    });
  }

 private:
  Pooling pooling_;
  int p_;
};

AveragePool::AveragePool(const KernelRequest& request)
    : pooling_(request), counts_padding_(request.node.int_attribute("count_include_pad", 0) != 0) {
  require_type<Joined<Floats, Halves>>(request);
}

MaxPool::MaxPool(const KernelRequest& request)
    : pooling_(request), is_column_major_(request.node.int_attribute("storage_order", 0) != 0) {
  require_type<Served>(request);
  if (!pooling_.sees_image && request.outputs[0].elements() > 0)
    fail("node '{}': MaxPool has windows that see nothing but padding", request.node.name);
}

LpPool::LpPool(const KernelRequest& request)
    : pooling_(request), p_(static_cast<int>(request.node.int_attribute("p", 2))) {
  require_type<Joined<Floats, Halves>>(request);
  if (p_ < 1)
    fail("node '{}': {} wants a p of at least 1", request.node.name, request.node.op_type);
}

std::unique_ptr<Kernel> make_average_pool(const KernelRequest& request) {
  if constexpr (on_cpu)
    if (auto kernel = cpu::make_onednn_average_pool(request)) return kernel;
  return make_loops<AveragePool>(request);
}

std::unique_ptr<Kernel> make_max_pool(const KernelRequest& request) {
  if constexpr (on_cpu)
    if (auto kernel = cpu::make_onednn_max_pool(request)) return kernel;
  return make_loops<MaxPool>(request);
}

std::unique_ptr<Kernel> make_lp_pool(const KernelRequest& request) {
  return make_loops<LpPool>(request);
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
