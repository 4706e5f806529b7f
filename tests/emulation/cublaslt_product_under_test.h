#pragma once
// One product of cuBLASLt, its operands and descriptors, and its definition in double.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cublasLt.h"
#include "emulation.h"
#include "emulation_cublaslt.h"
#include "runtime/kernels/common/half.h"

namespace autopar::fake_cublaslt_test {

using emulation::MatmulCall;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

template <typename T>
std::vector<std::byte> as_bytes(T value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

inline std::vector<std::byte> encode(cudaDataType_t type, double value) {
  switch (type) {
    case CUDA_R_16F:
      return as_bytes(runtime::to_float16(static_cast<float>(value)).bits);
    case CUDA_R_16BF:
      return as_bytes(runtime::to_bfloat16(static_cast<float>(value)).bits);
    case CUDA_R_64F:
      return as_bytes(value);
    case CUDA_R_8I:
      return as_bytes(static_cast<std::int8_t>(value));
    case CUDA_R_32I:
      return as_bytes(static_cast<std::int32_t>(value));
    default:
      return as_bytes(static_cast<float>(value));
  }
}

template <typename T>
T from_bytes(const std::byte* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

inline double decode(cudaDataType_t type, const std::byte* bytes) {
  switch (type) {
    case CUDA_R_16F:
      return to_float(runtime::Float16{from_bytes<std::uint16_t>(bytes)});
    case CUDA_R_16BF:
      return to_float(runtime::BFloat16{from_bytes<std::uint16_t>(bytes)});
    case CUDA_R_64F:
      return from_bytes<double>(bytes);
    case CUDA_R_8I:
      return from_bytes<std::int8_t>(bytes);
    case CUDA_R_32I:
      return from_bytes<std::int32_t>(bytes);
    default:
      return from_bytes<float>(bytes);
  }
}

/// Elements in device memory, of one type, `offset` elements behind an allocation's start.
class Buffer {
 public:
  Buffer(cudaDataType_t type, const std::vector<double>& values, std::size_t offset = 0)
      : type_(type), size_(encode(type, 0).size()), count_(values.size()), offset_(offset) {
    std::vector<std::byte> bytes;
    for (const double value : values) {
      const std::vector<std::byte> one = encode(type, value);
      bytes.insert(bytes.end(), one.begin(), one.end());
    }
    REQUIRE(cudaMalloc(&start_, (offset + count_) * size_) == cudaSuccess);
    REQUIRE(cudaMemcpy(data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice) == cudaSuccess);
  }
  ~Buffer() { cudaFree(start_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return static_cast<std::byte*>(start_) + offset_ * size_; }
  std::vector<double> values() const {
    std::vector<std::byte> bytes(count_ * size_);
    REQUIRE(cudaMemcpy(bytes.data(), data(), bytes.size(), cudaMemcpyDeviceToHost) == cudaSuccess);
    std::vector<double> values(count_);
    for (std::size_t i = 0; i < count_; ++i) values[i] = decode(type_, bytes.data() + i * size_);
    return values;
  }

 private:
  cudaDataType_t type_;
  std::size_t size_;
  std::size_t count_;
  std::size_t offset_;
  void* start_ = nullptr;
};

struct Matrix {
  cudaDataType_t type = CUDA_R_32F;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  cublasLtOrder_t order = CUBLASLT_ORDER_COL;
  std::int64_t padding = 0;        ///< of the leading dimension
  std::int64_t batch_stride = -1;  ///< -1: one after the other

  std::int64_t ld() const { return (order == CUBLASLT_ORDER_COL ? rows : cols) + padding; }
  std::int64_t elements() const { return (order == CUBLASLT_ORDER_COL ? cols : rows) * ld(); }
  std::int64_t stride() const { return batch_stride < 0 ? elements() : batch_stride; }
  std::size_t at(std::int64_t batch, std::int64_t row, std::int64_t col) const {
    const std::int64_t within = order == CUBLASLT_ORDER_COL ? col * ld() + row : row * ld() + col;
    return static_cast<std::size_t>(batch * stride() + within);
  }
};

/// One product and its descriptors. What a test changes, it changes before `describe`.
struct Product {
  std::int64_t m = 5, n = 3, k = 7;
  int batches = 1;
  cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F, in = CUDA_R_32F, out = CUDA_R_32F;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  double alpha = 1, beta = 0;
  Matrix a, b, c, d;

  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t layout_a = nullptr, layout_b = nullptr, layout_c = nullptr,
                         layout_d = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;

  Product() = default;
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  ~Product() {
    if (handle != nullptr) cublasLtDestroy(handle);
    cublasLtMatmulDescDestroy(desc);
    for (auto* layout : {layout_a, layout_b, layout_c, layout_d}) {
      cublasLtMatrixLayoutDestroy(layout);
    }
    cublasLtMatmulPreferenceDestroy(preference);
  }

  void shape() {
    a.type = b.type = in;
    c.type = d.type = out;
    a.rows = op_a == CUBLAS_OP_N ? m : k;
    a.cols = op_a == CUBLAS_OP_N ? k : m;
    b.rows = op_b == CUBLAS_OP_N ? k : n;
    b.cols = op_b == CUBLAS_OP_N ? n : k;
    c.rows = d.rows = m;
    c.cols = d.cols = n;
  }

  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    REQUIRE(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value) ==
            CUBLAS_STATUS_SUCCESS);
  }
  template <typename T>
  static void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
                  T value) {
    REQUIRE(cublasLtMatrixLayoutSetAttribute(layout, attribute, &value, sizeof value) ==
            CUBLAS_STATUS_SUCCESS);
  }
  void allow_workspace(std::uint64_t bytes) {
    REQUIRE(cublasLtMatmulPreferenceSetAttribute(preference,
                                                 CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                 sizeof bytes) == CUBLAS_STATUS_SUCCESS);
  }
  void promise_alignment(std::uint32_t bytes) {
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      REQUIRE(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &bytes, sizeof bytes) ==
              CUBLAS_STATUS_SUCCESS);
    }
  }

  cublasLtMatrixLayout_t describe(const Matrix& matrix) const {
    cublasLtMatrixLayout_t layout = nullptr;
    REQUIRE(cublasLtMatrixLayoutCreate(
                &layout, matrix.type, static_cast<std::uint64_t>(matrix.rows),
                static_cast<std::uint64_t>(matrix.cols), matrix.ld()) == CUBLAS_STATUS_SUCCESS);
    set(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, static_cast<std::int32_t>(matrix.order));
    set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, std::int32_t{batches});
    set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.stride());
    return layout;
  }

  void describe() {
    shape();
    REQUIRE(cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS);
    REQUIRE(cublasLtMatmulDescCreate(&desc, compute, scale) == CUBLAS_STATUS_SUCCESS);
    set(CUBLASLT_MATMUL_DESC_TRANSA, static_cast<std::int32_t>(op_a));
    set(CUBLASLT_MATMUL_DESC_TRANSB, static_cast<std::int32_t>(op_b));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(epilogue));
    layout_a = describe(a);
    layout_b = describe(b);
    layout_c = describe(c);
    layout_d = describe(d);
    REQUIRE(cublasLtMatmulPreferenceCreate(&preference) == CUBLAS_STATUS_SUCCESS);
  }

  cublasStatus_t find(cublasLtMatmulHeuristicResult_t* results, int requested, int* found) const {
    return cublasLtMatmulAlgoGetHeuristic(handle, desc, layout_a, layout_b, layout_c, layout_d,
                                          preference, requested, results, found);
  }

  cublasStatus_t run(const void* a_data, const void* b_data, const void* c_data, void* d_data,
                     const cublasLtMatmulAlgo_t* algo = nullptr, void* workspace = nullptr,
                     std::size_t workspace_bytes = 0) const {
    const std::vector<std::byte> alpha_bytes = encode(scale, alpha);
    const std::vector<std::byte> beta_bytes = encode(scale, beta);
    return cublasLtMatmul(handle, desc, alpha_bytes.data(), a_data, layout_a, b_data, layout_b,
                          beta_bytes.data(), c_data, layout_c, d_data, layout_d, algo, workspace,
                          workspace_bytes, nullptr);
  }

  std::vector<double> random(const Matrix& matrix, std::mt19937& generator) const {
    std::vector<double> values(
        static_cast<std::size_t>((batches - 1) * matrix.stride() + matrix.elements()));
    for (double& value : values) {
      value = static_cast<double>(static_cast<int>(generator() % 17) - 8);
      if (in != CUDA_R_8I) value /= 4;
    }
    return values;
  }
};

