// Conv of float32 images whose channels are last and whose groups are a channel each: neighbouring
// channels are multiplied by their own weights, tap by tap. Of windows that lie side by side each
// tap's weights are read once.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "graph/arena.h"
#include "runtime/device.h"
#include "runtime/kernels/common/channels_last.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/convolution/direct_convolution.h"
#include "runtime/kernels/convolution/kernels.h"
#include "runtime/kernels/cpu/in_threads.h"

namespace autopar::runtime::cpu {
namespace {

/// So many windows at once: a tap's weights and a window's floats beside their sums fill registers.
constexpr int together = 4;

/// Some windows that see the same taps.
struct DepthwiseOperands {
  std::array<const float*, together> windows;  ///< the first float of each
  std::span<const std::int64_t> taps;          ///< floats from there
  const float* weights;                        ///< [tap, channels]
  const float* bias;                           ///< [channels]
  std::int64_t channels;
  float* out;  ///< [window, channels]
};

/// Computes channels from `first` on: whole vectors of them, and the rest one by one.
template <int lanes, int windows>
[[gnu::always_inline]] inline void multiply_vectors(const DepthwiseOperands& of,
                                                    std::int64_t first) {
  using Lanes = typename Vector<lanes>::Floats;
  constexpr int vectors = 2;
  const float* windows_at[windows];
  for (; first + vectors * lanes <= of.channels; first += vectors * lanes) {
    Lanes sums[windows][vectors];
#pragma GCC unroll 4
    for (int i = 0; i < windows; ++i) {
      windows_at[i] = of.windows[static_cast<std::size_t>(i)] + first;
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) load(sums[i][v], of.bias + first + v * lanes);
    }
    const float* weights = of.weights + first;
    for (const std::int64_t tap : of.taps) {
      Lanes factors[vectors];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) load(factors[v], weights + v * lanes);
#pragma GCC unroll 4
      for (int i = 0; i < windows; ++i)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) {
          Lanes seen;
          load(seen, windows_at[i] + tap + v * lanes);
          sums[i][v] += seen * factors[v];
        }
      weights += of.channels;
    }
#pragma GCC unroll 4
    for (int i = 0; i < windows; ++i)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v)
        std::memcpy(of.out + i * of.channels + first + v * lanes, &sums[i][v], sizeof(Lanes));
  }
  for (; first < of.channels; ++first)
    for (int i = 0; i < windows; ++i) {
      float sum = of.bias[first];
      for (std::size_t tap = 0; tap < of.taps.size(); ++tap)
        sum += of.windows[static_cast<std::size_t>(i)][of.taps[tap] + first] *
               of.weights[static_cast<std::int64_t>(tap) * of.channels + first];
      of.out[i * of.channels + first] = sum;
    }
}

template <int lanes>
struct MultiplyTogether {
  [[gnu::always_inline]] static inline void run(const DepthwiseOperands& of) {
    multiply_vectors<lanes, together>(of, 0);
  }
};
template <int lanes>
struct MultiplyOne {
  [[gnu::always_inline]] static inline void run(const DepthwiseOperands& of) {
    multiply_vectors<lanes, 1>(of, 0);
  }
};

class DepthwiseConv final : public Kernel {
 public:
  DepthwiseConv(const KernelRequest& request, DirectConvolution of)
      : of_(std::move(of)), threads_(request.device.threads()) {
    const Windows& windows = of_.sizes.windows;
    for (std::int64_t y = 0; y < of_.rows.taps; ++y)
      for (std::int64_t x = 0; x < of_.columns.taps; ++x)
        taps_.push_back(y * windows.dilations[DirectConvolution::height] * of_.row_numbers +
                        x * windows.dilations[DirectConvolution::width] * of_.sizes.channels);
    const std::int64_t bytes = of_.sizes.channels * of_.depth * 4;
    weights_ =
        request.kept(1,
                     fmt::format("taps {} to {} by {} to {}, channels last", of_.rows.first_tap,
                                 of_.rows.first_tap + of_.rows.taps, of_.columns.first_tap,
                                 of_.columns.first_tap + of_.columns.taps),
                     bytes, [&] {
                       auto weights = request.device.allocate(bytes);
                       write_weights(request.inputs[1].as<const float>(),
                                     reinterpret_cast<float*>(weights.get()));
                       return weights;
                     });
  }

