// MatMulInteger and QuantizedMatMul by tiles of bytes.

#include "runtime/kernels/quantized/byte_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "graph/arena.h"
#include "runtime/device.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/quantized/byte_finish.h"
#include "runtime/kernels/quantized/byte_panels.h"
#include "runtime/kernels/quantized/integers.h"

namespace autopar::runtime::cpu {
namespace {

/// Where a node has what is optional here.
struct Places {
  std::size_t a_zero;
  std::size_t b_zero;
  std::optional<std::size_t> scale;  ///< without one, the result is the sums in int32
};
constexpr Places of_matmul_integer{.a_zero = 2, .b_zero = 3, .scale = {}};
constexpr Places of_quantized_matmul{.a_zero = 3, .b_zero = 4, .scale = 2};

/// Some rows of one of the products, and the columns of a panel.
struct Part {
  std::int64_t batch;
  std::int64_t panel;
  std::int64_t first_row;
  std::int64_t last_row;  ///< not in it
};

/// The rows of all matrices of A as they are multiplied.
struct Rows {
  std::byte* numbers;
  std::int64_t stride;  ///< bytes
  ByteRowTerms* terms;
};

class ByteMatMul final : public Kernel {
 public:
  ByteMatMul(const KernelRequest& request, const Product& product, const Places& places)
      : product_(product),
        places_(places),
        threads_(request.device.threads()),
        is_a_signed_(request.inputs[0].type == DataType::int8),
        is_b_signed_(request.inputs[1].type == DataType::int8),
        layout_{1, product.depth, product.columns},
        a_rows_(request.inputs[0].elements() / product.depth),
        matrices_(request.inputs[1].elements() / product.depth / product.columns) {
    const Shape& a = request.inputs[0].shape;
    a_zeros_ = repeated_input(request, places.a_zero, "a_zero_point",
                              a.size() > 1 ? a[a.size() - 2] : 1, 1);
    b_zeros_ = repeated_input(request, places.b_zero, "b_zero_point", product.columns, 1);
    if (places.scale)
      scales_ = repeated_input(request, *places.scale, "the scale", product.columns, 1);
    if (!request.is_constant(1)) return;
    const std::string form = fmt::format("panels of bytes, {} matrices of {} by {}", matrices_,
                                         product.depth, product.columns);
    kept_panels_ = request.kept(1, form, all_panel_bytes(), [&] {
      auto memory = request.device.allocate(all_panel_bytes());
      if (!write_matrices(request.inputs[1].data, ByteForm::quads, memory.get()))
        write_matrices(request.inputs[1].data, ByteForm::pairs, memory.get());
      return memory;
    });
  }

  bool reads(std::size_t input) const override { return input != 1 || !kept_panels_; }

  std::int64_t scratch_bytes() const override {
    return row_bytes() + row_term_bytes() + (kept_panels_ ? 0 : all_panel_bytes());
  }

  void run(const KernelIo& io) override {
    const Rows rows{io.scratch, row_stride(),
                    reinterpret_cast<ByteRowTerms*>(io.scratch + row_bytes())};
    std::byte* const panels =
        kept_panels_ ? kept_panels_.get() : io.scratch + row_bytes() + row_term_bytes();
    const std::int64_t parts = count_parts();
    constexpr std::int64_t least_work = 1 << 16;  // products that are worth waking a thread for
    const bool is_worth_threads = a_rows_ * product_.depth * product_.columns > least_work;
    in_threads(is_worth_threads ? threads_ : 1, [&] {
#pragma omp for nowait
      for (std::int64_t row = 0; row < a_rows_; ++row)
        rows.terms[row] = write_row(io, row, rows.numbers + row * rows.stride);
      if (!kept_panels_) {
#pragma omp for nowait
        for (std::int64_t i = 0; i < matrices_; ++i)
          write_matrix(io.inputs[1].data, i, ByteForm::pairs, panels);
      }
#pragma omp barrier
#pragma omp for nowait
      for (std::int64_t i = 0; i < parts; ++i) compute(io, part(i), rows, panels);
    });
  }

