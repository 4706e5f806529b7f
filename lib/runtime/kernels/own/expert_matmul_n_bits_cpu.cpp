// ExpertMatMulNBits: the rows of each expert go through MatMulNBits, which reads the expert's
// packed weights once for them.

#include <array>
#include <cstring>

#include "graph/arena.h"
#include "runtime/device.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/own/kernels.h"
#include "runtime/kernels/product/rows_by_matrix.h"
#include "runtime/kernels/quantized/kernels.h"

namespace autopar::runtime::cpu {
namespace {

/// MatMulNBits has no smaller blocks, and fills up the last one of a row.
constexpr std::int64_t least_block = 8;
/// How many rows a product has; what an expert has fewer is filled up.
constexpr std::array<std::int64_t, 6> tile_sizes = {1, 2, 4, 16, 64, 256};

class ExpertMatMulNBits final : public Kernel {
 public:
  ExpertMatMulNBits(const KernelRequest& request, std::int64_t block)
      : rows_(request.inputs[0].shape[0]),
        depth_(request.inputs[0].shape[1]),
        experts_(request.inputs[2].shape[0]),
        columns_(request.inputs[2].shape[1]),
        element_bytes_(element_bytes_of(request, request.inputs[0])),
        by_expert_(rows_, experts_ + 1) {
    for (const std::int64_t size : tile_sizes) {
      add_product(request, block, size);
      if (size >= rows_) break;
    }
    const std::int64_t most = products_.back().rows;
    in_bytes_ = graph::aligned(most * depth_ * element_bytes_);
    out_bytes_ = graph::aligned(most * columns_ * element_bytes_);
  }

  std::int64_t scratch_bytes() const override { return product_bytes_ + in_bytes_ + out_bytes_; }

  void run(const KernelIo& io) override {
    const auto* indices = io.inputs[1].as<const std::int64_t>();
    // Rows of no expert come last.
    by_expert_.sort([&](std::int64_t row) {
      const bool is_there = indices[row] >= 0 && indices[row] < experts_;
      return static_cast<std::size_t>(is_there ? indices[row] : experts_);
    });
    for (std::int64_t expert = 0; expert < experts_; ++expert) multiply(io, expert);
    const std::int64_t bytes = columns_ * element_bytes_;
    for (const std::int64_t row : by_expert_.rows_of(experts_))
      std::memset(io.outputs[0].data + row * bytes, 0, static_cast<std::size_t>(bytes));
  }

 private:
  /// MatMulNBits of so many rows.
  struct Product {
    std::int64_t rows = 0;
    std::vector<TensorView> inputs;
    TensorView output;
    std::unique_ptr<Kernel> kernel;
  };

  void add_product(const KernelRequest& request, std::int64_t block, std::int64_t rows) {
    const auto of_expert = [&](std::size_t input) {
      if (!is_given(request.inputs, input)) return TensorView{};
      const TensorView& all = request.inputs[input];
      return TensorView{all.type, Shape(all.shape.begin() + 1, all.shape.end())};
    };
    const DataType type = request.inputs[0].type;
    const TensorView in{type, {rows, depth_}};
    Product product{rows,
                    {in, of_expert(2), of_expert(3), of_expert(4), {}, of_expert(5)},
                    {type, {rows, columns_}},
                    nullptr};
    graph::Node node{request.node.name, "MatMulNBits", "com.microsoft", {}, {}, {}};
    node.attributes = {{"N", columns_},
                       {"K", depth_},
                       {"block_size", block},
                       {"bits", request.node.int_attribute("bits", 4)}};
    product.kernel = make_matmul_n_bits({node, product.inputs, {product.output}, request.device});
    product_bytes_ = std::max(product_bytes_, graph::aligned(product.kernel->scratch_bytes()));
    products_.push_back(std::move(product));
  }

  /// The rows that go through one expert.
  void multiply(const KernelIo& io, std::int64_t expert) {
    auto rows = by_expert_.rows_of(expert);
    while (!rows.empty()) {
      const auto count = static_cast<std::int64_t>(rows.size());
      const auto fitting = std::ranges::find_if(
          products_, [&](const Product& product) { return product.rows >= count; });
      Product& product = fitting == products_.end() ? products_.back() : *fitting;
      const auto tile = rows.first(static_cast<std::size_t>(std::min(count, product.rows)));
      multiply_tile(io, expert, product, tile);
      rows = rows.subspan(tile.size());
    }
  }

  void multiply_tile(const KernelIo& io, std::int64_t expert, Product& product,
                     std::span<const std::int64_t> tile) {
    std::byte* const in = io.scratch + product_bytes_;
    std::byte* const out = in + in_bytes_;
    const auto row_bytes = static_cast<std::size_t>(depth_ * element_bytes_);
    const auto result_bytes = static_cast<std::size_t>(columns_ * element_bytes_);
    std::byte* to = in;
    for (const std::int64_t row : tile) {
      std::memcpy(to, io.inputs[0].data + static_cast<std::size_t>(row) * row_bytes, row_bytes);
      to += row_bytes;
    }
    std::memset(to, 0, row_bytes * (static_cast<std::size_t>(product.rows) - tile.size()));
    product.inputs[0].data = in;
    product.output.data = out;
    for (const auto& [input, place] : {std::pair{2U, 1U}, {3U, 2U}, {4U, 3U}, {5U, 5U}})
      if (product.inputs[place].present())
        product.inputs[place].data =
            io.inputs[input].data + expert * product.inputs[place].size_bytes();
    product.kernel->run({product.inputs, std::span(&product.output, 1), io.scratch});
    const std::byte* from = out;
    for (const std::int64_t row : tile) {
      std::memcpy(io.outputs[0].data + static_cast<std::size_t>(row) * result_bytes, from,
                  result_bytes);
      from += result_bytes;
    }
  }

  std::int64_t rows_;
  std::int64_t depth_;
  std::int64_t experts_;
  std::int64_t columns_;
  std::int64_t element_bytes_;
  RowsByMatrix by_expert_;
  std::vector<Product> products_;  ///< by rows
  std::int64_t product_bytes_ = 0;
  std::int64_t in_bytes_ = 0;
  std::int64_t out_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_rows_by_expert(const KernelRequest& request) {
  const std::int64_t given = request.node.int_attribute("block_size", 0);
  const std::int64_t block = given > 0 ? given : request.inputs[0].shape[1];
  const bool is_whole = block >= least_block && request.inputs[0].shape[1] % block == 0;
  if (!is_whole || request.inputs[2].elements() == 0) return nullptr;
  return std::make_unique<ExpertMatMulNBits>(request, block);
}

}  // namespace autopar::runtime::cpu
