// ConvInteger and QuantizedConv by tiles of bytes.

#include "runtime/kernels/quantized/byte_conv.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "graph/arena.h"
#include "runtime/device.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/transposition.h"
#include "runtime/kernels/quantized/byte_finish.h"
#include "runtime/kernels/quantized/byte_images.h"
#include "runtime/kernels/quantized/byte_panels.h"
#include "runtime/kernels/quantized/integers.h"

namespace autopar::runtime::cpu {
namespace {

static_assert(tile_windows == byte_tile_rows && panel_columns == byte_panel_columns);

constexpr int height = DirectConvolution::height;
constexpr int width = DirectConvolution::width;

/// The weights of a group, [out channel, channel, tap], as [out channel, tap, channel] without taps
/// under which all windows see padding alone.
std::vector<std::byte> weights_by_tap(const DirectConvolution& of, const std::byte* weights,
                                      std::int64_t group) {
  const Windows& windows = of.sizes.windows;
  const std::int64_t channels = of.group_channels();
  const std::int64_t taps = windows.tap_places();
  std::vector<std::byte> list;
  list.reserve(static_cast<std::size_t>(of.group_columns() * of.depth));
  for (std::int64_t column = 0; column < of.group_columns(); ++column) {
    const std::byte* const from = weights + (group * of.group_columns() + column) * channels * taps;
    for (std::int64_t y = of.rows.first_tap; y < of.rows.first_tap + of.rows.taps; ++y)
      for (std::int64_t x = of.columns.first_tap; x < of.columns.first_tap + of.columns.taps; ++x)
        for (std::int64_t c = 0; c < channels; ++c)
          list.push_back(from[c * taps + y * windows.taps[width] + x]);
  }
  return list;
}

BytePanelLayout layout_of_group(const DirectConvolution& of) {
  return {.stretches = of.rows.taps * (of.columns.taps / of.taps_together()),
          .length = of.taps_together() * of.group_channels(),
          .columns = of.group_columns()};
}

/// Some tiles, which read a panel's weights one after the other.
struct TileBlock {
  static constexpr std::int64_t most_tiles = 16;
  static constexpr std::int64_t most_windows = most_tiles * byte_tile_rows;

  Range tiles;
  std::int64_t first_window;
  std::int64_t windows;
  std::array<const std::byte*, most_windows> seen;  ///< what each window sees of the first group

  TileBlock(const DirectConvolution& of, Range of_tiles, const std::byte* in,
            std::int64_t number_bytes)
      : tiles(of_tiles),
        first_window(of.first_window(tiles.begin)),
        windows(of.first_window(tiles.end) - first_window) {
    for (std::int64_t i = 0; i < windows; ++i)
      seen[static_cast<std::size_t>(i)] = in + of.window_offset(first_window + i) * number_bytes;
  }
};

/// A panel's results for a block, [window, column], before they are brought to the order of ONNX.
/// The last tile may write as many as a full one.
template <typename T>
using Results = std::array<T, (TileBlock::most_windows + byte_tile_rows) * byte_panel_columns>;

class ByteConv final : public Kernel {
 public:
  ByteConv(const KernelRequest& request, DirectConvolution of, const ByteConvInputs& inputs)
      : of_(std::move(of)),
        inputs_(inputs),
        threads_(request.device.threads()),
        division_(division_of(of_, threads_)),
        layout_(layout_of_group(of_)) {
    const std::string form =
        fmt::format("panels of bytes, taps {} to {} by {} to {}, {} groups", of_.rows.first_tap,
                    of_.rows.first_tap + of_.rows.taps, of_.columns.first_tap,
                    of_.columns.first_tap + of_.columns.taps, of_.sizes.groups);
    const std::int64_t bytes = of_.sizes.groups * layout_.bytes();
    panels_ = request.kept(1, form, bytes, [&] {
      auto memory = request.device.allocate(bytes);
      if (!write_groups(request.inputs[1], ByteForm::quads, memory.get()))
        write_groups(request.inputs[1], ByteForm::pairs, memory.get());
      return memory;
    });
    form_ = BytePanels(layout_, panels_.get()).form();
    for (std::int64_t y = 0; y < of_.rows.taps; ++y)
      for (std::int64_t x = 0; x < of_.columns.taps; x += of_.taps_together())
        stretches_.push_back({(y * of_.sizes.windows.dilations[height] * of_.row_numbers +
                               x * of_.sizes.windows.dilations[width] * of_.sizes.channels) *
                                  number_bytes(),
                              layout_.words(form_)});
  }

