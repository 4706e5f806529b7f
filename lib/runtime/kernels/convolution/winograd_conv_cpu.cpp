// Conv of float32 images whose channels are last, under 3 by 3 taps in steps of 1: F(2x2, 3x3) of
// "Fast Algorithms for Convolutional Neural Networks" (Lavin and Gray, 2016). Squares of 2 by 2
// outputs are made of 16 products instead of 36, of sums of what they see by sums of weights. What
// is NaN or infinite reaches all outputs of a square, and what is large rounds all of them.

#include <omp.h>

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

constexpr int outputs = 2;  ///< of a square, along each dimension
constexpr int side = 4;     ///< places that a square sees along each dimension
constexpr int products = side * side;
constexpr int taps = 3;
/// Sums of so many squares stay in a core's caches while panels of weights pass.
constexpr std::int64_t most_squares = 36;
/// A panel's weights of so many channels fit the first-level cache.
constexpr std::int64_t chunk_channels = 512;

constexpr std::int64_t halved(std::int64_t extent) { return (extent + 1) / outputs; }

struct Squares {
  ConvolutionSizes sizes;
  std::int64_t high;  ///< of an image
  std::int64_t wide;

  explicit Squares(const ConvolutionSizes& of)
      : sizes(of), high(halved(out_height())), wide(halved(out_width())) {}

  std::int64_t out_height() const { return sizes.windows.out[DirectConvolution::height]; }
  std::int64_t out_width() const { return sizes.windows.out[DirectConvolution::width]; }
  std::int64_t count() const { return sizes.images * high * wide; }
  std::int64_t panels() const { return (sizes.out_channels + panel_columns - 1) / panel_columns; }
  std::int64_t panel_floats() const { return products * sizes.channels * panel_columns; }
};

/// A square's place: its first output.
struct SquarePlace {
  std::int64_t image;
  std::int64_t y;
  std::int64_t x;

  SquarePlace(const Squares& of, std::int64_t square)
      : image(square / of.wide / of.high),
        y(square / of.wide % of.high * outputs),
        x(square % of.wide * outputs) {}
};

/// B^T d of four vectors, in place.
template <typename Lanes>
[[gnu::always_inline]] inline void add_seen(Lanes& a, Lanes& b, Lanes& c, Lanes& d) {
  const Lanes b_before = b;
  a -= c;
  b += c;
  d = b_before - d;
  c -= b_before;
}

/// What a square sees, by place, and where the sums of it go: `step` floats apart.
struct SeenSquare {
  const float* const* places;
  std::int64_t channels;
  float* sums;
  std::int64_t step;
};

template <int lanes>
struct AddSeen {
  using Lanes = typename Vector<lanes>::Floats;

  [[gnu::always_inline]] static inline void run(const SeenSquare& of) {
    for (std::int64_t c = 0; c < of.channels; c += lanes) {
      Lanes d[side][side];
#pragma GCC unroll 4
      for (int y = 0; y < side; ++y)
#pragma GCC unroll 4
        for (int x = 0; x < side; ++x) load(d[y][x], of.places[y * side + x] + c);
#pragma GCC unroll 4
      for (int x = 0; x < side; ++x) add_seen(d[0][x], d[1][x], d[2][x], d[3][x]);
#pragma GCC unroll 4
      for (int y = 0; y < side; ++y) {
        add_seen(d[y][0], d[y][1], d[y][2], d[y][3]);
#pragma GCC unroll 4
        for (int x = 0; x < side; ++x)
          std::memcpy(of.sums + (y * side + x) * of.step + c, &d[y][x], sizeof(Lanes));
      }
    }
  }
};

/// Products of a square's sums by a panel, `step` floats apart, and where its outputs go.
struct MadeSquare {
  const float* products;
  std::int64_t step;
  const float* bias;
  const float* addend;  ///< null where nothing is added
  float* out;
  std::int64_t row;     ///< floats from an output to the one below
  std::int64_t column;  ///< and to the next
  int rows;             ///< of outputs that are there
  int columns;
  std::int64_t width;  ///< columns of the panels
  bool has_relu;       ///< NaN stays NaN
};

/// A^T m A.
template <int lanes>
struct AddProducts {
  using Lanes = typename Vector<lanes>::Floats;

