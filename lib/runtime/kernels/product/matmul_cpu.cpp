// MatMul, Gemm and the compiler's FusedMatMul: one product, by oneDNN for float32 and half types
// (computed in float32), by plain loops for float64 and integers.

#include <algorithm>

#include "runtime/device.h"
#include "runtime/kernels/common/make_kernel.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/in_threads.h"
#include "runtime/kernels/cpu/onednn.h"
#include "runtime/kernels/cpu/simd.h"
#include "runtime/kernels/elementwise/functions.h"
#include "runtime/kernels/product/kernels.h"
#include "runtime/kernels/product/onednn_product.h"
#include "runtime/kernels/product/row_by_blocks.h"
#include "runtime/kernels/product/small_product.h"

namespace autopar::runtime::cpu {

namespace {

using dnnl::memory;

/// What oneDNN takes as a bias; all else that is added lies in the result before.
bool takes_bias(const Product& product) { return product.has_bias() && product.is_unscaled(); }

memory::desc described(const Product& product, const MatrixLayout& layout, std::int64_t rows,
                       std::int64_t columns) {
  return matrices(product, layout, rows, columns, memory::data_type::f32);
}

memory::desc stored_b(const Product& product) {
  return described(product, product.b, product.depth, product.columns);
}

/// `b`: how it lies, or any layout.
dnnl::matmul::primitive_desc describe(const Product& product, const memory::desc& b) {
  const memory::desc a = described(product, product.a, product.rows, product.depth);
  const memory::desc out = described(product, product.out, product.rows, product.columns);
  dnnl::primitive_attr attributes = user_scratchpad();
  if (takes_bias(product)) {
    Shape bias(product.batches.size() + 2, 1);
    bias.back() = product.columns;
    return describe_primitive<dnnl::matmul>(attributes, a, b, float_layout(bias), out);
  }
  dnnl::post_ops behind;
  if (product.alpha != 1) onednn::scale_output(behind, attributes, product.alpha);
  if (product.c) behind.append_sum(product.beta);
  attributes.set_post_ops(behind);
  return describe_primitive<dnnl::matmul>(attributes, a, b, out);
}

/// Whether B lies in blocks of wide_block columns, a row behind the other.
bool has_wide_blocks(const memory::desc& b) {
  const onednn::Layout layout = onednn::layout_of(b);
  const std::size_t column = layout.strides.size() - 1;
  const auto is_last_of = [&](std::int64_t dim) { return dim == std::ssize(layout.strides) - 1; };
  return layout.inner_blocks.size() == 2 && layout.inner_blocks[1] == wide_block &&
         !is_last_of(layout.inner_dims[0]) && is_last_of(layout.inner_dims[1]) &&
         layout.strides[column - 1] == layout.inner_blocks[0] * wide_block &&
         layout.strides[column] == layout.padded_dims[column - 1] * wide_block;
}

/// Whether oneDNN's products read B in blocks.
bool has_blocks(const Product& product) {
  const auto matmul = describe(product, onednn::any_layout(stored_b(product)));
  return !onednn::layout_of(matmul.weights_desc()).inner_blocks.empty();
}

/// float32, float16, bfloat16.
class FloatMatMul final : public Kernel {
 public:
  FloatMatMul(const KernelRequest& request, const Product& product)
      : threads_(request.device.threads()), product_(product), float_bytes_(float_bytes(request)) {
    if (product.is_empty() || product.depth == 0) return;
    std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    if (takes_bias(product_)) arguments.push_back(DNNL_ARG_BIAS);
    const dnnl::matmul::primitive_desc packed = pack(request);
    const bool is_row = product.rows == 1 && can_be_blocked(request, product);
    if (is_row && kept_b_ && has_wide_blocks(packed.weights_desc()))
      padded_depth_ = onednn::layout_of(packed.weights_desc()).padded_dims.rbegin()[1];
    else
      matmul_ = OnednnPrimitive(kept_b_ ? packed : describe(product, stored_b(product)), arguments);
  }