  bool reads(std::size_t input) const override { return input != 1; }

  std::int64_t scratch_bytes() const override { return padded_bytes(of_, form_); }

  void run(const KernelIo& io) override {
    const ByteImages images = byte_images(io, inputs_.zero, io.scratch);
    const std::int64_t rows = of_.sizes.images * of_.rows.extent;
    const std::int64_t parts = division_.parts();
    in_threads(parts > 1 ? threads_ : 1, [&] {
#pragma omp for
      for (std::int64_t y = 0; y < rows; ++y) write_padded_row(of_, images, form_, y);
#pragma omp for nowait
      for (std::int64_t part = 0; part < parts; ++part)
        inputs_.scale ? compute_part<float>(io, images, part)
                      : compute_part<std::int32_t>(io, images, part);
    });
  }

 private:
  std::int64_t number_bytes() const { return 4 / numbers_in_word(form_); }

  bool write_groups(const TensorView& weights, ByteForm form, std::byte* memory) const {
    for (std::int64_t group = 0; group < of_.sizes.groups; ++group) {
      const std::vector<std::byte> by_tap = weights_by_tap(of_, weights.data, group);
      const ByteMatrix matrix{by_tap.data(), weights.type == DataType::int8, 1, of_.depth};
      if (!write_byte_panels(layout_, matrix, form, memory + group * layout_.bytes())) return false;
    }
    return true;
  }

  template <typename T>
  void compute_part(const KernelIo& io, const ByteImages& images, std::int64_t part) const {
    const Range tiles = division_.tiles(of_, part);
    const Range panels = division_.panels(of_, part);
    const std::int64_t blocks = (tiles.count() + TileBlock::most_tiles - 1) / TileBlock::most_tiles;
    Results<T> results;
    for (std::int64_t i = 0; i < blocks; ++i) {
      const TileBlock block(of_, tiles.part(i, blocks), images.padded, number_bytes());
      for (std::int64_t panel = panels.begin; panel < panels.end; ++panel) {
        const ByteColumnTerms columns = columns_of(io, panel);
        compute_block(block, images.zero, panel, columns, results.data());
        write_block(block, panel, columns.count, results.data(), io.outputs[0].as<T>());
      }
    }
  }

  /// A panel of its group's, and the columns before it.
  std::int64_t panel_of_group(std::int64_t panel) const { return panel % of_.group_panels(); }
  std::int64_t first_column(std::int64_t panel) const {
    return panel / of_.group_panels() * of_.group_columns() +
           panel_of_group(panel) * byte_panel_columns;
  }
  BytePanels panels_of(std::int64_t panel) const {
    return {layout_, panels_.get() + panel / of_.group_panels() * layout_.bytes()};
  }

  ByteColumnTerms columns_of(const KernelIo& io, std::int64_t panel) const {
    ByteColumnTerms columns;
    const std::int64_t in_group = panel_of_group(panel);
    columns.count =
        std::min(of_.group_columns() - in_group * byte_panel_columns, byte_panel_columns);
    std::ranges::copy(panels_of(panel).column_sums(in_group), columns.sums.begin());
    const auto copy = [&](std::optional<std::size_t> input, auto& to) {
      if (!input || !is_given(io.inputs, *input)) return;
      const TensorView& numbers = io.inputs[*input];
      for (std::int64_t i = 0; i < columns.count; ++i)
        to[static_cast<std::size_t>(i)] =
            numbers.as<const float>()[numbers.elements() == 1 ? 0 : first_column(panel) + i];
    };
    copy(inputs_.scale, columns.scales);
    copy(inputs_.bias, columns.biases);
    return columns;
  }

