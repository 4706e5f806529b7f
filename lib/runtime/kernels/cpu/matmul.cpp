// MatMul, Gemm and the compiler's FusedMatMul: one product, by oneDNN for float32 and half types
// (computed in float32), by plain loops for float64 and integers.

#include <algorithm>
#include <optional>

#include "graph/error.h"
#include "runtime/kernels/cpu/broadcast.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/onednn.h"
#include "runtime/kernels/element_types.h"
#include "runtime/kernels/elementwise_functions.h"
#include "runtime/kernels/kernel_arguments.h"

namespace autopar::runtime::cpu {

namespace {

using dnnl::memory;

/// How an operand's elements lie, in elements: batch dimensions first, then rows and columns.
struct Operand {
  memory::dims dims;
  memory::dims strides;
};

/// What is added to the product, as it broadcasts to the rows of all batches.
struct Addend {
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
};

/// out[batch, m, n] = alpha * sum over k of a[batch, m, k] b[batch, k, n] + beta * c[m, n];
/// batch extents of 1 broadcast.
struct Product {
  Operand a;
  Operand b;
  Operand out;
  std::optional<Addend> c = {};
  float alpha = 1;
  float beta = 1;

  bool is_unscaled() const { return alpha == 1 && beta == 1; }
  /// c is one number a column.
  bool has_bias() const {
    return c && is_unscaled() && c->row_stride == 0 && c->column_stride == 1;
  }
  std::int64_t c_offset(std::int64_t out_offset) const {
    const std::int64_t columns = out.dims.back();
    return out_offset / columns * c->row_stride + out_offset % columns * c->column_stride;
  }
};

/// A tensor with at least `rank` dimensions; the last two swapped where it is to be transposed.
Operand operand(Shape shape, std::size_t rank, bool transposed) {
  shape.insert(shape.begin(), rank - shape.size(), 1);
  Operand result{shape, row_major_strides(shape)};
  if (transposed) {
    std::swap(result.dims[rank - 2], result.dims[rank - 1]);
    std::swap(result.strides[rank - 2], result.strides[rank - 1]);
  }
  return result;
}

/// Rows of all batches are the rows of one matrix where B has no batch and A and the result lie
/// row by row.
void merge_rows(Product& product) {
  const std::size_t rank = product.a.dims.size();
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    if (product.b.dims[i] != 1) return;
  }
  if (product.a.strides != row_major_strides(product.a.dims)) return;
  for (Operand* each : {&product.a, &product.out}) {
    const std::int64_t columns = each->dims[rank - 1];
    std::int64_t rows = 1;
    for (std::size_t i = 0; i + 1 < rank; ++i) rows *= each->dims[i];
    each->dims = {rows, columns};
    each->strides = row_major_strides(each->dims);
  }
  product.b.dims.erase(product.b.dims.begin(), product.b.dims.end() - 2);
  product.b.strides.erase(product.b.strides.begin(), product.b.strides.end() - 2);
}

Product matmul_product(const KernelRequest& request, bool transpose_a, bool transpose_b) {
  Shape a = request.inputs[0].shape;
  Shape b = request.inputs[1].shape;
  Shape out = request.outputs[0].shape;
  if (a.size() == 1) {
    a.insert(a.begin(), 1);
    out.insert(out.end() - (b.size() == 1 ? 0 : 1), 1);
  }
  if (b.size() == 1) {
    b.push_back(1);
    out.push_back(1);
  }
  const std::size_t rank = std::max({a.size(), b.size(), out.size()});
  Product product{operand(a, rank, transpose_a), operand(b, rank, transpose_b),
                  operand(out, rank, false)};
  merge_rows(product);
  return product;
}

dnnl::matmul::primitive_desc describe(const Product& product) {
  const auto layout = [](const Operand& operand) {
    return memory::desc(operand.dims, memory::data_type::f32, operand.strides);
  };
  const memory::desc a = layout(product.a);
  const memory::desc b = layout(product.b);
  const memory::desc out = layout(product.out);
  dnnl::primitive_attr attributes = user_scratchpad();
  if (product.has_bias()) {
    Shape bias(product.out.dims.size(), 1);
    bias.back() = product.out.dims.back();
    return {dnnl::matmul::desc(a, b, float_layout(bias), out), attributes, onednn_engine()};
  }
  if (product.alpha != 1) attributes.set_output_scales(0, {product.alpha});
  if (product.c) {
    dnnl::post_ops add_to_out;
    add_to_out.append_sum(product.beta);
    attributes.set_post_ops(add_to_out);
  }
  return {dnnl::matmul::desc(a, b, out), attributes, onednn_engine()};
}

/// float32, float16, bfloat16.
class FloatMatMul final : public Kernel {
 public:
  FloatMatMul(const KernelRequest& request, const Product& product)
      : product_(product),
        is_empty_(request.outputs[0].elements() == 0),
        sums_nothing_(product.a.dims.back() == 0),
        float_bytes_(float_bytes(request)) {
    if (is_empty_ || sums_nothing_) return;
    std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    if (product_.has_bias()) arguments.push_back(DNNL_ARG_BIAS);
    matmul_ = OnednnPrimitive(describe(product), arguments);
  }

  std::int64_t scratch_bytes() const override { return matmul_.scratch_bytes() + float_bytes_; }

