// MatMulInteger by oneDNN where the processor adds up exactly. Zero points are made good
// afterwards:
//   sum of (a - za)(b - zb) = sum of ab - zb sum of a - za sum of b + k za zb.

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "graph/arena.h"
#include "runtime/kernels/common/loops.h"
#include "runtime/kernels/product/onednn_product.h"
#include "runtime/kernels/quantized/byte_matmul.h"
#include "runtime/kernels/quantized/byte_tile.h"
#include "runtime/kernels/quantized/integers.h"
#include "runtime/kernels/quantized/kernels.h"

namespace autopar::runtime::cpu {
namespace {

using dnnl::memory;

/// The sum of each row of `data`, [rows, columns].
template <typename T>
void sum_rows(const T* data, std::int64_t rows, std::int64_t columns, std::int32_t* sums) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int32_t sum = 0;
    for (std::int64_t i = 0; i < columns; ++i) sum += data[row * columns + i];
    sums[row] = sum;
  }
}
/// The sum of each column of `count` matrices [rows, columns].
void sum_columns(const std::int8_t* data, std::int64_t count, std::int64_t rows,
                 std::int64_t columns, std::int32_t* sums) {
  std::fill_n(sums, count * columns, 0);
  for (std::int64_t matrix = 0; matrix < count; ++matrix)
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < columns; ++i)
        sums[matrix * columns + i] += data[(matrix * rows + row) * columns + i];
}

/// B as oneDNN wants it, signed, and what its columns sum up to.
struct SignedWeights {
  const std::int8_t* data = nullptr;
  const std::int32_t* column_sums = nullptr;
};

class OnednnMatMulInteger final : public Kernel {
 public:
  /// Throws dnnl::error where oneDNN has no such product.
  OnednnMatMulInteger(const KernelRequest& request, const Product& product)
      : product_(product),
        b_type_(request.inputs[1].type),
        b_elements_(request.inputs[1].elements()),
        b_columns_(request.inputs[1].shape.size() > 1 ? request.inputs[1].shape.back() : 1),
        a_rows_(request.inputs[0].elements() / product.depth),
        b_matrices_(b_elements_ / product.depth / b_columns_) {
    const Shape& a = request.inputs[0].shape;
    a_zeros_ = repeated_input(request, 2, "a_zero_point", a.size() > 1 ? a[a.size() - 2] : 1, 1);
    b_zeros_ = repeated_input(request, 3, "b_zero_point", b_columns_, 1);
    matmul_ = OnednnPrimitive(
        describe_primitive<dnnl::matmul>(
            user_scratchpad(),
            matrices(product, product.a, product.rows, product.depth,
                     byte_type(request.inputs[0].type)),
            matrices(product, product.b, product.depth, product.columns, memory::data_type::s8),
            matrices(product, product.out, product.rows, product.columns, memory::data_type::s32)),
        {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST});
    if (request.is_constant(1)) keep(request);
  }

  std::int64_t scratch_bytes() const override {
    return matmul_.scratch_bytes() + weight_bytes() + column_sum_bytes() +
           graph::aligned(a_rows_ * 4);
  }

  void run(const KernelIo& io) override {
    std::byte* memory = io.scratch + matmul_.scratch_bytes();
    const SignedWeights weights =
        constant_ ? *constant_
                  : prepare(io.inputs[1].data, reinterpret_cast<std::int8_t*>(memory),
                            reinterpret_cast<std::int32_t*>(memory + weight_bytes()));
    matmul_.bind(DNNL_ARG_SRC, io.inputs[0].data);
    matmul_.bind(DNNL_ARG_WEIGHTS, weights.data);
    matmul_.bind(DNNL_ARG_DST, io.outputs[0].data);
    matmul_.run(io.scratch);
    auto* row_sums = reinterpret_cast<std::int32_t*>(memory + weight_bytes() + column_sum_bytes());
    if (io.inputs[0].type == DataType::int8)
      make_good<std::int8_t>(io, weights, row_sums);
    else
      make_good<std::uint8_t>(io, weights, row_sums);
  }

 private:
  std::int64_t weight_bytes() const {
    return constant_ || b_type_ == DataType::int8 ? 0 : graph::aligned(b_elements_);
  }
  std::int64_t column_sum_bytes() const {
    return constant_ ? 0 : graph::aligned(b_matrices_ * b_columns_ * 4);
  }

