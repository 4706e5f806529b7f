// MatMul, Gemm and the compiler's FusedMatMul: one product, by oneDNN for float32 and half types
// (computed in float32), by plain loops for the others.

#include <algorithm>

#include "graph/error.h"
#include "runtime/kernels/cpu/broadcast.h"
#include "runtime/kernels/cpu/converted.h"
#include "runtime/kernels/cpu/factories.h"
#include "runtime/kernels/cpu/onednn.h"

namespace autopar::runtime::cpu {

namespace {

using dnnl::memory;

/// How an operand's elements lie, in elements: batch dimensions first, then rows and columns.
struct Operand {
  memory::dims dims;
  memory::dims strides;
};

/// out[batch, m, n] = sum over k of a[batch, m, k] b[batch, k, n]; batch extents of 1 broadcast.
struct Product {
  Operand a;
  Operand b;
  Operand out;
  std::int64_t bias_elements = 0;  ///< 0 or n
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
  if (product.bias_elements == 0)
    return {dnnl::matmul::desc(a, b, out), user_scratchpad(), onednn_engine()};
  Shape bias(product.out.dims.size(), 1);
  bias.back() = product.bias_elements;
  return {dnnl::matmul::desc(a, b, float_layout(bias), out), user_scratchpad(), onednn_engine()};
}

/// float32, float16, bfloat16.
class FloatMatMul final : public Kernel {
 public:
  FloatMatMul(const KernelRequest& request, const Product& product)
      : has_bias_(product.bias_elements > 0),
        is_empty_(request.outputs[0].elements() == 0),
        sums_nothing_(product.a.dims.back() == 0),
        float_bytes_(float_bytes(request)) {
    if (is_empty_ || sums_nothing_) return;
    std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    if (has_bias_) arguments.push_back(DNNL_ARG_BIAS);
    product_ = OnednnPrimitive(describe(product), arguments);
  }

  std::int64_t scratch_bytes() const override { return product_.scratch_bytes() + float_bytes_; }

  void run(const KernelIo& io) override {
    if (is_empty_) return;
    FloatCopies copies(io.scratch + product_.scratch_bytes());
    const float* bias = has_bias_ ? copies.load(io.inputs[2]) : nullptr;
    float* out = copies.target(io.outputs[0]);
    if (sums_nothing_) {
      for (std::int64_t i = 0; i < io.outputs[0].elements(); ++i)
        out[i] = has_bias_ ? bias[i % io.inputs[2].elements()] : 0.0F;
    } else {
      product_.bind(DNNL_ARG_SRC, copies.load(io.inputs[0]));
      product_.bind(DNNL_ARG_WEIGHTS, copies.load(io.inputs[1]));
      if (has_bias_) product_.bind(DNNL_ARG_BIAS, bias);
      product_.bind(DNNL_ARG_DST, out);
      product_.run(io.scratch);
    }
    FloatCopies::store(out, io.outputs[0]);
  }

 private:
  OnednnPrimitive product_;
  bool has_bias_;
  bool is_empty_;
  bool sums_nothing_;
  std::int64_t float_bytes_;
};

/// float64 and integers.
template <typename T>
class PlainMatMul final : public Kernel {
 public:
  explicit PlainMatMul(Product product) : product_(std::move(product)) {}

  void run(const KernelIo& io) override {
    const T* bias = product_.bias_elements > 0 ? io.inputs[2].as<const T>() : nullptr;
    run_batch(io.inputs[0].as<const T>(), io.inputs[1].as<const T>(), bias, io.outputs[0].as<T>(),
              0);
  }

 private:
  void run_batch(const T* a, const T* b, const T* bias, T* out, std::size_t dim) {
    const std::size_t rank = product_.out.dims.size();
    if (dim + 2 < rank) {
      for (std::int64_t i = 0; i < product_.out.dims[dim]; ++i) {
        run_batch(a + step(product_.a, dim, i), b + step(product_.b, dim, i), bias,
                  out + step(product_.out, dim, i), dim + 1);
      }
      return;
    }
    const std::int64_t depth = product_.a.dims[dim + 1];
    for (std::int64_t m = 0; m < product_.out.dims[dim]; ++m) {
      for (std::int64_t n = 0; n < product_.out.dims[dim + 1]; ++n) {
        T sum = bias == nullptr ? T{} : bias[n];
        for (std::int64_t k = 0; k < depth; ++k) {
          sum = static_cast<T>(
              sum + a[m * product_.a.strides[dim] + k * product_.a.strides[dim + 1]] *
                        b[k * product_.b.strides[dim] + n * product_.b.strides[dim + 1]]);
        }
        out[m * product_.out.strides[dim] + n] = sum;
      }
    }
  }

  static std::int64_t step(const Operand& operand, std::size_t dim, std::int64_t i) {
    return operand.dims[dim] == 1 ? 0 : i * operand.strides[dim];
  }