  bool reads(std::size_t input) const override { return input != 1 || !kept_b_; }

  std::int64_t scratch_bytes() const override { return matmul_.scratch_bytes() + float_bytes_; }

  void run(const KernelIo& io) override {
    if (product_.is_empty()) return;
    if (padded_depth_ > 0) return multiply_row(io);
    const TensorView& out = io.outputs[0];
    FloatCopies copies(io.scratch + matmul_.scratch_bytes());
    const float* c = product_.c ? copies.load(io.inputs[2]) : nullptr;
    float* target = copies.target(out);
    if (product_.depth == 0) {
      for (std::int64_t i = 0; i < out.elements(); ++i)
        target[i] = product_.c ? product_.beta * c[product_.c_offset(i)] : 0.0F;
    } else {
      if (takes_bias(product_)) {
        matmul_.bind(DNNL_ARG_BIAS, c);
      } else if (product_.c) {
        for (std::int64_t i = 0; i < out.elements(); ++i) target[i] = c[product_.c_offset(i)];
      }
      matmul_.bind(DNNL_ARG_SRC, copies.load(io.inputs[0]));
      matmul_.bind(DNNL_ARG_WEIGHTS, kept_b_ ? reinterpret_cast<const float*>(kept_b_.get())
                                             : copies.load(io.inputs[1]));
      matmul_.bind(DNNL_ARG_DST, target);
      matmul_.run(io.scratch);
    }
    FloatCopies::store(target, out);
  }

 private:
  /// Keeps constant weights in the layout that oneDNN would bring them into in each run, if that
  /// takes no more memory.
  dnnl::matmul::primitive_desc pack(const KernelRequest& request) {
    const TensorView& b = request.inputs[1];
    const bool is_single = std::ranges::all_of(product_.b.batch_strides,
                                               [](std::int64_t stride) { return stride == 0; });
    const graph::Tensor* weights = request.constants.size() > 1 ? request.constants[1] : nullptr;
    if (!request.may_replace(1) || b.type != DataType::float32 || !is_single || weights == nullptr)
      return {};
    const memory::desc stored = stored_b(product_);
    dnnl::matmul::primitive_desc packed = describe(product_, onednn::any_layout(stored));
    const memory::desc layout = packed.weights_desc();
    const auto most_bytes = static_cast<std::size_t>(b.size_bytes() + b.size_bytes() / 32);
    if (layout.get_size() <= most_bytes)
      kept_b_ =
          request.kept(1, form_of(stored, layout), static_cast<std::int64_t>(layout.get_size()),
                       [&] { return reordered_copy(request.device, stored, *weights, layout); });
    return packed;
  }

  void multiply_row(const KernelIo& io) const {
    cpu::multiply_row({.row = io.inputs[0].as<const float>(),
                       .blocks = reinterpret_cast<const float*>(kept_b_.get()),
                       .bias = product_.c ? io.inputs[2].as<const float>() : nullptr,
                       .out = io.outputs[0].as<float>(),
                       .depth = product_.depth,
                       .padded_depth = padded_depth_,
                       .columns = product_.columns},
                      wide_block, threads_);
  }

  OnednnPrimitive matmul_;
  std::shared_ptr<std::byte> kept_b_;  ///< null where the node's own serves
  std::int64_t padded_depth_ = 0;      ///< of a product of one row without oneDNN; else 0
  int threads_;
  Product product_;
  std::int64_t float_bytes_;
};

/// Some columns of a row of a product.
template <typename T>
struct RowPart {
  const T* a;  ///< the row
  const T* b;  ///< the first of the columns
  T* out;
  std::int64_t depth;
  std::int64_t columns;  ///< no more than most_columns
  std::int64_t a_column;
  std::int64_t b_row;
  std::int64_t b_column;