  [[gnu::always_inline]] static inline void run(const MadeSquare& of) {
    for (int v = 0; v < of.width; v += lanes) {
      Lanes lines[outputs][side];
#pragma GCC unroll 4
      for (int x = 0; x < side; ++x) {
        Lanes m[side];
#pragma GCC unroll 4
        for (int y = 0; y < side; ++y) load(m[y], of.products + (y * side + x) * of.step + v);
        lines[0][x] = m[0] + m[1] + m[2];
        lines[1][x] = m[1] - m[2] - m[3];
      }
      Lanes bias;
      load(bias, of.bias + v);
      for (int y = 0; y < of.rows; ++y) {
        const Lanes* const line = lines[y];
        put(of, y, 0, v, line[0] + line[1] + line[2] + bias);
        if (of.columns > 1) put(of, y, 1, v, line[1] - line[2] - line[3] + bias);
      }
    }
  }

 private:
  [[gnu::always_inline]] static inline void put(const MadeSquare& of, int y, int x, int v,
                                                Lanes sum) {
    const std::int64_t at = y * of.row + x * of.column + v;
    if (of.addend != nullptr) {
      Lanes addend;
      load(addend, of.addend + at);
      sum += addend;
    }
    if (of.has_relu) sum = sum < 0 ? Lanes{} : sum;
    std::memcpy(of.out + at, &sum, sizeof sum);
  }
};

/// `Body<lanes>` for so many numbers, which are a multiple of 8.
template <template <int> class Body, typename... Arguments>
SimdFunction<Arguments...> function_for(std::int64_t numbers) {
  constexpr int wide = 16;
  return simd_level() == SimdLevel::avx512 && numbers % wide == 0
             ? simd_function<Body<wide>, Arguments...>(SimdLevel::avx512)
             : simd_function<Body<tile_lanes>, Arguments...>(SimdLevel::avx2);
}

/// Where the tensors of a run lie.
struct WinogradData {
  const float* in;
  const float* panels;
  const float* bias;    ///< [panels, panel_columns]
  const float* zeros;   ///< as many as there are channels
  const float* addend;  ///< null where nothing is added
  float* out;
  bool has_relu;
};

/// Some squares that read panels of weights one after the other, in memory of a thread.
class SquareBlock {
 public:
  /// Floats of that memory.
  static std::int64_t floats(const Squares& of, std::int64_t squares) {
    return products * squares * (of.sizes.channels + PanelsAtOnce::most() * panel_columns);
  }

  SquareBlock(const Squares& of, const WinogradData& data, Range squares, float* memory)
      : of_(of),
        data_(data),
        squares_(squares),
        sums_(memory),
        products_(memory + products * squares.count() * of.sizes.channels) {
    const std::int64_t channels = of.sizes.channels;
    const auto add_seen = function_for<AddSeen, const SeenSquare&>(channels);
    for (std::int64_t i = 0; i < squares.count(); ++i) {
      const auto places = seen(squares.begin + i);
      add_seen({places.data(), channels, sums_ + i * channels, squares.count() * channels});
    }
  }

  /// Computes the columns of as many of the panels as are read at once, and returns how many.
  std::int64_t compute_panels(Range panels) {
    const std::int64_t first = panels.begin * panel_columns;
    const PanelsAtOnce at_once(panels.count(), of_.sizes.out_channels - first);
    const float* const weights = data_.panels + panels.begin * of_.panel_floats();
    for (std::int64_t product = 0; product < products; ++product)
      multiply(product, weights + product * of_.sizes.channels * panel_columns, at_once);
    const auto add_products = function_for<AddProducts, const MadeSquare&>(at_once.columns);
    for (std::int64_t i = 0; i < squares_.count(); ++i) add_products(made(i, first, at_once));
    return at_once.count;
  }

 private:
  std::array<const float*, products> seen(std::int64_t square) const {
    const Windows& windows = of_.sizes.windows;
    const SquarePlace place(of_, square);
    const std::int64_t height = windows.in[DirectConvolution::height];
    const std::int64_t width = windows.in[DirectConvolution::width];
    std::array<const float*, products> places;
    for (int i = 0; i < products; ++i) {
      const std::int64_t y = place.y + i / side - windows.pads[DirectConvolution::height];
      const std::int64_t x = place.x + i % side - windows.pads[DirectConvolution::width];
      const bool is_inside = y >= 0 && y < height && x >= 0 && x < width;
      places[static_cast<std::size_t>(i)] =
          is_inside ? data_.in + ((place.image * height + y) * width + x) * of_.sizes.channels
                    : data_.zeros;
    }
    return places;
  }