inline double activate(cublasLtEpilogue_t epilogue, double x) {
  if ((epilogue & CUBLASLT_EPILOGUE_RELU) != 0) return std::max(x, 0.0);
  if ((epilogue & CUBLASLT_EPILOGUE_GELU) != 0) {
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  }
  return x;
}

/// Runs on random values and compares D with the definition, and its padding with what it was.
inline void check(Product& product) {
  product.describe();
  std::mt19937 generator(7);
  const std::vector<double> a = product.random(product.a, generator);
  const std::vector<double> b = product.random(product.b, generator);
  const std::vector<double> c = product.random(product.c, generator);
  const std::vector<double> before = product.random(product.d, generator);
  std::vector<double> bias(static_cast<std::size_t>(product.m));
  for (double& value : bias) value = static_cast<double>(generator() % 5) - 2;

  const Buffer a_buffer(product.in, a);
  const Buffer b_buffer(product.in, b);
  const Buffer c_buffer(product.out, c);
  const Buffer d_buffer(product.out, before);
  const Buffer bias_buffer(product.out, bias);
  const bool has_bias = (product.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  if (has_bias) {
    product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias_buffer.data()));
  }
  REQUIRE(product.run(a_buffer.data(), b_buffer.data(), c_buffer.data(), d_buffer.data()) ==
          CUBLAS_STATUS_SUCCESS);
  REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);

  std::vector<double> expected = before;
  for (std::int64_t batch = 0; batch < product.batches; ++batch) {
    for (std::int64_t i = 0; i < product.m; ++i) {
      for (std::int64_t j = 0; j < product.n; ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < product.k; ++p) {
          const bool plain_a = product.op_a == CUBLAS_OP_N;
          const bool plain_b = product.op_b == CUBLAS_OP_N;
          sum += a[product.a.at(batch, plain_a ? i : p, plain_a ? p : i)] *
                 b[product.b.at(batch, plain_b ? p : j, plain_b ? j : p)];
        }
        double value = product.alpha * sum + product.beta * c[product.c.at(batch, i, j)];
        if (has_bias) value += bias[static_cast<std::size_t>(i)];
        expected[product.d.at(batch, i, j)] = activate(product.epilogue, value);
      }
    }
  }
  const std::vector<double> result = d_buffer.values();
  const double tolerance = product.out == CUDA_R_16BF  ? 1.0 / 128
                           : product.out == CUDA_R_16F ? 1.0 / 1024
                                                       : 1e-5;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("element " << i);
    CHECK(result[i] == Approx(expected[i]).epsilon(tolerance).margin(tolerance));
  }
}

/// A product that is fine as it is, with its operands.
struct Ready : Product {
  explicit Ready(std::int64_t size = 8) {
    m = n = k = size;
    describe();
    data = std::vector<double>(static_cast<std::size_t>(size * size), 1);
  }
  std::vector<double> data;
};

inline cublasStatus_t heuristic_status(const Product& product, int* found = nullptr) {
  cublasLtMatmulHeuristicResult_t result;
  int count = -1;
  const cublasStatus_t status = product.find(&result, 1, &count);
  CHECK((count > 0) == (status == CUBLAS_STATUS_SUCCESS));
  if (found != nullptr) *found = count;
  return status;
}

}  // namespace autopar::fake_cublaslt_test
