#include "runtime/kernels/quantized/byte_images.h"

#include <algorithm>
#include <cstring>

#include "graph/arena.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cpu/square.h"
#include "runtime/kernels/product/onednn_product.h"

namespace autopar::runtime::cpu {
namespace {

constexpr int height = DirectConvolution::height;
constexpr int width = DirectConvolution::width;

std::int64_t number_bytes(ByteForm form) { return 4 / numbers_in_word(form); }

/// Some places of a row of an image, [channel, place], and where their channels lie together.
template <typename Number>
struct RowPlaces {
  const std::uint8_t* from;  ///< the first place of the first channel
  std::int64_t channel_places;
  std::int64_t places;
  std::int64_t channels;
  std::uint8_t moved;
  Number* to;
};

template <typename Number>
struct WritePlaces {
  using Numbers [[gnu::vector_size(square_side * sizeof(Number))]] = Number;

  [[gnu::always_inline]] static inline void write_square(const RowPlaces<Number>& of,
                                                         std::int64_t channel, std::int64_t place) {
    Square<std::uint8_t> square;
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < square_side; ++i)
      std::memcpy(&square.rows[i], of.from + (channel + i) * of.channel_places + place,
                  square_side);
    square.transpose();
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < square_side; ++i) {
      const Numbers numbers = __builtin_convertvector(square.rows[i] ^ of.moved, Numbers);
      std::memcpy(of.to + (place + i) * of.channels + channel, &numbers, sizeof numbers);
    }
  }

  [[gnu::always_inline]] static inline void write(const RowPlaces<Number>& of,
                                                  std::int64_t first_channel,
                                                  std::int64_t first_place,
                                                  std::int64_t last_place) {
    for (std::int64_t place = first_place; place < last_place; ++place)
      for (std::int64_t c = first_channel; c < of.channels; ++c)
        of.to[place * of.channels + c] =
            static_cast<std::uint8_t>(of.from[c * of.channel_places + place] ^ of.moved);
  }

  [[gnu::always_inline]] static inline void run(const RowPlaces<Number>& of) {
    const std::int64_t channels = of.channels / square_side * square_side;
    const std::int64_t places = of.places / square_side * square_side;
    for (std::int64_t place = 0; place < places; place += square_side)
      for (std::int64_t c = 0; c < channels; c += square_side) write_square(of, c, place);
    write(of, channels, 0, places);
    write(of, 0, places, of.places);
  }
};

template <typename Number>
void write_places(const RowPlaces<Number>& of) {
  static const auto run =
      simd_function<WritePlaces<Number>, const RowPlaces<Number>&>(simd_level());
  run(of);
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
  write_places<Number>({.from = images.in + rows_before * windows.in[width] + begin,
                        .channel_places = std::int64_t{windows.in[height]} * windows.in[width],
                        .places = end - begin,
                        .channels = channels,
                        .moved = images.moved,
                        .to = inside});
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
