// Conv of series of float32 as ONNX has them, whose groups are a channel each: of a channel many
// places, which lie together, are multiplied by one tap after the other.

#include <algorithm>
#include <cstring>

#include "runtime/device.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/convolution/convolution.h"
#include "runtime/kernels/convolution/kernels.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/lanes.h"

namespace autopar::runtime::cpu {
namespace {

struct Taps {
  const float* weights;
  std::int64_t count;
  std::int64_t dilation;
  float bias;
};

/// Windows that follow one another and see no padding.
struct WholeWindows {
  Taps taps;
  const float* in;  ///< the first float of the first one
  float* out;
  std::int64_t count;
};

template <int lanes>
struct SumWindows {
  [[gnu::always_inline]] static inline void run(const WholeWindows& of) {
    constexpr int most_vectors = 4;
    std::int64_t first = 0;
    for (; first + most_vectors * lanes <= of.count; first += most_vectors * lanes)
      sum_vectors<most_vectors>(of, first);
    for (; first + lanes <= of.count; first += lanes) sum_vectors<1>(of, first);
    for (; first < of.count; ++first) {
      float sum = of.taps.bias;
      for (std::int64_t tap = 0; tap < of.taps.count; ++tap)
        sum += of.taps.weights[tap] * of.in[first + tap * of.taps.dilation];
      of.out[first] = sum;
    }
  }

 private:
  template <int vectors>
  [[gnu::always_inline]] static inline void sum_vectors(const WholeWindows& of,
                                                        std::int64_t first) {
    using Lanes = typename Vector<lanes>::Floats;
    Lanes sums[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) sums[v] = Lanes{} + of.taps.bias;
    const float* in = of.in + first;
    for (std::int64_t tap = 0; tap < of.taps.count; ++tap, in += of.taps.dilation) {
      const float weight = of.taps.weights[tap];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        Lanes seen;
        load(seen, in + v * lanes);
        sums[v] += weight * seen;
      }
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v)
      std::memcpy(of.out + first + v * lanes, &sums[v], sizeof(Lanes));
  }
};

/// A channel's series of `extent` places, and its windows, of which the first begins so many places
/// before it.
struct Series {
  const float* in;
  std::int64_t extent;
  float* out;
  std::int64_t windows;
  std::int64_t padding;
};

/// Windows from `begin` to `end`, which may see padding.
void sum_cut_windows(const Series& of, const Taps& taps, std::int64_t begin, std::int64_t end) {
  for (std::int64_t window = begin; window < end; ++window) {
    float sum = taps.bias;
    for (std::int64_t tap = 0; tap < taps.count; ++tap) {
      const std::int64_t place = window - of.padding + tap * taps.dilation;
      if (place >= 0 && place < of.extent) sum += taps.weights[tap] * of.in[place];
    }
    of.out[window] = sum;
  }
}

void convolve(const Series& of, const Taps& taps) {
  static const auto sum_whole_windows = function_in_lanes<SumWindows, const WholeWindows&>();
  const std::int64_t begin = std::clamp<std::int64_t>(of.padding, 0, of.windows);
  const std::int64_t last = of.extent + of.padding - (taps.count - 1) * taps.dilation;
  const std::int64_t end = std::clamp(last, begin, of.windows);
  sum_cut_windows(of, taps, 0, begin);
  if (begin < end)
    sum_whole_windows({taps, of.in + begin - of.padding, of.out + begin, end - begin});
  sum_cut_windows(of, taps, end, of.windows);
}

}  // namespace

bool serves_depthwise_series(const KernelRequest& request) {
  const Shape& weights = request.inputs[1].shape;
  if (request.inputs[0].type != DataType::float32 || weights.size() != 3 || weights[1] != 1)
    return false;
  const ConvolutionSizes of = convolution_sizes(request);
  return of.groups == of.channels && of.out_channels == of.channels &&
         of.windows.strides[Windows::dimensions - 1] == 1;
}

std::unique_ptr<Kernel> make_depthwise_series(const KernelRequest& request) {
  const auto run = [of = convolution_sizes(request),
                    threads = request.device.threads()](const KernelIo& io) {
    constexpr int along = Windows::dimensions - 1;
    const std::int64_t extent = of.windows.in[along];
    const std::int64_t windows = of.windows.out[along];
    const std::int64_t taps = of.windows.taps[along];
    const std::int64_t rows = of.images * of.channels;
    const float* const bias = optional_data<const float>(io.inputs, 2);
    constexpr std::int64_t least_work = 1 << 15;  // products that are worth waking a thread for
    for_in_threads(rows * windows * taps >= least_work ? threads : 1, rows, [&](std::int64_t row) {
      const std::int64_t channel = row % of.channels;
      convolve({io.inputs[0].as<const float>() + row * extent, extent,
                io.outputs[0].as<float>() + row * windows, windows, of.windows.pads[along]},
               {io.inputs[1].as<const float>() + channel * taps, taps, of.windows.dilations[along],
                bias == nullptr ? 0.0F : bias[channel]});
    });
  };
  return make_kernel(run);
}

}  // namespace autopar::runtime::cpu
