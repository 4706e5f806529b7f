// ConvInteger and QuantizedConv whose groups are a channel each: neighbouring channels are
// multiplied by their own weights, tap by tap.

#include <algorithm>
#include <array>
#include <vector>

#include "base/simd_clones.h"
#include "graph/arena.h"
#include "runtime/device.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/transposition.h"
#include "runtime/kernels/product/onednn_product.h"
#include "runtime/kernels/quantized/byte_conv.h"
#include "runtime/kernels/quantized/byte_images.h"
#include "runtime/kernels/quantized/integers.h"

namespace autopar::runtime::cpu {
namespace {

constexpr std::int64_t block_channels = 64;
constexpr std::int64_t block_windows = 16;

/// Some channels of a window, and what they are multiplied by.
struct Window {
  const std::uint8_t* seen;                   ///< under the first tap
  std::span<const std::int64_t> tap_offsets;  ///< numbers
  const std::int16_t* weights;                ///< [tap, channels]
  std::int64_t channels;                      ///< of the image
  std::int64_t count;                         ///< of the block
};

/// What becomes of each channel's sum.
struct Channels {
  std::array<std::int32_t, block_channels> too_much = {};  ///< zero point times weights
  std::array<float, block_channels> scales = {};
  std::array<float, block_channels> biases = {};
};

AUTOPAR_SIMD_CLONES void multiply(const Window& of, std::int32_t* sums) {
  std::fill_n(sums, of.count, 0);
  const std::int16_t* weights = of.weights;
  for (const std::int64_t offset : of.tap_offsets) {
    const std::uint8_t* const seen = of.seen + offset;
    for (std::int64_t c = 0; c < of.count; ++c) sums[c] += seen[c] * weights[c];
    weights += of.channels;
  }
}

AUTOPAR_SIMD_CLONES void finish(const std::int32_t* sums, const Channels& of, std::int64_t count,
                                float* results) {
  for (std::int64_t c = 0; c < count; ++c) {
    const auto i = static_cast<std::size_t>(c);
    results[c] = static_cast<float>(sums[c] - of.too_much[i]) * of.scales[i] + of.biases[i];
  }
}
AUTOPAR_SIMD_CLONES void finish(const std::int32_t* sums, const Channels& of, std::int64_t count,
                                std::int32_t* results) {
  for (std::int64_t c = 0; c < count; ++c)
    results[c] = sums[c] - of.too_much[static_cast<std::size_t>(c)];
}

class ByteDepthwise final : public Kernel {
 public:
  ByteDepthwise(const KernelRequest& request, DirectConvolution of, const ByteConvInputs& inputs)
      : of_(std::move(of)), inputs_(inputs), threads_(request.device.threads()) {
    const Windows& windows = of_.sizes.windows;
    for (std::int64_t y = 0; y < of_.rows.taps; ++y)
      for (std::int64_t x = 0; x < of_.columns.taps; ++x)
        tap_offsets_.push_back(y * windows.dilations[DirectConvolution::height] * of_.row_numbers +
                               x * windows.dilations[DirectConvolution::width] *
                                   of_.sizes.channels);
    keep_weights(request.inputs[1]);
  }

  bool reads(std::size_t input) const override { return input != 1; }
  std::int64_t scratch_bytes() const override { return padded_bytes(of_, ByteForm::quads); }

  void run(const KernelIo& io) override {
    const ByteImages images = byte_images(io, inputs_.zero, io.scratch);
    const std::int64_t rows = of_.sizes.images * of_.rows.extent;
    const std::int64_t channel_blocks = (of_.sizes.channels + block_channels - 1) / block_channels;
    const std::int64_t window_blocks = (of_.windows() + block_windows - 1) / block_windows;
    constexpr std::int64_t least_work = 1 << 14;
    const bool is_large = of_.windows() * of_.sizes.channels * of_.depth > least_work;
    in_threads(is_large ? threads_ : 1, [&] {
#pragma omp for
      for (std::int64_t y = 0; y < rows; ++y) write_padded_row(of_, images, ByteForm::quads, y);
#pragma omp for nowait
      for (std::int64_t i = 0; i < channel_blocks * window_blocks; ++i) {
        const std::int64_t channel = i / window_blocks * block_channels;
        const std::int64_t window = i % window_blocks * block_windows;
        inputs_.scale ? compute_block<float>(io, images, channel, window)
                      : compute_block<std::int32_t>(io, images, channel, window);
      }
    });
  }