  Product product_;
};

std::unique_ptr<Kernel> make_product(const KernelRequest& request, const Product& product) {
  switch (request.outputs[0].type) {
    case DataType::float32:
    case DataType::float16:
    case DataType::bfloat16:
      return std::make_unique<FloatMatMul>(request, product);
    case DataType::float64:
      return std::make_unique<PlainMatMul<double>>(product);
    case DataType::int32:
      return std::make_unique<PlainMatMul<std::int32_t>>(product);
    case DataType::uint32:
      return std::make_unique<PlainMatMul<std::uint32_t>>(product);
    case DataType::int64:
      return std::make_unique<PlainMatMul<std::int64_t>>(product);
    case DataType::uint64:
      return std::make_unique<PlainMatMul<std::uint64_t>>(product);
    default:
      fail("node {}: {} of {} is not served", request.node.name, request.node.op_type,
           name_of(request.outputs[0].type));
  }
}

/// Gemm's general form: alpha A B by a product, then beta C is added as it broadcasts.
class ScaledGemm final : public Kernel {
 public:
  ScaledGemm(std::unique_ptr<Kernel> product, const KernelRequest& request)
      : product_(std::move(product)),
        alpha_(request.node.float_attribute("alpha", 1.0F)),
        beta_(request.node.float_attribute("beta", 1.0F)) {}

  std::int64_t scratch_bytes() const override { return product_->scratch_bytes(); }

  void run(const KernelIo& io) override {
    product_->run(io);
    switch (io.outputs[0].type) {
      case DataType::float32:
        return finish<float>(io);
      case DataType::float64:
        return finish<double>(io);
      case DataType::float16:
        return finish<Float16>(io);
      case DataType::bfloat16:
        return finish<BFloat16>(io);
      default:
        return finish<std::int64_t>(io);
    }
  }

 private:
  template <typename T>
  static double load(T value) {
    if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
      return to_float(value);
    } else {
      return static_cast<double>(value);
    }
  }
  template <typename T>
  static T store(double value) {
    if constexpr (std::is_same_v<T, Float16>) {
      return to_float16(static_cast<float>(value));
    } else if constexpr (std::is_same_v<T, BFloat16>) {
      return to_bfloat16(static_cast<float>(value));
    } else {
      return static_cast<T>(value);
    }
  }

  template <typename T>
  void finish(const KernelIo& io) const {
    T* out = io.outputs[0].as<T>();
    const std::int64_t rows = io.outputs[0].shape[0];
    const std::int64_t columns = io.outputs[0].shape[1];
    const bool has_c = io.inputs.size() > 2 && io.inputs[2].present() && beta_ != 0;
    Shape c = has_c ? io.inputs[2].shape : Shape{1, 1};
    c.insert(c.begin(), 2 - c.size(), 1);
    for (std::int64_t m = 0; m < rows; ++m) {
      for (std::int64_t n = 0; n < columns; ++n) {
        T& element = out[m * columns + n];
        double value = alpha_ * load(element);
        if (has_c) {
          const std::int64_t at = (c[0] == 1 ? 0 : m * c[1]) + (c[1] == 1 ? 0 : n);
          value += beta_ * load(io.inputs[2].as<const T>()[at]);
        }
        element = store<T>(value);
      }
    }
  }

  std::unique_ptr<Kernel> product_;
  double alpha_;
  double beta_;
};

}  // namespace

std::unique_ptr<Kernel> make_matmul(const KernelRequest& request) {
  return make_product(request, matmul_product(request, false, false));
}

std::unique_ptr<Kernel> make_fused_matmul(const KernelRequest& request) {
  Product product = matmul_product(request, request.node.int_attribute("transA", 0) != 0,
                                   request.node.int_attribute("transB", 0) != 0);
  if (request.inputs.size() > 2 && request.inputs[2].present()) {
    product.bias_elements = request.inputs[2].elements();
  }
  return make_product(request, product);
}

std::unique_ptr<Kernel> make_gemm(const KernelRequest& request) {
  Product product = matmul_product(request, request.node.int_attribute("transA", 0) != 0,
                                   request.node.int_attribute("transB", 0) != 0);
  const bool has_c = request.inputs.size() > 2 && request.inputs[2].present();
  const bool unscaled = request.node.float_attribute("alpha", 1.0F) == 1.0F &&
                        request.node.float_attribute("beta", 1.0F) == 1.0F;
  if (!has_c && unscaled) return make_product(request, product);
  if (has_c && unscaled && request.inputs[2].elements() == product.out.dims.back() &&
      request.inputs[2].shape.back() == product.out.dims.back()) {
    product.bias_elements = product.out.dims.back();
    return make_product(request, product);
  }
  const bool served = graph::is_floating_point(request.outputs[0].type) ||
                      request.outputs[0].type == DataType::int64;
  if (!served) {
    fail("node {}: Gemm of {} with alpha, beta or C is not served", request.node.name,
         name_of(request.outputs[0].type));
  }
  return std::make_unique<ScaledGemm>(make_product(request, product), request);
}

}  // namespace autopar::runtime::cpu