  /// One of the products of all squares by some panels.
  void multiply(std::int64_t product, const float* weights, const PanelsAtOnce& panels) const {
    static constexpr std::array<float, most_panels* panel_columns> no_bias = {};
    const std::int64_t channels = of_.sizes.channels;
    const std::int64_t count = squares_.count();
    const std::int64_t width = panels.count * panel_columns;
    std::array<const float*, most_squares> windows;
    for (std::int64_t i = 0; i < count; ++i)
      windows[static_cast<std::size_t>(i)] = sums_ + (product * count + i) * channels;
    constexpr std::int64_t line = 64;
    for (std::int64_t first = 0; first < channels; first += chunk_channels) {
      const Stretch stretch{first, first, std::min(chunk_channels, channels - first)};
      TileOperands operands{
          .tiles = count / tile_windows,
          .windows = windows.data(),
          .channel = 0,
          .stretches = {&stretch, 1},
          .panel = weights,
          .panel_floats = of_.panel_floats(),
          .bias = first == 0 ? no_bias.data() : nullptr,
          .addend = nullptr,
          .out = products_ + product * count * width,
          .columns = width,
          .has_relu = false,
          .ahead = {reinterpret_cast<const char*>(weights + channels * panel_columns),
                    line * tile_windows / std::max<std::int64_t>(count, tile_windows)}};
      if (operands.tiles > 0) panels.function(tile_windows)(operands);
      const std::int64_t done = operands.tiles * tile_windows;
      operands.windows += done;
      operands.out += done * operands.columns;
      operands.tiles = 1;
      if (done < count) panels.function(count - done)(operands);
    }
  }

  MadeSquare made(std::int64_t i, std::int64_t first_column, const PanelsAtOnce& panels) const {
    const std::int64_t step = panels.count * panel_columns;
    const SquarePlace place(of_, squares_.begin + i);
    const std::int64_t columns = of_.sizes.out_channels;
    const std::int64_t at =
        ((place.image * of_.out_height() + place.y) * of_.out_width() + place.x) * columns +
        first_column;
    return {.products = products_ + i * step,
            .step = squares_.count() * step,
            .bias = data_.bias + first_column,
            .addend = data_.addend == nullptr ? nullptr : data_.addend + at,
            .out = data_.out + at,
            .row = of_.out_width() * columns,
            .column = columns,
            .rows = static_cast<int>(std::min<std::int64_t>(outputs, of_.out_height() - place.y)),
            .columns = static_cast<int>(std::min<std::int64_t>(outputs, of_.out_width() - place.x)),
            .width = panels.columns,
            .has_relu = data_.has_relu};
  }

  const Squares& of_;
  const WinogradData& data_;
  Range squares_;
  float* sums_;      ///< [product, square, channel]
  float* products_;  ///< [product, square, column of the panels that are read at once]
};

/// G g of three weights.
std::array<double, side> sums_of(double a, double b, double c) {
  return {a, (a + b + c) / 2, (a - b + c) / 2, c};
}

/// G g G^T of a channel's weights [3, 3], rounded once, each `step` floats behind the one before.
void write_sums(const float* weights, float* to, std::int64_t step) {
  const auto sums_of_column = [weights](int x) {
    return sums_of(weights[x], weights[taps + x], weights[2 * taps + x]);
  };
  const std::array columns = {sums_of_column(0), sums_of_column(1), sums_of_column(2)};
  for (std::size_t y = 0; y < side; ++y)
    for (const double sum : sums_of(columns[0][y], columns[1][y], columns[2][y])) {
      *to = static_cast<float>(sum);
      to += step;
    }
}

/// Writes weights [out channel, channel, 3, 3] as [panel, product, channel, column].
void write_panels(const Squares& of, const float* weights, float* panels) {
  std::fill_n(panels, of.panels() * of.panel_floats(), 0.0F);
  const std::int64_t channels = of.sizes.channels;
  for (std::int64_t k = 0; k < of.sizes.out_channels; ++k)
    for (std::int64_t c = 0; c < channels; ++c)
      write_sums(
          weights + (k * channels + c) * taps * taps,
          panels + k / panel_columns * of.panel_floats() + c * panel_columns + k % panel_columns,
          channels * panel_columns);
}

class WinogradConv final : public Kernel {
 public:
  explicit WinogradConv(const KernelRequest& request)
      : of_(convolution_sizes(request)),
        threads_(request.device.threads()),
        has_relu_(request.node.string_attribute("activation", "") == "Relu") {
    share_work();
    const std::int64_t bytes = float_bytes(of_.panels() * of_.panel_floats());
    panels_ = request.kept(1, "panels of F(2x2, 3x3)", bytes, [&] {
      auto panels = request.device.allocate(bytes);
      write_panels(of_, request.inputs[1].as<const float>(),
                   reinterpret_cast<float*>(panels.get()));
      return panels;
    });
  }