 private:
  /// By tap, and moved to where they are signed.
  void keep_weights(const TensorView& stored) {
    const Windows& windows = of_.sizes.windows;
    const std::int64_t taps = windows.tap_places();
    const std::int32_t shift = byte_shift(stored.type);
    for (std::int64_t y = 0; y < of_.rows.taps; ++y)
      for (std::int64_t x = 0; x < of_.columns.taps; ++x) {
        const std::int64_t tap = (of_.rows.first_tap + y) * windows.taps[DirectConvolution::width] +
                                 of_.columns.first_tap + x;
        for (std::int64_t c = 0; c < of_.sizes.channels; ++c) {
          const std::byte byte = stored.data[c * taps + tap];
          weights_.push_back(
              static_cast<std::int16_t>(shift == 0 ? std::int32_t{static_cast<std::int8_t>(byte)}
                                                   : std::to_integer<std::int32_t>(byte) - shift));
        }
      }
  }

  Channels channels_of(const KernelIo& io, std::int32_t zero, std::int64_t first,
                       std::int64_t count) const {
    Channels channels;
    const auto number_of = [&](std::optional<std::size_t> input, std::int64_t channel) {
      if (!input || !is_given(io.inputs, *input)) return 0.0F;
      const TensorView& numbers = io.inputs[*input];
      return numbers.as<const float>()[numbers.elements() == 1 ? 0 : channel];
    };
    for (std::int64_t c = 0; c < count; ++c) {
      const auto i = static_cast<std::size_t>(c);
      for (std::size_t tap = 0; tap < tap_offsets_.size(); ++tap)
        channels.too_much[i] += zero * weights_[tap * static_cast<std::size_t>(of_.sizes.channels) +
                                                static_cast<std::size_t>(first + c)];
      channels.scales[i] = number_of(inputs_.scale, first + c);
      channels.biases[i] = number_of(inputs_.bias, first + c);
    }
    return channels;
  }

  template <typename T>
  void compute_block(const KernelIo& io, const ByteImages& images, std::int64_t channel,
                     std::int64_t window) const {
    const std::int64_t channels = of_.sizes.channels;
    const std::int64_t count = std::min(block_channels, channels - channel);
    const std::int64_t windows = std::min(block_windows, of_.windows() - window);
    const Channels of_block = channels_of(io, images.zero, channel, count);
    std::array<std::int32_t, block_channels> sums;
    std::array<T, block_windows * block_channels> results;
    for (std::int64_t i = 0; i < windows; ++i) {
      multiply({reinterpret_cast<const std::uint8_t*>(images.padded) +
                    of_.window_offset(window + i) + channel,
                tap_offsets_, weights_.data() + channel, channels, count},
               sums.data());
      finish(sums.data(), of_block, count, results.data() + i * block_channels);
    }
    write_windows(results.data(), channel, count, window, windows, io.outputs[0].as<T>());
  }

  /// Brings results, [window, block_channels], to `out`, [image, channel, place].
  template <typename T>
  void write_windows(const T* results, std::int64_t channel, std::int64_t count,
                     std::int64_t window, std::int64_t windows, T* out) const {
    const std::int64_t places = of_.sizes.windows.out_places();
    while (windows > 0) {
      const std::int64_t image = window / places;
      const std::int64_t place = window % places;
      const std::int64_t in_image = std::min(windows, places - place);
      T* const to = out + (image * of_.sizes.channels + channel) * places + place;
      transpose<std::uint32_t>({.in = reinterpret_cast<const std::uint32_t*>(results),
                                .out = reinterpret_cast<std::uint32_t*>(to),
                                .rows = count,
                                .columns = in_image,
                                .in_row = block_channels,
                                .out_row = places});
      results += in_image * block_channels;
      window += in_image;
      windows -= in_image;
    }
  }

  DirectConvolution of_;
  ByteConvInputs inputs_;
  int threads_;
  std::vector<std::int64_t> tap_offsets_;  ///< from a window's first number
  std::vector<std::int16_t> weights_;      ///< [tap, channel]
};

}  // namespace

std::unique_ptr<Kernel> make_byte_depthwise(const KernelRequest& request, DirectConvolution of,
                                            const ByteConvInputs& inputs) {
  return std::make_unique<ByteDepthwise>(request, std::move(of), inputs);
}

}  // namespace autopar::runtime::cpu