  template <typename T>
  void compute_block(const TileBlock& block, std::uint32_t zero, std::int64_t panel,
                     const ByteColumnTerms& columns, T* results) const {
    const std::int64_t in_group = panel_of_group(panel);
    const BytePanels panels = panels_of(panel);
    const std::byte* const weights = panels.weights(in_group);
    const std::span excess = panels.excess(in_group);
    const std::int64_t first_channel = panel / of_.group_panels() * of_.group_channels();
    std::array<const std::byte*, byte_tile_rows> seen;
    ByteTileNumbers<std::int32_t> sums = {};
    ByteTileTerms terms;  // weights stand around zero
    terms.fill({.zero = zero});
    std::int64_t first = 0;  // of the block's windows
    for (std::int64_t tile = block.tiles.begin; tile < block.tiles.end; ++tile) {
      const std::int64_t end = of_.first_window(tile + 1) - block.first_window;
      for (std::int64_t i = first; i < end; ++i)
        seen[static_cast<std::size_t>(i - first)] =
            block.seen[static_cast<std::size_t>(i)] + first_channel * number_bytes();
      const ByteTile operands{.rows = std::span(seen).first(static_cast<std::size_t>(end - first)),
                              .stretches = stretches_,
                              .panel = weights,
                              .form = form_};
      compute_byte_tile(operands, sums.data());
      add_byte_excess(operands, excess, sums.data());
      finish_byte_tile(terms, columns, sums.data(), results + first * byte_panel_columns);
      first = end;
    }
  }

  /// Brings a block's columns to `out`, [image, channel, place].
  template <typename T>
  void write_block(const TileBlock& block, std::int64_t panel, std::int64_t columns,
                   const T* results, T* out) const {
    const std::int64_t places = of_.sizes.windows.out_places();
    std::int64_t window = 0;
    while (window < block.windows) {
      const std::int64_t image = (block.first_window + window) / places;
      const std::int64_t place = (block.first_window + window) % places;
      const std::int64_t count = std::min(block.windows - window, places - place);
      T* const to = out + (image * of_.sizes.out_channels + first_column(panel)) * places + place;
      transpose<std::uint32_t>(
          {.in = reinterpret_cast<const std::uint32_t*>(results + window * byte_panel_columns),
           .out = reinterpret_cast<std::uint32_t*>(to),
           .rows = columns,
           .columns = count,
           .in_row = byte_panel_columns,
           .out_row = places});
      window += count;
    }
  }

  DirectConvolution of_;
  ByteConvInputs inputs_;
  int threads_;
  Division division_;
  BytePanelLayout layout_;  ///< of a group's weights
  ByteForm form_ = ByteForm::quads;
  std::vector<WordStretch> stretches_;
  std::shared_ptr<std::byte> panels_;  ///< of all groups
};

std::unique_ptr<Kernel> make(const KernelRequest& request, const ByteConvInputs& inputs) {
  constexpr bool has_channels_second = true;
  DirectConvolution of(byte_convolution_sizes(request), has_channels_second);
  if (is_depthwise(of.sizes)) return make_byte_depthwise(request, std::move(of), inputs);
  return std::make_unique<ByteConv>(request, std::move(of), inputs);
}

}  // namespace

bool can_tile_byte_conv(const graph::Node& node, std::span<const TensorView> inputs,
                        std::span<const TensorView> outputs) {
  const std::size_t rank = inputs[0].shape.size();
  return (rank == 3 || rank == 4) &&
         has_small_copy(node, inputs, std::span(outputs[0].shape).subspan(2));
}

bool pays_tiled_byte_conv(const graph::Node& node, std::span<const TensorView> inputs) {
  const std::int64_t groups = node.int_attribute("group", 1);
  const Shape& weights = inputs[1].shape;
  const bool is_by_channel = weights[1] == 1 && weights[0] == groups;
  return groups == 1 || is_by_channel || weights[0] >= groups * byte_panel_columns / 2;
}

std::unique_ptr<Kernel> make_tiled_conv_integer(const KernelRequest& request) {
  return make(request, inputs_of_conv_integer);
}

std::unique_ptr<Kernel> make_tiled_quantized_conv(const KernelRequest& request) {
  return make(request, inputs_of_quantized_conv);
}

}  // namespace autopar::runtime::cpu