  bool reads(std::size_t input) const override { return input != 1; }

  std::int64_t scratch_bytes() const override {
    return bias_bytes() + graph::aligned(of_.padded_numbers() * 4);
  }

  void run(const KernelIo& io) override {
    auto* const bias = reinterpret_cast<float*>(io.scratch);
    if (is_given(io.inputs, 2))
      std::copy_n(io.inputs[2].as<const float>(), of_.sizes.channels, bias);
    else
      std::fill_n(bias, of_.sizes.channels, 0.0F);
    const auto* const in = io.inputs[0].as<const float>();
    auto* const padded = reinterpret_cast<float*>(io.scratch + bias_bytes());
    const std::int64_t padded_rows = of_.is_padded ? of_.sizes.images * of_.rows.extent : 0;
    constexpr std::int64_t least_work = 1 << 14;  // products that are worth waking a thread for
    const bool is_large = of_.windows() * of_.sizes.channels * of_.depth > least_work;
    const std::int64_t parts = is_large ? threads_ : 1;
    in_threads(is_large ? threads_ : 1, [&] {
      if (of_.is_padded) {
#pragma omp for
        for (std::int64_t y = 0; y < padded_rows; ++y) write_padded_row(of_, in, y, padded);
      }
#pragma omp for nowait
      for (std::int64_t part = 0; part < parts; ++part)
        compute(Range{0, of_.windows()}.part(part, parts), of_.is_padded ? padded : in, bias,
                io.outputs[0].as<float>());
    });
  }

 private:
  std::int64_t bias_bytes() const { return graph::aligned(of_.sizes.channels * 4); }

  void write_weights(const float* stored, float* to) const {
    const Windows& windows = of_.sizes.windows;
    const std::int64_t all_taps = windows.tap_places();
    for (std::int64_t y = of_.rows.first_tap; y < of_.rows.first_tap + of_.rows.taps; ++y)
      for (std::int64_t x = of_.columns.first_tap; x < of_.columns.first_tap + of_.columns.taps;
           ++x)
        for (std::int64_t c = 0; c < of_.sizes.channels; ++c)
          *to++ = stored[c * all_taps + y * windows.taps[DirectConvolution::width] + x];
  }

  void compute(Range windows, const float* in, const float* bias, float* out) const {
    static const auto multiply_together =
        function_in_lanes<MultiplyTogether, const DepthwiseOperands&>();
    static const auto multiply_one = function_in_lanes<MultiplyOne, const DepthwiseOperands&>();
    const std::int64_t channels = of_.sizes.channels;
    DepthwiseOperands operands{.windows = {},
                               .taps = taps_,
                               .weights = reinterpret_cast<const float*>(weights_.get()),
                               .bias = bias,
                               .channels = channels,
                               .out = nullptr};
    while (windows.count() > 0) {
      const std::int64_t count = windows.count() >= together ? together : 1;
      for (std::int64_t i = 0; i < count; ++i)
        operands.windows[static_cast<std::size_t>(i)] = in + of_.window_offset(windows.begin + i);
      operands.out = out + windows.begin * channels;
      count == together ? multiply_together(operands) : multiply_one(operands);
      windows.begin += count;
    }
  }

  DirectConvolution of_;
  int threads_;
  std::vector<std::int64_t> taps_;      ///< floats from a window's first
  std::shared_ptr<std::byte> weights_;  ///< [tap, channel]
};

}  // namespace

std::unique_ptr<Kernel> make_depthwise_conv(const KernelRequest& last) {
  const KernelRequest request = with_channels_second(last);
  return std::make_unique<DepthwiseConv>(
      request, DirectConvolution(convolution_sizes(request), reads_channels_second(request.node)));
}

bool serves_depthwise_conv(const graph::Node& node, std::span<const TensorView> inputs,
                           std::span<const TensorView> outputs) {
  const Shape& weights = inputs[1].shape;
  const std::int64_t groups = node.int_attribute("group", 1);
  return groups > 1 && weights[1] == 1 && weights[0] == groups &&
         has_small_copy(node, inputs, std::span(outputs[0].shape).subspan(1));
}

}  // namespace autopar::runtime::cpu
