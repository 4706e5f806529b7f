#include "runtime/kernels/convolution/direct_convolution.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime::cpu {
namespace {

constexpr int height = DirectConvolution::height;
constexpr int width = DirectConvolution::width;

std::int64_t divided(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A stretch and what it is of: a tap, or some that are neighbours in a row.
struct Seen {
  Stretch stretch;
  std::int64_t y;
  std::int64_t x;
  std::int64_t taps;
};

constexpr std::int64_t chunk_numbers = 512;

/// In pieces that fit a chunk.
void append(std::vector<Seen>& list, Seen seen) {
  while (seen.stretch.length > 0) {
    Seen piece = seen;
    piece.stretch.length = std::min(seen.stretch.length, chunk_numbers);
    list.push_back(piece);
    seen.stretch.offset += piece.stretch.length;
    seen.stretch.depth += piece.stretch.length;
    seen.stretch.length -= piece.stretch.length;
  }
}

/// All stretches. Neighbouring taps of a row are one, where their channels lie together.
std::vector<Seen> seen_by_window(const DirectConvolution& of) {
  const Windows& windows = of.sizes.windows;
  const std::int64_t together = of.taps_together();
  const std::int64_t length = together * of.group_channels();
  std::vector<Seen> list;
  std::int64_t depth = 0;
  for (std::int64_t y = 0; y < of.rows.taps; ++y)
    for (std::int64_t x = 0; x < of.columns.taps; x += together, depth += length) {
      const std::int64_t offset = y * windows.dilations[height] * of.row_numbers +
                                  x * windows.dilations[width] * of.sizes.channels;
      append(list, {{offset, depth, length}, y, x, together});
    }
  return list;
}

/// Those of `list` that `is_seen`, in the chunks of all.
template <typename IsSeen>
DirectConvolution::Sight chunks_of(const std::vector<Seen>& list, IsSeen is_seen) {
  DirectConvolution::Sight sight{{}, {0}};
  std::int64_t in_chunk = 0;
  for (const Seen& seen : list) {
    if (in_chunk + seen.stretch.length > chunk_numbers) {
      sight.chunks.push_back(sight.stretches.size());
      in_chunk = 0;
    }
    in_chunk += seen.stretch.length;
    if (is_seen(seen)) sight.stretches.push_back(seen.stretch);
  }
  sight.chunks.push_back(sight.stretches.size());
  return sight;
}

/// Whether a window sees the image, not padding, under one of some taps.
bool sees_image(const Windows& of, int d, const SeenExtent& extent, int window, std::int64_t tap,
                std::int64_t taps) {
  for (const std::int64_t end = tap + taps; tap < end; ++tap) {
    const std::int64_t at =
        extent.begin + std::int64_t{window} * of.strides[d] + tap * std::int64_t{of.dilations[d]};
    if (at >= 0 && at < of.in[d]) return true;
  }
  return false;
}

bool sees_image(const DirectConvolution& of, std::int64_t window, const Seen& seen) {
  const Windows& windows = of.sizes.windows;
  const Place place(window % windows.out_places(), windows.out);
  return sees_image(windows, height, of.rows, place.at[height], seen.y, 1) &&
         sees_image(windows, width, of.columns, place.at[width], seen.x, seen.taps);
}

/// Whether much of what windows see may be padding.
bool is_mostly_padded(const SeenExtent& extent, std::int64_t in) {
  return extent.extent >= in + in / 2;
}

std::vector<DirectConvolution::Sight> sights_of(const DirectConvolution& of,
                                                const std::vector<Seen>& list) {
  std::vector<DirectConvolution::Sight> sights;
  if (!is_mostly_padded(of.rows, of.sizes.windows.in[height]) &&
      !is_mostly_padded(of.columns, of.sizes.windows.in[width]))
    return sights;
  for (std::int64_t tile = 0; tile < of.tiles(); ++tile)
    sights.push_back(chunks_of(list, [&](const Seen& seen) {
      for (std::int64_t window = of.first_window(tile); window < of.first_window(tile + 1);
           ++window)
        if (sees_image(of, window, seen)) return true;
      return false;
    }));
  return sights;
}

/// Copies the floats of places `begin` to `end` in a row of an image, the channels of a place
/// together.
float* copy_places(const DirectConvolution& of, const float* in, std::int64_t image,
                   std::int64_t row, std::int64_t begin, std::int64_t end, float* to) {
  const Windows& windows = of.sizes.windows;
  const std::int64_t channels = of.sizes.channels;
  const std::int64_t rows = windows.in[height];
  const std::int64_t row_places = windows.in[width];
  if (!of.has_channels_second)
    return std::copy_n(in + ((image * rows + row) * row_places + begin) * channels,
                       (end - begin) * channels, to);
  for (std::int64_t c = 0; c < channels; ++c) {
    const float* const from = in + ((image * channels + c) * rows + row) * row_places;
    for (std::int64_t x = begin; x < end; ++x) to[(x - begin) * channels + c] = from[x];
  }
  return to + (end - begin) * channels;
}

/// Numbers of the images with all padding that windows may see; nullopt where lists do not fit.
std::optional<std::int64_t> most_padded_numbers(const graph::Node& node, const TensorView& image,
                                                const TensorView& weights,
                                                std::span<const std::int64_t> out_places) {
  const std::size_t dimensions = image.shape.size() - 2;
  const std::vector<std::int64_t> ones(dimensions, 1);
  const std::vector<std::int64_t> strides = node.ints_attribute("strides", ones);
  const std::vector<std::int64_t> dilations = node.ints_attribute("dilations", ones);
  if (strides.size() != dimensions || dilations.size() != dimensions ||
      weights.shape.size() != dimensions + 2)
    return std::nullopt;
  std::int64_t numbers = image.shape.front() * weights.shape[1] *
                         std::max<std::int64_t>(node.int_attribute("group", 1), 1);
  for (std::size_t d = 0; d < dimensions; ++d)
    numbers *= (out_places[d] - 1) * strides[d] + (weights.shape[d + 2] - 1) * dilations[d] + 1;
  return numbers;
}

/// The tiles of the largest part, each with so many panels.
std::int64_t largest_part(const DirectConvolution& of, const Division& division) {
  return divided(of.tiles(), division.of_tiles) * divided(of.panels(), division.of_panels);
}

std::int64_t threads_at_work(const DirectConvolution& of, const Division& division) {
  return std::min(of.tiles(), division.of_tiles) * std::min(of.panels(), division.of_panels);
}

/// Each part of the tiles reads all weights, each part of the panels all images.
std::int64_t numbers_read(const DirectConvolution& of, const Division& division) {
  return division.of_tiles * of.weight_numbers() +
         division.of_panels * of.sizes.images * of.image_numbers;
}

}  // namespace

SeenExtent::SeenExtent(const Windows& of, int dimension) {
  const std::int64_t stride = of.strides[dimension];
  const std::int64_t dilation = of.dilations[dimension];
  const std::int64_t in = of.in[dimension];
  const std::int64_t out = of.out[dimension];
  const auto sees_image = [&](std::int64_t tap) {
    const std::int64_t at = tap * dilation - of.pads[dimension];
    const std::int64_t first = at >= 0 ? 0 : divided(-at, stride);
    return first < out && at + first * stride < in;
  };
  std::int64_t last_tap = of.taps[dimension];
  while (first_tap + 1 < last_tap && !sees_image(first_tap)) ++first_tap;
  while (first_tap + 1 < last_tap && !sees_image(last_tap - 1)) --last_tap;
  taps = last_tap - first_tap;
  begin = first_tap * dilation - of.pads[dimension];
  extent = (out - 1) * stride + (taps - 1) * dilation + 1;
  is_inside = begin >= 0 && begin + extent <= in;
}

DirectConvolution::DirectConvolution(const ConvolutionSizes& of, bool has_second)
    : sizes(of),
      rows(of.windows, height),
      columns(of.windows, width),
      has_channels_second(has_second),
      is_padded(has_channels_second || !rows.is_inside || !columns.is_inside),
      row_numbers((is_padded ? columns.extent : of.windows.in[width]) * of.channels),
      image_numbers((is_padded ? rows.extent : of.windows.in[height]) * row_numbers),
      depth(rows.taps * columns.taps * group_channels()) {
  const std::vector<Seen> list = seen_by_window(*this);
  sight = chunks_of(list, [](const Seen&) { return true; });
  sights = sights_of(*this, list);
}

std::int64_t DirectConvolution::group_panels() const {
  return divided(group_columns(), panel_columns);
}

std::int64_t DirectConvolution::tiles() const { return divided(windows(), tile_windows); }

std::int64_t DirectConvolution::window_offset(std::int64_t window) const {
  const Windows& of = sizes.windows;
  const std::int64_t image = window / of.out_places();
  const Place place(window % of.out_places(), of.out);
  const std::int64_t inside =
      is_padded ? 0 : rows.begin * row_numbers + columns.begin * sizes.channels;
  return inside + image * image_numbers + place.at[height] * of.strides[height] * row_numbers +
         place.at[width] * of.strides[width] * sizes.channels;
}

bool is_depthwise(const ConvolutionSizes& of) {
  return of.groups == of.channels && of.out_channels == of.channels;
}

Division division_of(const DirectConvolution& of, std::int64_t threads) {
  // To read images or weights once more costs more than a largest part of a sixteenth more work.
  constexpr double nearly_equal = 17.0 / 16;
  std::vector<Division> all{{}};
  for (std::int64_t parts = 1; parts <= threads; ++parts) all.push_back({parts, threads / parts});
  const auto largest = [&](const Division& division) { return largest_part(of, division); };
  const auto most = nearly_equal * static_cast<double>(largest(std::ranges::min(all, {}, largest)));
  std::erase_if(
      all, [&](const Division& division) { return static_cast<double>(largest(division)) > most; });
  return std::ranges::min(all, {}, [&](const Division& each) {
    return std::pair(-threads_at_work(of, each), numbers_read(of, each));
  });
}

bool has_small_copy(const graph::Node& node, std::span<const TensorView> inputs,
                    std::span<const std::int64_t> out_places) {
  constexpr std::int64_t small = 2 << 20;
  const auto numbers = most_padded_numbers(node, inputs[0], inputs[1], out_places);
  return numbers && *numbers <= std::max(2 * inputs[0].elements(), small);
}

bool are_fusable_floats(std::span<const TensorView> inputs, std::span<const TensorView> outputs) {
  const auto is_float = [](const TensorView& view) {
    return !view.present() || view.type == DataType::float32;
  };
  return std::ranges::all_of(inputs, is_float) &&
         (!is_given(inputs, 3) || inputs[3].shape == outputs[0].shape);
}

void write_padded_row(const DirectConvolution& of, const float* in, std::int64_t y, float* to) {
  const Windows& windows = of.sizes.windows;
  const std::int64_t channels = of.sizes.channels;
  const std::int64_t image = y / of.rows.extent;
  const std::int64_t row = of.rows.begin + y % of.rows.extent;
  const std::int64_t begin = std::max<std::int64_t>(of.columns.begin, 0);
  const std::int64_t end =
      std::min<std::int64_t>(of.columns.begin + of.columns.extent, windows.in[width]);
  to += y * of.row_numbers;
  float* const to_end = to + of.row_numbers;
  if (row >= 0 && row < windows.in[height] && begin < end) {
    float* const inside = to + (begin - of.columns.begin) * channels;
    std::fill(to, inside, 0.0F);
    to = copy_places(of, in, image, row, begin, end, inside);
  }
  std::fill(to, to_end, 0.0F);
}

void write_panels(const DirectConvolution& of, const float* weights, float* panels) {
  const Windows& windows = of.sizes.windows;
  const std::int64_t channels = of.group_channels();
  const std::int64_t taps = windows.tap_places();
  for (std::int64_t p = 0; p < of.panels(); ++p) {
    const std::int64_t group = p / of.group_panels();
    const std::int64_t first = p % of.group_panels() * panel_columns;
    const std::int64_t columns = std::min<std::int64_t>(of.group_columns() - first, panel_columns);
    const float* const from = weights + (group * of.group_columns() + first) * channels * taps;
    for (std::int64_t y = of.rows.first_tap; y < of.rows.first_tap + of.rows.taps; ++y)
      for (std::int64_t x = of.columns.first_tap; x < of.columns.first_tap + of.columns.taps; ++x)
        for (std::int64_t c = 0; c < channels; ++c, panels += panel_columns) {
          const std::int64_t tap = y * windows.taps[width] + x;
          for (std::int64_t i = 0; i < panel_columns; ++i)
            panels[i] = i < columns ? from[(i * channels + c) * taps + tap] : 0.0F;
        }
  }
}

}  // namespace autopar::runtime::cpu