 private:
  /// Constants alone are quads: to look for excess takes longer than one product.
  ByteForm form() const {
    return kept_panels_ ? BytePanels(layout_, kept_panels_.get()).form() : ByteForm::pairs;
  }
  std::int64_t row_stride() const { return layout_.words(form()) * 4; }
  std::int64_t row_bytes() const { return graph::aligned(a_rows_ * row_stride()); }
  std::int64_t row_term_bytes() const {
    return graph::aligned(a_rows_ * static_cast<std::int64_t>(sizeof(ByteRowTerms)));
  }
  std::int64_t all_panel_bytes() const { return matrices_ * layout_.bytes(); }

  bool write_matrix(const std::byte* b, std::int64_t i, ByteForm form, std::byte* panels) const {
    const ByteMatrix matrix{b + i * product_.depth * product_.columns, is_b_signed_,
                            product_.columns, 1};
    return write_byte_panels(layout_, matrix, form, panels + i * layout_.bytes());
  }
  bool write_matrices(const std::byte* b, ByteForm form, std::byte* panels) const {
    for (std::int64_t i = 0; i < matrices_; ++i)
      if (!write_matrix(b, i, form, panels)) return false;
    return true;
  }

  ByteRowTerms write_row(const KernelIo& io, std::int64_t row, std::byte* to) const {
    const std::uint32_t zero = a_zero(io, row);
    const std::int32_t sum = write_byte_row(io.inputs[0].data + row * product_.depth,
                                            product_.depth, is_a_signed_, form(), to);
    return {zero,
            static_cast<std::uint32_t>(sum) - zero * static_cast<std::uint32_t>(product_.depth)};
  }

  /// The zero point of what is made unsigned.
  std::uint32_t a_zero(const KernelIo& io, std::int64_t row) const {
    const std::int64_t place = a_zeros_.of(row);
    return static_cast<std::uint32_t>(
        is_a_signed_
            ? zero_point_at(optional_data<const std::int8_t>(io.inputs, places_.a_zero), place) +
                  128
            : zero_point_at(optional_data<const std::uint8_t>(io.inputs, places_.a_zero), place));
  }
  /// The zero point of what is made signed, by the column of all matrices.
  std::uint32_t b_zero(const KernelIo& io, std::int64_t column) const {
    const std::int64_t place = b_zeros_.of(column);
    return static_cast<std::uint32_t>(
        is_b_signed_
            ? zero_point_at(optional_data<const std::int8_t>(io.inputs, places_.b_zero), place)
            : zero_point_at(optional_data<const std::uint8_t>(io.inputs, places_.b_zero), place) -
                  128);
  }

  /// Rows are divided only where there are too few panels for all threads.
  std::int64_t row_parts() const {
    const std::int64_t others = graph::num_elements(product_.batches) * layout_.panels();
    const std::int64_t wanted = (4 * std::int64_t{threads_} + others - 1) / others;
    const std::int64_t tiles = (product_.rows + byte_tile_rows - 1) / byte_tile_rows;
    return std::clamp<std::int64_t>(wanted, 1, tiles);
  }
  std::int64_t count_parts() const {
    return graph::num_elements(product_.batches) * layout_.panels() * row_parts();
  }
  Part part(std::int64_t i) const {
    const std::int64_t parts = row_parts();
    const std::int64_t of_rows = i % parts;
    return {i / parts / layout_.panels(), i / parts % layout_.panels(),
            product_.rows * of_rows / parts, product_.rows * (of_rows + 1) / parts};
  }

