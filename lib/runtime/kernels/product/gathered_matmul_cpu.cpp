#include <algorithm>

#include "graph/arena.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cpu/onednn.h"
#include "runtime/kernels/product/kernels.h"
#include "runtime/kernels/product/rows_by_matrix.h"

namespace autopar::runtime::cpu {
namespace {

using dnnl::memory;

/// Rows that one product of oneDNN has; the last one of a matrix may have fewer in use.
constexpr std::int64_t most_tile_rows = 16;

/// Vectors that meet the same matrix go through it together, so that it is read once for many.
class GatheredMatMul final : public Kernel {
 public:
  explicit GatheredMatMul(const KernelRequest& request)
      : node_(request.node.name),
        table_(static_cast<std::size_t>(request.node.int_attribute("table", 0))),
        vectors_(request.outputs[0].shape[0]),
        matrices_(request.inputs[table_].shape[0]),
        depth_(request.inputs[table_].shape[table_ == 0 ? 2 : 1]),
        columns_(request.inputs[table_].shape[table_ == 0 ? 1 : 2]),
        tile_rows_(std::min(vectors_, most_tile_rows)),
        in_bytes_(graph::aligned(tile_rows_ * depth_ * 4)),
        out_bytes_(graph::aligned(tile_rows_ * columns_ * 4)),
        rows_(vectors_, matrices_) {
    const memory::dims dims{depth_, columns_};
    const memory::dims strides = table_ == 0 ? memory::dims{1, depth_} : memory::dims{columns_, 1};
    const memory::desc stored(dims, memory::data_type::f32, strides);
    const auto description = describe_primitive<dnnl::matmul>(
        user_scratchpad(), float_layout({tile_rows_, depth_}),
        memory::desc(dims, memory::data_type::f32, memory::format_tag::any),
        float_layout({tile_rows_, columns_}));
    product_ = OnednnPrimitive(description, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST});
    keep(request, stored, description.weights_desc());
  }

  std::int64_t scratch_bytes() const override {
    return product_.scratch_bytes() + in_bytes_ + out_bytes_;
  }
  bool reads(std::size_t input) const override { return input != table_ || !kept_; }

  void run(const KernelIo& io) override {
    const TensorView& indices = io.inputs[2];
    rows_.sort([&](std::int64_t vector) {
      return static_cast<std::size_t>(checked_index(integer_at(indices, vector), matrices_, node_));
    });
    const auto* in = io.inputs[1 - table_].as<const float>();
    auto* out = io.outputs[0].as<float>();
    auto* tile_in = reinterpret_cast<float*>(io.scratch + product_.scratch_bytes());
    auto* tile_out = tile_in + in_bytes_ / 4;
    product_.bind(DNNL_ARG_SRC, tile_in);
    product_.bind(DNNL_ARG_DST, tile_out);
    for (std::int64_t matrix = 0; matrix < matrices_; ++matrix) {
      auto vectors = rows_.rows_of(matrix);
      if (vectors.empty()) continue;
      product_.bind(DNNL_ARG_WEIGHTS, matrix_of(io, matrix));
      while (!vectors.empty()) {
        const auto tile =
            vectors.first(std::min(vectors.size(), static_cast<std::size_t>(tile_rows_)));
        vectors = vectors.subspan(tile.size());
        float* row = tile_in;
        for (const std::int64_t vector : tile) row = std::copy_n(in + vector * depth_, depth_, row);
        std::fill(row, tile_in + tile_rows_ * depth_, 0.0F);
        product_.run(io.scratch);
        const float* result = tile_out;
        for (const std::int64_t vector : tile) {
          std::copy_n(result, columns_, out + vector * columns_);
          result += columns_;
        }
      }
    }
  }

 private:
  const void* matrix_of(const KernelIo& io, std::int64_t matrix) const {
    const std::byte* all = kept_ ? kept_.get() : io.inputs[table_].data;
    return all + matrix * matrix_bytes_;
  }

  /// The table in oneDNN's layout, unless it is in that already.
  void keep(const KernelRequest& request, const memory::desc& stored, const memory::desc& wanted) {
    matrix_bytes_ = static_cast<std::int64_t>(wanted.get_size());
    Reordering reordering(stored, wanted);
    if (!reordering.is_needed()) return;
    kept_ = request.kept(table_, form_of(stored, wanted), matrices_ * matrix_bytes_, [&] {
      auto kept = request.device.allocate(matrices_ * matrix_bytes_);
      const auto scratch = request.device.allocate(reordering.scratch_bytes());
      for (std::int64_t matrix = 0; matrix < matrices_; ++matrix)
        reordering.run(request.inputs[table_].data + matrix * depth_ * columns_ * 4,
                       kept.get() + matrix * matrix_bytes_, scratch.get());
      return kept;
    });
  }

  std::string node_;
  std::size_t table_;  ///< the input that it is
  std::int64_t vectors_;
  std::int64_t matrices_;
  std::int64_t depth_;
  std::int64_t columns_;
  std::int64_t tile_rows_;
  std::int64_t in_bytes_;
  std::int64_t out_bytes_;
  RowsByMatrix rows_;
  OnednnPrimitive product_;
  std::int64_t matrix_bytes_ = 0;
  std::shared_ptr<std::byte> kept_;  ///< null where the node's own table serves
};

}  // namespace

std::unique_ptr<Kernel> make_gathered_matmul(const KernelRequest& request) {
  return std::make_unique<GatheredMatMul>(request);
}

}  // namespace autopar::runtime::cpu
