// Conv of float32 images whose channels are last, with AVX2 or AVX-512. The addend and Relu go
// along while sums are in registers: oneDNN's Relu makes 0 of NaN, so that there it would be a step
// of its own.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "graph/arena.h"
#include "runtime/device.h"
#include "runtime/kernels/common/channels_last.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/convolution/direct_convolution.h"
#include "runtime/kernels/convolution/kernels.h"
#include "runtime/kernels/cpu/in_threads.h"

namespace autopar::runtime::cpu {
namespace {

/// Where the tensors of a run lie.
struct DirectData {
  const float* in;      ///< with its padding
  const float* panels;  ///< write_panels()
  const float* bias;    ///< [panels, panel_columns]
  const float* addend;  ///< [windows, out channels]; null where nothing is added
  float* out;           ///< the same
  bool has_relu;
};

/// Some tiles, which read a panel's weights one after the other.
class TileBlock {
 public:
  /// What they see of a chunk fits a core's own cache.
  static constexpr std::int64_t most_tiles = 16;

  TileBlock(const DirectConvolution& of, const float* in, Range tiles)
      : first_tile_(tiles.begin), tiles_(static_cast<std::size_t>(tiles.count())) {
    for (std::size_t i = 0; i <= tiles_; ++i)
      begins_[i] = of.first_window(first_tile_ + static_cast<std::int64_t>(i));
    const Windows& places = of.sizes.windows;
    const std::int64_t row = places.out[DirectConvolution::width];
    const std::int64_t step = places.strides[DirectConvolution::width] * of.sizes.channels;
    const float* seen = nullptr;
    for (std::int64_t window = begins_[0]; window < begins_[tiles_]; ++window) {
      const bool is_in_row = seen != nullptr && window % row != 0;
      seen = is_in_row ? seen + step : in + of.window_offset(window);
      windows_[static_cast<std::size_t>(window - begins_[0])] = seen;
    }
  }

  std::size_t tiles() const { return tiles_; }
  std::int64_t number(std::size_t tile) const {
    return first_tile_ + static_cast<std::int64_t>(tile);
  }
  std::int64_t first_window(std::size_t tile) const { return begins_[tile]; }
  std::int64_t windows(std::size_t tile) const { return begins_[tile + 1] - begins_[tile]; }
  /// How many from this one on have as many windows.
  std::int64_t equal_tiles(std::size_t tile) const {
    std::size_t end = tile + 1;
    while (end < tiles_ && windows(end) == windows(tile)) ++end;
    return static_cast<std::int64_t>(end - tile);
  }
  const float* const* seen(std::size_t tile) const {
    return &windows_[static_cast<std::size_t>(begins_[tile] - begins_[0])];
  }

 private:
  std::int64_t first_tile_;
  std::size_t tiles_;
  std::array<std::int64_t, most_tiles + 1> begins_;
  std::array<const float*, most_tiles * tile_windows> windows_;
};

/// Panels of a group that are read at once, the first of `all`, and their columns in the output.
struct Panels : PanelsAtOnce {
  std::int64_t first;
  std::int64_t group;
  std::int64_t first_column;

  Panels(const DirectConvolution& of, Range all)
      : PanelsAtOnce(all.count(), of.group_columns() - column_of_group(of, all.begin)),
        first(all.begin),
        group(first / of.group_panels()),
        first_column(group * of.group_columns() + column_of_group(of, first)) {}

