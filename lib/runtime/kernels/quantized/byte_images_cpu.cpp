#include "runtime/kernels/quantized/byte_images.h"

#include <algorithm>

#include "graph/arena.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/product/onednn_product.h"

namespace autopar::runtime::cpu {
namespace {

constexpr int height = DirectConvolution::height;
constexpr int width = DirectConvolution::width;

std::int64_t number_bytes(ByteForm form) { return 4 / numbers_in_word(form); }

/// Writes a row of the image at `from`, the channels of a place together.
template <typename Number>
void write_places(const DirectConvolution& of, const std::uint8_t* from, std::int64_t begin,
                  std::int64_t end, std::uint8_t moved, Number* to) {
  constexpr std::int64_t together = 64;  // rows of channels that the first-level cache holds
  const std::int64_t channels = of.sizes.channels;
  const std::int64_t channel_places =
      std::int64_t{of.sizes.windows.in[height]} * of.sizes.windows.in[width];
  for (std::int64_t first = 0; first < channels; first += together) {
    const std::int64_t last = std::min(first + together, channels);
    for (std::int64_t x = begin; x < end; ++x) {
      Number* const place = to + (x - begin) * channels;
      for (std::int64_t c = first; c < last; ++c)
        place[c] = static_cast<std::uint8_t>(from[c * channel_places + x] ^ moved);
    }
  }
}

/// Writes row `y` of all padded images' rows.
template <typename Number>
void write_padded(const DirectConvolution& of, const ByteImages& images, std::int64_t y) {
  const Windows& windows = of.sizes.windows;
  const std::int64_t channels = of.sizes.channels;
  const std::int64_t row = of.rows.begin + y % of.rows.extent;
  const std::int64_t begin = std::max<std::int64_t>(of.columns.begin, 0);
  const std::int64_t end =
      std::min<std::int64_t>(of.columns.begin + of.columns.extent, windows.in[width]);
  Number* const to = reinterpret_cast<Number*>(images.padded) + y * of.row_numbers;
  Number* const to_end = to + of.row_numbers;
  if (row < 0 || row >= windows.in[height] || begin >= end)
    return std::fill(to, to_end, images.zero);
  Number* const inside = to + (begin - of.columns.begin) * channels;
  std::fill(to, inside, images.zero);
  const std::int64_t rows_before = y / of.rows.extent * channels * windows.in[height] + row;
  write_places(of, images.in + rows_before * windows.in[width], begin, end, images.moved, inside);
  std::fill(inside + (end - begin) * channels, to_end, images.zero);
}

}  // namespace

ByteImages byte_images(const KernelIo& io, std::size_t zero, std::byte* padded) {
  constexpr std::uint8_t sign = 0x80;  // to turn it over is to add 128
  const bool is_signed = io.inputs[0].type == DataType::int8;
  const std::int32_t point = is_given(io.inputs, zero) ? zero_point(io.inputs[zero]) : 0;
  return {.in = io.inputs[0].as<const std::uint8_t>(),
          .moved = is_signed ? sign : std::uint8_t{},
          .zero = static_cast<std::uint8_t>(is_signed ? point + 128 : point),
          .padded = padded};
}

std::int64_t padded_bytes(const DirectConvolution& of, ByteForm form) {
  constexpr std::int64_t word = 4;
  return graph::aligned(of.padded_numbers() * number_bytes(form) + word);
}

void write_padded_row(const DirectConvolution& of, const ByteImages& images, ByteForm form,
                      std::int64_t y) {
  if (form == ByteForm::quads)
    write_padded<std::uint8_t>(of, images, y);
  else
    write_padded<std::int16_t>(of, images, y);
}

}  // namespace autopar::runtime::cpu