  static constexpr std::int64_t most_columns = 64;
};

/// Adds up all columns at once, so that neighbours are in one vector.
template <typename T>
struct MultiplyRowPart {
  [[gnu::always_inline]] static inline void add_row(const RowPart<T>& of, T x, const T* b,
                                                    std::int64_t b_column, T* sums) {
    for (std::int64_t n = 0; n < of.columns; ++n)
      sums[n] = functions::Add{}(sums[n], functions::Mul{}(x, b[n * b_column]));
  }

  [[gnu::always_inline]] static inline void run(const RowPart<T>& of) {
    T sums[RowPart<T>::most_columns] = {};
    for (std::int64_t k = 0; k < of.depth; ++k) {
      const T x = of.a[k * of.a_column];
      const T* const b = of.b + k * of.b_row;
      if (of.b_column == 1)
        add_row(of, x, b, 1, sums);
      else
        add_row(of, x, b, of.b_column, sums);
    }
    std::copy_n(sums, of.columns, of.out);
  }
};

/// Row `row` of the product of matrices, of which the first ones are given.
template <typename T>
void multiply_row(const Product& of, std::int64_t row, const T* a, const T* b, T* out) {
  static const auto run = simd_function<MultiplyRowPart<T>, const RowPart<T>&>(simd_level());
  for (std::int64_t n = 0; n < of.columns; n += RowPart<T>::most_columns)
    run({.a = a + row * of.a.row_stride,
         .b = b + n * of.b.column_stride,
         .out = out + row * of.out.row_stride + n,
         .depth = of.depth,
         .columns = std::min(of.columns - n, RowPart<T>::most_columns),
         .a_column = of.a.column_stride,
         .b_row = of.b.row_stride,
         .b_column = of.b.column_stride});
}

/// float64 and integers, which wrap around.
template <typename T>
std::unique_ptr<Kernel> make_plain_matmul(const Product& of, int threads) {
  return make_kernel([of, threads](const KernelIo& io) {
    if (of.is_empty()) return;
    T* const out = io.outputs[0].as<T>();
    const std::int64_t rows = graph::num_elements(of.batches) * of.rows;
    constexpr std::int64_t least_work = 1 << 14;  // products that are worth waking a thread for
    const bool is_large = rows * of.columns * of.depth > least_work;
    for_in_threads(is_large ? threads : 1, rows, [&](std::int64_t row) {
      const auto at = [&](const MatrixLayout& layout) {
        return batch_offset(of.batches, layout.batch_strides, row / of.rows);
      };
      multiply_row(of, row % of.rows, io.inputs[0].as<const T>() + at(of.a),
                   io.inputs[1].as<const T>() + at(of.b), out + at(of.out));
    });
    if (!of.c && of.alpha == 1) return;
    for (std::int64_t i = 0; i < io.outputs[0].elements(); ++i) {
      const T c = of.c ? io.inputs[2].as<const T>()[of.c_offset(i)] : T{};
      out[i] = of.is_unscaled() ? functions::Add{}(out[i], c)
                                : static_cast<T>(of.alpha * static_cast<double>(out[i]) +
                                                 of.beta * static_cast<double>(c));
    }
  });
}

}  // namespace

std::unique_ptr<Kernel> make_matmul(const KernelRequest& request) {
  using PlainTypes = Types<double, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t>;
  const Product product = product_of(request);
  if (request.node.has_attribute("out_perm") || product.activation != Activation::none)
    fail("node '{}': {} with out_perm or activation has no CPU kernel", request.node.name,
         qualified_op_type(request.node));
  const DataType type = request.outputs[0].type;
  if (can_be_blocked(request, product)) {
    if (auto kernel = make_panel_matmul(request, product)) return kernel;
    if (!has_blocks(product))
      if (auto kernel = make_blocked_matmul(request, product)) return kernel;
  }
  if (auto kernel = make_small_matmul(request, product)) return kernel;
  if (type == DataType::float32 || is_half(type))
    return std::make_unique<FloatMatMul>(request, product);
  const int threads = request.device.threads();
  return kernel_for_type(request, type, PlainTypes{},
                         [&]<typename T>(T) { return make_plain_matmul<T>(product, threads); });
}

}  // namespace autopar::runtime::cpu