 private:
  static std::int64_t column_of_group(const DirectConvolution& of, std::int64_t panel) {
    return panel % of.group_panels() * panel_columns;
  }
};

/// What a block reads next while it is at some panels: the next panels' weights; or, of windows
/// that lie one behind the other, the next ones, which no tile has seen yet while it is at its
/// first panels.
Ahead ahead_of(const DirectConvolution& of, const TileBlock& block, const float* weights,
               std::int64_t panels, std::int64_t first_depth, bool are_first_panels) {
  constexpr std::int64_t line = 64;
  const bool are_windows_together =
      of.depth == of.sizes.channels && !of.is_padded && of.sight.count() == 1;
  if (are_first_panels && are_windows_together && block.tiles() > 1)
    return {reinterpret_cast<const char*>(block.seen(1)[0]),
            tile_windows * static_cast<std::int64_t>(sizeof(float))};
  return {
      reinterpret_cast<const char*>(weights + (panels * of.depth + first_depth) * panel_columns),
      panels * line / static_cast<std::int64_t>(block.tiles())};
}

/// Computes the columns of panels for a block from a chunk of what windows see.
void compute_panels(const DirectConvolution& of, const DirectData& data, const TileBlock& block,
                    std::size_t chunk, const Panels& panels, bool are_first) {
  const bool is_last = chunk + 1 == of.sight.count();
  const std::int64_t panel_floats = of.depth * panel_columns;
  const float* const weights = data.panels + panels.first * panel_floats;
  TileOperands operands{.tiles = 1,
                        .windows = nullptr,
                        .channel = panels.group * of.group_channels(),
                        .stretches = of.sight.chunk(chunk),
                        .panel = weights,
                        .panel_floats = panel_floats,
                        .bias = chunk == 0 ? data.bias + panels.first * panel_columns : nullptr,
                        .addend = nullptr,
                        .out = nullptr,
                        .columns = of.sizes.out_channels,
                        .has_relu = is_last && data.has_relu,
                        .ahead = ahead_of(of, block, weights, panels.count,
                                          of.sight.chunk(chunk)[0].depth, are_first)};
  const std::int64_t depth = of.sight.depth(chunk);
  const bool is_one_by_one = panels.are_at_edge() || !of.sights.empty();
  for (std::size_t tile = 0; tile < block.tiles();
       tile += static_cast<std::size_t>(operands.tiles)) {
    const std::int64_t at = block.first_window(tile) * of.sizes.out_channels + panels.first_column;
    operands.windows = block.seen(tile);
    operands.out = data.out + at;
    if (is_last && data.addend != nullptr) operands.addend = data.addend + at;
    if (is_one_by_one)
      operands.stretches = of.sight_of(block.number(tile)).chunk(chunk);
    else
      operands.tiles = block.equal_tiles(tile);
    const std::int64_t windows = block.windows(tile);
    if (panels.are_at_edge())
      panels.compute_edge_tile(operands, windows);
    else
      panels.function(windows)(operands);
    operands.ahead.begin += operands.ahead.step * operands.tiles * depth;
  }
}

/// Computes the columns of some panels of some tiles.
void compute_part(const DirectConvolution& of, const DirectData& data, Range tiles, Range panels) {
  const std::int64_t blocks = (tiles.count() + TileBlock::most_tiles - 1) / TileBlock::most_tiles;
  for (std::int64_t i = 0; i < blocks; ++i) {
    const TileBlock block(of, data.in, tiles.part(i, blocks));
    for (std::size_t chunk = 0; chunk < of.sight.count(); ++chunk)
      for (Range left = panels; left.count() > 0;) {
        const Panels together(of, left);
        compute_panels(of, data, block, chunk, together, left.begin == panels.begin);
        left.begin += together.count;
      }
  }
}

std::int64_t float_bytes(std::int64_t floats) {
  return floats * static_cast<std::int64_t>(sizeof(float));
}

class DirectConvKernel final : public Kernel {
 public:
  DirectConvKernel(DirectConvolution of, bool has_relu, int threads,
                   std::shared_ptr<std::byte> panels)
      : of_(std::move(of)),
        division_(division_of(of_, threads)),
        threads_(is_large(of_) ? threads : 1),
        has_relu_(has_relu),
        panels_(std::move(panels)) {}

  bool reads(std::size_t input) const override { return input != 1; }

  std::int64_t scratch_bytes() const override {
    return bias_bytes() + graph::aligned(float_bytes(of_.padded_numbers()));
  }

  void run(const KernelIo& io) override {
    auto* const bias = reinterpret_cast<float*>(io.scratch);
    write_bias(io, bias);
    const auto* const in = io.inputs[0].as<const float>();
    auto* const padded = reinterpret_cast<float*>(io.scratch + bias_bytes());
    const DirectData data{of_.is_padded ? padded : in,
                          reinterpret_cast<const float*>(panels_.get()),
                          bias,
                          is_given(io.inputs, 3) ? io.inputs[3].as<const float>() : nullptr,
                          io.outputs[0].as<float>(),
                          has_relu_};
    const std::int64_t padded_rows = of_.is_padded ? of_.sizes.images * of_.rows.extent : 0;
    const std::int64_t parts = division_.parts();
    in_threads(parts > 1 ? threads_ : 1, [&] {
      if (of_.is_padded) {
#pragma omp for
        for (std::int64_t y = 0; y < padded_rows; ++y) write_padded_row(of_, in, y, padded);
      }
#pragma omp for nowait
      for (std::int64_t part = 0; part < parts; ++part)
        compute_part(of_, data, division_.tiles(of_, part), division_.panels(of_, part));
    });
  }

