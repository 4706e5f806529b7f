#pragma once

#include <cmath>
#include <cstdint>

#include "graph/arena.h"
#include "runtime/kernels/floats.h"
#include "runtime/kernels/kernel_arguments.h"

/// LRN and LpNormalization, for all devices (cpu/loops.h tells what their classes are).
namespace autopar::runtime {

/// What LRN says: channels [channel - before, channel + behind] are added up.
struct ResponseWindow {
  std::int64_t size = 1;
  std::int64_t before = 0;
  std::int64_t behind = 0;
  double alpha = 1e-4;
  double beta = 0.75;
  double bias = 1;

  explicit ResponseWindow(const KernelRequest& request);
};

template <typename T>
struct ResponsePlane {
  using W = WideFloat<T>;

  const T* in;  ///< of the first channel that is added up
  const T* own;
  T* out;
  std::int64_t channels;
  std::int64_t places;
  W factor;
  W beta;
  W bias;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t place) const {
    W sum = 0;
    for (std::int64_t c = 0; c < channels; ++c) {
      const W x = widened(in[c * places + place]);
      sum += x * x;
    }
    const W base = bias + factor * sum;
    out[place] = narrowed<T>(widened(own[place]) / static_cast<W>(std::pow(base, beta)));
  }
};

template <typename T>
struct ResponsePlanes {
  using W = WideFloat<T>;

  const T* in;
  T* out;
  std::int64_t channels;
  std::int64_t places;
  std::int64_t before;
  std::int64_t behind;
  W factor;
  W beta;
  W bias;

  AUTOPAR_ELEMENTWISE ResponsePlane<T> operator()(std::int64_t plane) const {
    const std::int64_t channel = plane % channels;
    const std::int64_t first = channel > before ? channel - before : 0;
    const std::int64_t last = channel + behind < channels ? channel + behind : channels - 1;
    const T* own = in + plane * places;
    return {own - (channel - first) * places,
            own,
            out + plane * places,
            last - first + 1,
            places,
            factor,
            beta,
            bias};
  }
};

class LocalResponseNormalization {
 public:
  explicit LocalResponseNormalization(const KernelRequest& request) : window_(request) {}
  static std::int64_t scratch_bytes() { return 0; }

  template <typename Loops>
  void run(const KernelIo& io, const Loops& loops) const {
    const TensorView& out = io.outputs[0];
    if (out.elements() == 0) return;
    const std::int64_t channels = out.shape[1];
    const std::int64_t planes = out.shape[0] * channels;
    visit_type(out.type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
      using W = WideFloat<T>;
      const std::int64_t places = out.elements() / planes;
      loops.rows(
          planes, places,
          ResponsePlanes<T>{io.inputs[0].as<const T>(), out.as<T>(), channels, places,
                            window_.before, window_.behind,
                            static_cast<W>(window_.alpha / static_cast<double>(window_.size)),
                            static_cast<W>(window_.beta), static_cast<W>(window_.bias)});
    });
  }

 private:
  ResponseWindow window_;
};

/// An element's share in the norm of its row, which is strided.
template <typename T>
struct NormTerm {
  const T* in;
  std::int64_t stride;
  bool is_squared;

  AUTOPAR_ELEMENTWISE WideFloat<T> operator()(std::int64_t i) const {
    const WideFloat<T> x = widened(in[i * stride]);
    if (is_squared) return x * x;
    return x < 0 ? -x : x;
  }
};

template <typename T>
struct NormTerms {
  const T* in;
  AxisExtents extents;
  bool is_squared;

  AUTOPAR_ELEMENTWISE NormTerm<T> operator()(std::int64_t row) const {
    const std::int64_t begin =
        row / extents.inner * extents.extent * extents.inner + row % extents.inner;
    return {in + begin, extents.inner, is_squared};
  }
};

template <typename W>
struct StoreNorm {
  W* norms;
  bool is_squared;
  AUTOPAR_ELEMENTWISE void operator()(std::int64_t row, W sum) const {
    norms[row] = is_squared ? static_cast<W>(std::sqrt(sum)) : sum;
  }
};

/// Elements divided by the norms of their rows; by a norm of 0 they are 0.
template <typename T>
struct DividedElement {
  const T* in;
  T* out;
  const WideFloat<T>* norms;
  AxisExtents extents;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const std::int64_t inner = extents.inner;
    const WideFloat<T> norm = norms[i / (extents.extent * inner) * inner + i % inner];
    out[i] = narrowed<T>(norm == 0 ? WideFloat<T>{0} : widened(in[i]) / norm);
  }
};

class LpNormalization {
 public:
  explicit LpNormalization(const KernelRequest& request);

  std::int64_t scratch_bytes() const {
    return graph::aligned(extents_.rows() * static_cast<std::int64_t>(sizeof(double)));
  }

  template <typename Loops>
  void run(const KernelIo& io, const Loops& loops) const {
    const TensorView& out = io.outputs[0];
    if (out.elements() == 0) return;
    visit_type(out.type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
      using W = WideFloat<T>;
      const T* in = io.inputs[0].as<const T>();
      auto* norms = reinterpret_cast<W*>(io.scratch);
      loops.template sums<W>(extents_.rows(), extents_.extent,
                             NormTerms<T>{in, extents_, is_squared_},
                             StoreNorm<W>{norms, is_squared_});
      loops.each(out.elements(), DividedElement<T>{in, out.as<T>(), norms, extents_});
    });
  }

 private:
  AxisExtents extents_;
  bool is_squared_;
};

}  // namespace autopar::runtime