  bool reads(std::size_t input) const override { return input != 1; }

  std::int64_t scratch_bytes() const override {
    return bias_bytes() + zero_bytes() + threads_ * block_bytes();
  }

  void run(const KernelIo& io) override {
    auto* const bias = reinterpret_cast<float*>(io.scratch);
    std::fill_n(bias, (bias_bytes() + zero_bytes()) / float_bytes(1), 0.0F);
    if (is_given(io.inputs, 2))
      std::copy_n(io.inputs[2].as<const float>(), of_.sizes.out_channels, bias);
    std::byte* const memory = io.scratch + bias_bytes() + zero_bytes();
    const WinogradData data{io.inputs[0].as<const float>(),
                            reinterpret_cast<const float*>(panels_.get()),
                            bias,
                            reinterpret_cast<const float*>(io.scratch + bias_bytes()),
                            is_given(io.inputs, 3) ? io.inputs[3].as<const float>() : nullptr,
                            io.outputs[0].as<float>(),
                            has_relu_};
    const std::int64_t parts = blocks_ * panel_parts_;
    for_in_threads(threads_, parts, [&](std::int64_t part) {
      auto* const of_thread = memory + omp_get_thread_num() * block_bytes();
      SquareBlock block(of_, data, Range{0, of_.count()}.part(part / panel_parts_, blocks_),
                        reinterpret_cast<float*>(of_thread));
      Range panels = Range{0, of_.panels()}.part(part % panel_parts_, panel_parts_);
      while (panels.count() > 0) panels.begin += block.compute_panels(panels);
    });
  }

 private:
  /// Threads share the blocks; or the panels of one block, where there are many: each then reads
  /// its own part of the weights, but all of them make the sums of what squares see.
  void share_work() {
    constexpr std::int64_t many_panels = 8;
    blocks_ = (of_.count() + most_squares - 1) / most_squares;
    if (blocks_ == 1 && of_.panels() >= std::max<std::int64_t>(many_panels, threads_))
      panel_parts_ = threads_;
    else
      blocks_ = std::min((blocks_ + threads_ - 1) / threads_ * threads_, of_.count());
  }

  static std::int64_t float_bytes(std::int64_t floats) {
    return floats * static_cast<std::int64_t>(sizeof(float));
  }
  std::int64_t bias_bytes() const {
    return graph::aligned(float_bytes(of_.panels() * panel_columns));
  }
  std::int64_t zero_bytes() const { return graph::aligned(float_bytes(of_.sizes.channels)); }
  std::int64_t block_bytes() const {
    const std::int64_t squares = std::min(most_squares, of_.count());
    return graph::aligned(float_bytes(SquareBlock::floats(of_, squares)));
  }

  Squares of_;
  int threads_;
  bool has_relu_;
  std::int64_t blocks_ = 1;
  std::int64_t panel_parts_ = 1;  ///< by which threads share the panels of each block
  std::shared_ptr<std::byte> panels_;
};

}  // namespace

bool serves_winograd_conv(const graph::Node& node, std::span<const TensorView> inputs,
                          std::span<const TensorView> outputs) {
  const Shape& weights = inputs[1].shape;
  const bool has_its_taps = weights.size() == 4 && weights[2] == taps && weights[3] == taps;
  if (simd_level() == SimdLevel::baseline || !has_its_taps || reads_channels_second(node) ||
      !are_fusable_floats(inputs, outputs))
    return false;
  const auto are_ones = [&](const char* attribute) {
    return std::ranges::all_of(node.ints_attribute(attribute, {}), [](auto n) { return n == 1; });
  };
  constexpr std::int64_t least_channels = 32;
  constexpr std::int64_t least_squares = 16;  // of an image, so that batches are computed alike
  const auto are_served = [](std::int64_t channels) {
    return channels % tile_lanes == 0 && channels >= least_channels;
  };
  const Shape& out = outputs[0].shape;
  return node.int_attribute("group", 1) == 1 && are_ones("strides") && are_ones("dilations") &&
         are_served(weights[0]) && are_served(weights[1]) &&
         halved(out[1]) * halved(out[2]) >= least_squares;
}

std::unique_ptr<Kernel> make_winograd_conv(const KernelRequest& last) {
  return std::make_unique<WinogradConv>(with_channels_second(last));
}

}  // namespace autopar::runtime::cpu