 private:
  /// Whether there are products that are worth waking a thread for.
  static bool is_large(const DirectConvolution& of) {
    constexpr std::int64_t least_work = 32 * 1024;
    return of.windows() * of.weight_numbers() / of.sizes.groups >= least_work;
  }

  std::int64_t bias_bytes() const {
    return graph::aligned(float_bytes(of_.panels() * panel_columns));
  }

  void write_bias(const KernelIo& io, float* to) const {
    std::fill_n(to, of_.panels() * panel_columns, 0.0F);
    if (!is_given(io.inputs, 2)) return;
    const auto* const from = io.inputs[2].as<const float>();
    for (std::int64_t group = 0; group < of_.sizes.groups; ++group)
      std::copy_n(from + group * of_.group_columns(), of_.group_columns(),
                  to + group * of_.group_panels() * panel_columns);
  }

  DirectConvolution of_;
  Division division_;
  int threads_;
  bool has_relu_;
  std::shared_ptr<std::byte> panels_;
};

/// Whether a group's output channels fill a vector.
bool fills_vectors(const graph::Node& node, std::span<const TensorView> inputs) {
  const std::int64_t groups = std::max<std::int64_t>(node.int_attribute("group", 1), 1);
  return inputs[1].shape[0] / groups >= tile_lanes;
}

bool is_pointwise(const Shape& weights) {
  return graph::num_elements(Shape(weights.begin() + 2, weights.end())) == 1;
}

}  // namespace

bool is_small_conv(const graph::Node& node, std::span<const TensorView> inputs,
                   std::span<const TensorView> outputs) {
  constexpr std::int64_t most_products = 320 * 1024;  // an image
  constexpr std::int64_t most_numbers = 32 * 1024;    // of an image, which may be copied
  const std::int64_t images = std::max<std::int64_t>(inputs[0].shape[0], 1);
  const std::int64_t depth = inputs[1].elements() / std::max<std::int64_t>(inputs[1].shape[0], 1);
  return fills_vectors(node, inputs) && inputs[0].elements() / images <= most_numbers &&
         saturated_multiply(outputs[0].elements() / images, depth) <= most_products;
}

bool serves_direct_conv(const graph::Node& node, std::span<const TensorView> inputs,
                        std::span<const TensorView> outputs) {
  // Under several taps oneDNN's larger convolutions are faster with AVX-512: they leave out rows of
  // padding.
  const bool is_of_use = simd_level() == SimdLevel::avx2 ||
                         (simd_level() == SimdLevel::avx512 &&
                          (is_pointwise(inputs[1].shape) || is_small_conv(node, inputs, outputs)));
  return is_of_use && fills_vectors(node, inputs) && are_fusable_floats(inputs, outputs) &&
         has_small_copy(node, inputs, std::span(outputs[0].shape).subspan(1));
}

std::unique_ptr<Kernel> make_direct_conv(const KernelRequest& last) {
  if (simd_level() == SimdLevel::baseline)
    fail("node '{}': this processor has no AVX2, which an addend or an activation needs",
         last.node.name);
  const KernelRequest request = with_channels_second(last);
  DirectConvolution of(convolution_sizes(request), reads_channels_second(request.node));
  const std::int64_t bytes = float_bytes(of.weight_numbers());
  const auto make_panels = [&] {
    auto panels = request.device.allocate(bytes);
    write_panels(of, request.inputs[1].as<const float>(), reinterpret_cast<float*>(panels.get()));
    return panels;
  };
  auto panels = request.kept(
      1,
      fmt::format("panels of {} columns, taps {} to {} by {} to {}, {} groups", panel_columns,
                  of.rows.first_tap, of.rows.first_tap + of.rows.taps, of.columns.first_tap,
                  of.columns.first_tap + of.columns.taps, of.sizes.groups),
      bytes, make_panels);
  const bool has_relu = request.node.string_attribute("activation", "") == "Relu";
  return std::make_unique<DirectConvKernel>(std::move(of), has_relu, request.device.threads(),
                                            std::move(panels));
}

}  // namespace autopar::runtime::cpu