  /// What prepare() makes of constant weights, in one piece: the sums, then the weights if they are
  /// moved.
  void keep(const KernelRequest& request) {
    const std::int64_t sum_bytes = graph::aligned(b_matrices_ * b_columns_ * 4);
    const bool is_moved = b_type_ == DataType::uint8;
    const std::int64_t bytes = sum_bytes + (is_moved ? b_elements_ : 0);
    const auto pointers = [&](std::byte* kept) {
      return std::pair(reinterpret_cast<std::int8_t*>(kept + sum_bytes),
                       reinterpret_cast<std::int32_t*>(kept));
    };
    const std::string form =
        fmt::format("sums of {} columns over {}", b_matrices_ * b_columns_, product_.depth);
    kept_ = request.kept(1, form, bytes, [&] {
      auto kept = request.device.allocate(bytes);
      const auto [copy, sums] = pointers(kept.get());
      prepare(request.inputs[1].data, copy, sums);
      return kept;
    });
    const auto [copy, sums] = pointers(kept_.get());
    const auto* stored = reinterpret_cast<const std::int8_t*>(request.inputs[1].data);
    constant_ = SignedWeights{is_moved ? copy : stored, sums};
  }

  /// `copy` and `sums` are memory for what is not there already.
  SignedWeights prepare(const std::byte* b, std::int8_t* copy, std::int32_t* sums) const {
    SignedWeights weights{reinterpret_cast<const std::int8_t*>(b), sums};
    if (b_type_ == DataType::uint8) {
      move_down(b, copy, b_elements_);
      weights.data = copy;
    }
    sum_columns(weights.data, b_matrices_, product_.depth, b_columns_, sums);
    return weights;
  }

  /// The zero points' part of the sums.
  template <typename A>
  void make_good(const KernelIo& io, const SignedWeights& weights, std::int32_t* row_sums) const {
    const A* a_zeros = optional_data<const A>(io.inputs, 2);
    const bool is_shifted = b_type_ == DataType::uint8;
    const auto* b_zeros = optional_data<const std::byte>(io.inputs, 3);
    if (a_zeros == nullptr && b_zeros == nullptr && !is_shifted) return;
    sum_rows(io.inputs[0].as<const A>(), a_rows_, product_.depth, row_sums);
    const auto b_zero = [&](std::int64_t column) -> std::int32_t {
      const std::int64_t place = b_zeros_.of(column);
      if (b_zeros == nullptr) return is_shifted ? -128 : 0;
      return is_shifted ? static_cast<std::int32_t>(b_zeros[place]) - 128
                        : reinterpret_cast<const std::int8_t*>(b_zeros)[place];
    };
    auto* out = io.outputs[0].as<std::uint32_t>();
    const std::int64_t count = graph::num_elements(product_.batches);
    for (std::int64_t batch = 0; batch < count; ++batch) {
      const auto first = [&](const MatrixLayout& layout) {
        return batch_offset(product_.batches, layout.batch_strides, batch);
      };
      const std::int64_t b_first = first(product_.b) / product_.depth;  // of the column sums
      for (std::int64_t m = 0; m < product_.rows; ++m) {
        const std::int64_t row = (first(product_.a) + m * product_.a.row_stride) / product_.depth;
        const auto a_sum = static_cast<std::uint32_t>(row_sums[row]);
        const auto a_zero = static_cast<std::uint32_t>(zero_point_at(a_zeros, a_zeros_.of(row)));
        std::uint32_t* to = out + first(product_.out) + m * product_.out.row_stride;
        for (std::int64_t n = 0; n < product_.columns; ++n) {
          const auto zero = static_cast<std::uint32_t>(b_zero(b_first + n));
          const auto b_sum = static_cast<std::uint32_t>(weights.column_sums[b_first + n]);
          to[n] -= zero * a_sum + a_zero * b_sum -
                   static_cast<std::uint32_t>(product_.depth) * a_zero * zero;
        }
      }
    }
  }

  Product product_;
  DataType b_type_;
  std::int64_t b_elements_;
  std::int64_t b_columns_;
  std::int64_t a_rows_;  ///< of all matrices
  std::int64_t b_matrices_;
  Repeated a_zeros_;
  Repeated b_zeros_;
  OnednnPrimitive matmul_;
  std::shared_ptr<std::byte> kept_;
  std::optional<SignedWeights> constant_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul_integer(const KernelRequest& request) {
  auto plain = make_matmul_integer_loops(request);  // checks the types
  const Product product = byte_product(request);
  if (product.is_empty() || product.depth == 0) return plain;
  if (has_byte_tiles()) return make_tiled_matmul_integer(request, product);
  if (!adds_bytes_exactly()) return plain;
  try {
    return std::make_unique<OnednnMatMulInteger>(request, product);
  } catch (const dnnl::error&) {
    return plain;
  }
}

}  // namespace autopar::runtime::cpu