  void run(const KernelIo& io) override {
    if (is_empty_) return;
    const TensorView& out = io.outputs[0];
    FloatCopies copies(io.scratch + matmul_.scratch_bytes());
    const float* c = product_.c ? copies.load(io.inputs[2]) : nullptr;
    float* target = copies.target(out);
    if (sums_nothing_) {
      for (std::int64_t i = 0; i < out.elements(); ++i)
        target[i] = product_.c ? product_.beta * c[product_.c_offset(i)] : 0.0F;
    } else {
      if (product_.has_bias()) {
        matmul_.bind(DNNL_ARG_BIAS, c);
      } else if (product_.c) {
        for (std::int64_t i = 0; i < out.elements(); ++i) target[i] = c[product_.c_offset(i)];
      }
      matmul_.bind(DNNL_ARG_SRC, copies.load(io.inputs[0]));
      matmul_.bind(DNNL_ARG_WEIGHTS, copies.load(io.inputs[1]));
      matmul_.bind(DNNL_ARG_DST, target);
      matmul_.run(io.scratch);
    }
    FloatCopies::store(target, out);
  }

 private:
  OnednnPrimitive matmul_;
  Product product_;
  bool is_empty_;
  bool sums_nothing_;
  std::int64_t float_bytes_;
};

/// float64 and integers, which wrap around.
template <typename T>
class PlainMatMul final : public Kernel {
 public:
  explicit PlainMatMul(Product product) : product_(std::move(product)) {}

  void run(const KernelIo& io) override {
    const TensorView& out = io.outputs[0];
    run_batch(io.inputs[0].as<const T>(), io.inputs[1].as<const T>(), out.as<T>(), 0);
    const bool is_finished = !product_.c && product_.alpha == 1;
    for (std::int64_t i = 0; i < out.elements() && !is_finished; ++i) {
      const T c = product_.c ? io.inputs[2].as<const T>()[product_.c_offset(i)] : T{};
      out.as<T>()[i] = finish(out.as<T>()[i], c);
    }
  }

 private:
  void run_batch(const T* a, const T* b, T* out, std::size_t dim) {
    const std::size_t rank = product_.out.dims.size();
    if (dim + 2 < rank) {
      for (std::int64_t i = 0; i < product_.out.dims[dim]; ++i) {
        run_batch(a + step(product_.a, dim, i), b + step(product_.b, dim, i),
                  out + step(product_.out, dim, i), dim + 1);
      }
      return;
    }
    const std::int64_t depth = product_.a.dims[dim + 1];
    for (std::int64_t m = 0; m < product_.out.dims[dim]; ++m) {
      for (std::int64_t n = 0; n < product_.out.dims[dim + 1]; ++n) {
        T sum{};
        for (std::int64_t k = 0; k < depth; ++k) {
          const T x = a[m * product_.a.strides[dim] + k * product_.a.strides[dim + 1]];
          const T y = b[k * product_.b.strides[dim] + n * product_.b.strides[dim + 1]];
          sum = functions::Add{}(sum, functions::Mul{}(x, y));
        }
        out[m * product_.out.strides[dim] + n] = sum;
      }
    }
  }

  static std::int64_t step(const Operand& operand, std::size_t dim, std::int64_t i) {
    return operand.dims[dim] == 1 ? 0 : i * operand.strides[dim];
  }

  T finish(T sum, T c) const {
    if (product_.is_unscaled()) return functions::Add{}(sum, c);
    return static_cast<T>(product_.alpha * static_cast<double>(sum) +
                          product_.beta * static_cast<double>(c));
  }

  Product product_;
};

std::unique_ptr<Kernel> make_product(const KernelRequest& request, const Product& product) {
  using PlainTypes = Types<double, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t>;
  const DataType type = request.outputs[0].type;
  if (type == DataType::float32 || is_half(type))
    return std::make_unique<FloatMatMul>(request, product);
  std::unique_ptr<Kernel> kernel;
  if (!visit_type(type, PlainTypes{},
                  [&]<typename T>(T) { kernel = std::make_unique<PlainMatMul<T>>(product); }))
    fail_type(request, type);
  return kernel;
}

Product product_of_node(const KernelRequest& request) {
  return matmul_product(request, request.node.int_attribute("transA", 0) != 0,
                        request.node.int_attribute("transB", 0) != 0);
}

bool has_third_input(const KernelRequest& request) {
  return request.inputs.size() > 2 && request.inputs[2].present();
}

}  // namespace

std::unique_ptr<Kernel> make_matmul(const KernelRequest& request) {
  return make_product(request, product_of_node(request));
}

std::unique_ptr<Kernel> make_fused_matmul(const KernelRequest& request) {
  Product product = product_of_node(request);
  if (has_third_input(request)) product.c = Addend{0, 1};
  return make_product(request, product);
}

std::unique_ptr<Kernel> make_gemm(const KernelRequest& request) {
  Product product = product_of_node(request);
  product.alpha = request.node.float_attribute("alpha", 1.0F);
  const float beta = request.node.float_attribute("beta", 1.0F);
  if (has_third_input(request) && beta != 0) {
    product.beta = beta;
    const auto strides = broadcast_strides(request.inputs[2].shape, request.outputs[0].shape);
    if (strides.size() != 2)
      fail("node '{}': C of Gemm does not broadcast to the product", request.node.name);
    product.c = Addend{strides[0], strides[1]};
  }
  return make_product(request, product);
}

}  // namespace autopar::runtime::cpu
