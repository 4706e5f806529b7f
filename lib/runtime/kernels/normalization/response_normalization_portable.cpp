// LRN and LpNormalization.

#include <cmath>
#include <cstdint>

#include "graph/arena.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/normalization/kernels.h"
#include "runtime/kernels/normalization/response_normalization.h"

namespace autopar::runtime::AUTOPAR_DEVICE {

template <typename T>
struct ResponsePlanes {
  using W = Widened<T>;

  const T* in;  ///< [images, channels, places]
  T* out;
  std::int64_t channels;
  std::int64_t places;
  std::int64_t before;  ///< channels that are added up
  std::int64_t behind;
  W factor;
  W beta;
  W bias;

  AUTOPAR_ELEMENTWISE auto operator()(std::int64_t plane) const {
    const std::int64_t channel = plane % channels;
    const std::int64_t first = channel > before ? channel - before : 0;
    const std::int64_t last = channel + behind < channels ? channel + behind : channels - 1;
    const T* own = in + plane * places;
    return [own, from = own - (channel - first) * places, to = out + plane * places,
            count = last - first + 1, places = places, factor = factor, beta = beta,
            bias = bias](std::int64_t place) {
      W sum = 0;
      for (std::int64_t c = 0; c < count; ++c) {
        const W x = widened(from[c * places + place]);
        sum += x * x;
      }
      const W base = bias + factor * sum;
      to[place] = narrowed<T>(widened(own[place]) / static_cast<W>(std::pow(base, beta)));
    };
  }
};

/// The elements' shares in the norms of their rows, which are strided; `p` is 1 or 2.
template <typename T, int p>
struct NormTerms {
  const T* in;
  AxisExtents extents;

  AUTOPAR_ELEMENTWISE auto operator()(std::int64_t row) const {
    return [from = in + extents.row_offset(row), stride = extents.inner](std::int64_t i) {
      const Widened<T> x = widened(from[i * stride]);
      return p == 2 ? x * x : (x < 0 ? -x : x);
    };
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
struct DividedBlocks {
  const T* in;
  T* out;
  const Widened<T>* norms;
  AxisExtents extents;

  AUTOPAR_ELEMENTWISE auto operator()(std::int64_t outer) const {
    const std::int64_t begin = outer * extents.extent * extents.inner;
    return [from = in + begin, to = out + begin, of_block = norms + outer * extents.inner,
            inner = extents.inner](std::int64_t i) {
      const Widened<T> norm = of_block[inner == 1 ? 0 : i % inner];
      to[i] = narrowed<T>(norm == 0 ? Widened<T>{0} : widened(from[i]) / norm);
    };
  }
};

template <typename T, int p>
std::unique_ptr<Kernel> make_norms(const KernelRequest& request, const AxisExtents& extents) {
  using W = Widened<T>;
  const auto run = [=](const KernelIo& io, const Loops& loops) {
    if (io.outputs[0].elements() == 0) return;
    const T* in = io.inputs[0].as<const T>();
    auto* norms = reinterpret_cast<W*>(io.scratch);
    loops.sums<W>(extents.rows(), extents.extent, NormTerms<T, p>{in, extents},
                  StoreNorm<W, p>{norms});
    loops.rows(extents.outer, extents.extent * extents.inner,
               DividedBlocks<T>{in, io.outputs[0].as<T>(), norms, extents});
  };
  return make_loops(request, run, graph::aligned(extents.rows() * std::int64_t{sizeof(double)}));
}

std::unique_ptr<Kernel> make_lrn(const KernelRequest& request) {
  if constexpr (on_cpu)
    if (auto kernel = cpu::make_onednn_lrn(request)) return kernel;
  const ResponseWindow window(request);
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    return make_loops(request, [=](const KernelIo& io, const Loops& loops) {
      using W = Widened<T>;
      const TensorView& out = io.outputs[0];
      if (out.elements() == 0) return;
      const std::int64_t planes = out.shape[0] * out.shape[1];
      const std::int64_t places = out.elements() / planes;
      loops.rows(planes, places,
                 ResponsePlanes<T>{io.inputs[0].as<const T>(), out.as<T>(), out.shape[1], places,
                                   window.before, window.behind,
                                   static_cast<W>(window.alpha / static_cast<double>(window.size)),
                                   static_cast<W>(window.beta), static_cast<W>(window.bias)});
    });
  });
}

std::unique_ptr<Kernel> make_lp_normalization(const KernelRequest& request) {
  const std::int64_t p = request.node.int_attribute("p", 2);
  if (p != 1 && p != 2)
    fail("node '{}': LpNormalization has a p of 1 or 2, not {}", request.node.name, p);
  const AxisExtents extents = extents_around_axis(request, request.inputs.at(0).shape, -1);
  return kernel_for_type(request, request.inputs[0].type, AllFloats{}, [&]<typename T>(T) {
    return p == 2 ? make_norms<T, 2>(request, extents) : make_norms<T, 1>(request, extents);
  });
}

}  // namespace autopar::runtime::AUTOPAR_DEVICE
