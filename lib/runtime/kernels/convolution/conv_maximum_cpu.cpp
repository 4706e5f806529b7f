// The maximum over all places of what a convolution by windows of one place makes: a product whose
// rows are places. Its results stay in the cache.

#include <algorithm>
#include <array>

#include "runtime/device.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/convolution/kernels.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/panel_matrix.h"
#include "runtime/kernels/reduction/reduction.h"

namespace autopar::runtime::cpu {
namespace {

using reductions::Max;

constexpr std::int64_t most_columns = PanelProduct::most_columns;

/// Takes the numbers of a tile's windows into the largest of each column.
struct TakeLargest {
  [[gnu::always_inline]] static inline void run(const float* sums, std::int64_t windows,
                                                float* largest) {
    for (std::int64_t i = 0; i < windows; ++i, sums += most_columns)
      for (std::int64_t c = 0; c < most_columns; ++c) largest[c] = Max::take(largest[c], sums[c]);
  }
};

struct Operands {
  const float* images;
  const float* panels;
  const float* bias;  ///< null where nothing is added
  float* out;
};

/// The maxima over places of images [images, places, matrix.depth].
struct PlaceMaximum {
  PanelMatrix matrix;
  std::int64_t images = 0;
  std::int64_t places = 0;

  std::int64_t groups() const {
    return (matrix.panels() + PanelsAtOnce::most() - 1) / PanelsAtOnce::most();
  }

  /// Writes the columns of a group of panels for an image.
  void compute(const Operands& operands, std::int64_t image, std::int64_t group) const {
    const std::int64_t first = group * PanelsAtOnce::most();
    Range left{first, std::min(matrix.panels(), first + PanelsAtOnce::most())};
    while (left.count() > 0) {
      const PanelProduct product(matrix, operands.panels, left, operands.bias);
      const std::array largest =
          largest_of(product, operands.images + image * places * matrix.depth);
      std::copy_n(largest.data(), product.columns(),
                  operands.out + image * matrix.columns + product.first_column());
      left.begin += product.panels();
    }
  }

  std::array<float, most_columns> largest_of(const PanelProduct& product,
                                             const float* image) const {
    static const auto take =
        simd_function<TakeLargest, const float*, std::int64_t, float*>(simd_level());
    std::array<float, most_columns> largest;
    largest.fill(Max::start<float>);
    std::array<float, tile_windows* most_columns> sums = {};
    const std::int64_t tiles = (places + tile_windows - 1) / tile_windows;
    for (std::int64_t i = 0; i < tiles; ++i) {
      const Range tile = Range{0, places}.part(i, tiles);
      product.multiply(image + tile.begin * matrix.depth, matrix.depth, tile.count(), sums.data(),
                       most_columns);
      take(sums.data(), tile.count(), largest.data());
    }
    return largest;
  }
};

class ConvMaximum final : public Kernel {
 public:
  ConvMaximum(const PlaceMaximum& of, int threads, std::shared_ptr<std::byte> panels)
      : of_(of), threads_(threads), panels_(std::move(panels)) {}

  bool reads(std::size_t input) const override { return input != 1; }

  void run(const KernelIo& io) override {
    const Operands operands{io.inputs[0].as<const float>(),
                            reinterpret_cast<const float*>(panels_.get()),
                            optional_data<const float>(io.inputs, 2), io.outputs[0].as<float>()};
    for_in_threads(threads_, of_.images * of_.groups(), [&](std::int64_t task) {
      of_.compute(operands, task / of_.groups(), task % of_.groups());
    });
  }

 private:
  PlaceMaximum of_;
  int threads_;
  std::shared_ptr<std::byte> panels_;
};

}  // namespace

bool serves_conv_maximum(const graph::Node&, std::span<const TensorView> inputs,
                         std::span<const TensorView> outputs) {
  return simd_level() != SimdLevel::baseline && inputs[0].type == DataType::float32 &&
         inputs[0].elements() > 0 && outputs[0].elements() > 0;
}

std::unique_ptr<Kernel> make_conv_maximum(const KernelRequest& request) {
  const Shape& images = request.inputs[0].shape;
  const std::int64_t depth = images.back();
  const PlaceMaximum of{.matrix = {.depth = depth,
                                   .columns = request.inputs[1].shape[0],
                                   .row_stride = 1,
                                   .column_stride = depth},
                        .images = images[0],
                        .places = request.inputs[0].elements() / images[0] / depth};
  return std::make_unique<ConvMaximum>(of, request.device.threads(), of.matrix.kept(request, 1));
}

}  // namespace autopar::runtime::cpu