  ByteColumnTerms columns_of(const KernelIo& io, const BytePanels& panels, std::int64_t matrix,
                             std::int64_t panel) const {
    ByteColumnTerms columns;
    const std::int64_t first = panel * byte_panel_columns;
    columns.count = std::min(product_.columns - first, byte_panel_columns);
    std::ranges::copy(panels.column_sums(panel), columns.sums.begin());
    for (std::int64_t i = 0; i < columns.count; ++i) {
      const auto place = static_cast<std::size_t>(i);
      columns.zeros[place] = b_zero(io, matrix * product_.columns + first + i);
      if (places_.scale)
        columns.scales[place] = io.inputs[*places_.scale].as<const float>()[scales_.of(first + i)];
    }
    return columns;
  }

  void compute(const KernelIo& io, const Part& of, const Rows& rows,
               const std::byte* all_panels) const {
    const auto first_of = [&](const MatrixLayout& layout) {
      return batch_offset(product_.batches, layout.batch_strides, of.batch);
    };
    const std::int64_t matrix = first_of(product_.b) / product_.depth / product_.columns;
    const BytePanels panels(layout_, all_panels + matrix * layout_.bytes());
    const ByteColumnTerms columns = columns_of(io, panels, matrix, of.panel);
    const std::int64_t first_row = first_of(product_.a) / product_.depth;
    const std::int64_t row_step = product_.a.row_stride / product_.depth;
    const std::int64_t first_out = first_of(product_.out) + of.panel * byte_panel_columns;
    const ByteForm form = this->form();
    const WordStretch stretch{0, layout_.words(form)};
    std::array<const std::byte*, byte_tile_rows> seen;
    ByteTileTerms terms;
    ByteTileNumbers<std::int32_t> sums = {};
    for (std::int64_t m = of.first_row; m < of.last_row; m += byte_tile_rows) {
      const auto count = static_cast<std::size_t>(std::min(of.last_row - m, byte_tile_rows));
      for (std::size_t i = 0; i < count; ++i) {
        const std::int64_t row = first_row + (m + static_cast<std::int64_t>(i)) * row_step;
        seen[i] = rows.numbers + row * rows.stride;
        terms[i] = rows.terms[row];
      }
      const ByteTile tile{.rows = std::span(seen).first(count),
                          .stretches = {&stretch, 1},
                          .panel = panels.weights(of.panel),
                          .form = form};
      compute_byte_tile(tile, sums.data());
      add_byte_excess(tile, panels.excess(of.panel), sums.data());
      write_tile(io, terms, columns, sums.data(), static_cast<std::int64_t>(count),
                 first_out + m * product_.out.row_stride);
    }
  }

  /// Writes what becomes of the sums from element `at` of the result.
  void write_tile(const KernelIo& io, const ByteTileTerms& terms, const ByteColumnTerms& columns,
                  const std::int32_t* sums, std::int64_t rows, std::int64_t at) const {
    const auto write = [&]<typename T>(T* out) {
      ByteTileNumbers<T> results;
      finish_byte_tile(terms, columns, sums, results.data());
      for (std::int64_t i = 0; i < rows; ++i)
        std::copy_n(results.data() + i * byte_panel_columns, columns.count,
                    out + at + i * product_.out.row_stride);
    };
    places_.scale ? write(io.outputs[0].as<float>()) : write(io.outputs[0].as<std::int32_t>());
  }

  Product product_;
  Places places_;
  int threads_;
  bool is_a_signed_;
  bool is_b_signed_;
  BytePanelLayout layout_;
  std::int64_t a_rows_;    ///< of all matrices
  std::int64_t matrices_;  ///< of B
  Repeated a_zeros_;
  Repeated b_zeros_;
  Repeated scales_;
  std::shared_ptr<std::byte> kept_panels_;  ///< null where B is no constant
};

}  // namespace

std::unique_ptr<Kernel> make_tiled_matmul_integer(const KernelRequest& request,
                                                  const Product& product) {
  return std::make_unique<ByteMatMul>(request, product, of_matmul_integer);
}

std::unique_ptr<Kernel> make_tiled_quantized_matmul(const KernelRequest& request,
                                                    const Product& product) {
  return std::make_unique<ByteMatMul>(request, product, of_quantized_matmul);
}

}  // namespace autopar::runtime::cpu
