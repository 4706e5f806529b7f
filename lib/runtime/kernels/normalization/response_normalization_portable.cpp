// LRN and LpNormalization.

#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "graph/arena.h"
#include "runtime/kernels/common/floats.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/normalization/kernels.h"
#include "runtime/kernels/normalization/onednn_lrn.h"
#include "runtime/kernels/normalization/response_normalization.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

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

/// An element's share in the norm of its row, which is strided; `p` is 1 or 2.
template <typename T, int p>
struct NormTerm {
  const T* in;
  std::int64_t stride;

  AUTOPAR_ELEMENTWISE WideFloat<T> operator()(std::int64_t i) const {
    const WideFloat<T> x = widened(in[i * stride]);
    if constexpr (p == 2) return x * x;
    return x < 0 ? -x : x;
  }
};

template <typename T, int p>
struct NormTerms {
  const T* in;
  AxisExtents extents;

  AUTOPAR_ELEMENTWISE NormTerm<T, p> operator()(std::int64_t row) const {
    const std::int64_t begin =
        row / extents.inner * extents.extent * extents.inner + row % extents.inner;
    return {in + begin, extents.inner};
  }
};

template <typename W, int p>
struct StoreNorm {
  W* norms;
  AUTOPAR_ELEMENTWISE void operator()(std::int64_t row, W sum) const {
    norms[row] = p == 2 ? static_cast<W>(std::sqrt(sum)) : sum;
  }
};

/// Elements divided by the norms of their rows; by a norm of 0 they are 0.
template <typename T>
struct DividedBlock {
  const T* in;
  T* out;
  const WideFloat<T>* norms;
  std::int64_t inner;

  AUTOPAR_ELEMENTWISE void operator()(std::int64_t i) const {
    const WideFloat<T> norm = norms[inner == 1 ? 0 : i % inner];
    out[i] = narrowed<T>(norm == 0 ? WideFloat<T>{0} : widened(in[i]) / norm);
  }
};

template <typename T>
struct DividedBlocks {
  const T* in;
  T* out;
  const WideFloat<T>* norms;
  AxisExtents extents;

  AUTOPAR_ELEMENTWISE DividedBlock<T> operator()(std::int64_t outer) const {
    const std::int64_t begin = outer * extents.extent * extents.inner;
    return {in + begin, out + begin, norms + outer * extents.inner, extents.inner};
  }
};

class LpNormalization {
 public:
  explicit LpNormalization(const KernelRequest& request);

  std::int64_t scratch_bytes() const {
    return graph::aligned(extents_.rows() * static_cast<std::int64_t>(sizeof(double)));
  }

  void run(const KernelIo& io, const Loops& loops) const {
    const TensorView& out = io.outputs[0];
    if (out.elements() == 0) return;
    visit_type(out.type, Joined<Floats, Halves>{}, [&]<typename T>(T) {
      if (is_squared_)
        normalize<T, 2>(io, loops);
      else
        normalize<T, 1>(io, loops);
    });
  }

 private:
  template <typename T, int p>
  void normalize(const KernelIo& io, const Loops& loops) const {
    using W = WideFloat<T>;
    const T* in = io.inputs[0].as<const T>();
    auto* norms = reinterpret_cast<W*>(io.scratch);
    loops.sums<W>(extents_.rows(), extents_.extent, NormTerms<T, p>{in, extents_},
                  StoreNorm<W, p>{norms});
    loops.rows(extents_.outer, extents_.extent * extents_.inner,
               DividedBlocks<T>{in, io.outputs[0].as<T>(), norms, extents_});
  }

  AxisExtents extents_;
  bool is_squared_;
};

LpNormalization::LpNormalization(const KernelRequest& request) {
  const DataType type = request.inputs.at(0).type;
  if (!visit_type(type, Joined<Floats, Halves>{}, [](auto) {})) fail_type(request, type);
  const Shape& shape = request.inputs[0].shape;
  const std::int64_t p = request.node.int_attribute("p", 2);
  if (p != 1 && p != 2)
    fail("node '{}': LpNormalization has a p of 1 or 2, not {}", request.node.name, p);
  is_squared_ = p == 2;
  extents_ = extents_around(
      shape, checked_axis(request, request.node.int_attribute("axis", -1), shape.size()));
}

std::unique_ptr<Kernel> make_lrn(const KernelRequest& request) {
  if constexpr (on_cpu)
    if (auto kernel = cpu::make_onednn_lrn(request)) return kernel;
  return make_loops<LocalResponseNormalization>(request);
}

std::unique_ptr<Kernel> make_lp_normalization(const KernelRequest& request) {
  return make_loops<LpNormalization>(request);
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
