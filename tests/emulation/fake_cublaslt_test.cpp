// The stand-in for cuBLASLt against its definition in double, and what it refuses.

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

using namespace autopar;
using emulation::MatmulCall;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

template <typename T>
std::vector<std::byte> as_bytes(T value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::vector<std::byte> encode(cudaDataType_t type, double value) {
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

double decode(cudaDataType_t type, const std::byte* bytes) {
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

double activate(cublasLtEpilogue_t epilogue, double x) {
  if ((epilogue & CUBLASLT_EPILOGUE_RELU) != 0) return std::max(x, 0.0);
  if ((epilogue & CUBLASLT_EPILOGUE_GELU) != 0) {
    return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  }
  return x;
}

/// Runs on random values and compares D with the definition, and its padding with what it was.
void check(Product& product) {
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

cublasStatus_t heuristic_status(const Product& product, int* found = nullptr) {
  cublasLtMatmulHeuristicResult_t result;
  int count = -1;
  const cublasStatus_t status = product.find(&result, 1, &count);
  CHECK((count > 0) == (status == CUBLAS_STATUS_SUCCESS));
  if (found != nullptr) *found = count;
  return status;
}

}  // namespace

TEST_CASE("fake cuBLASLt multiplies all types and transposes") {
  struct Types {
    cublasComputeType_t compute;
    cudaDataType_t scale, in, out;
  };
  for (const Types& types : {
           Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_16F},
           Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_32F},
           Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF},
           Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_32F},
           Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
           Types{CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
           Types{CUBLAS_COMPUTE_64F, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F},
       }) {
    for (const auto op_a : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      for (const auto op_b : {CUBLAS_OP_N, CUBLAS_OP_T}) {
        CAPTURE(types.compute, types.in, types.out, op_a, op_b);
        Product product;
        product.compute = types.compute;
        product.scale = types.scale;
        product.in = types.in;
        product.out = types.out;
        product.op_a = op_a;
        product.op_b = op_b;
        product.alpha = 0.5;
        product.beta = -2;
        check(product);
      }
    }
  }
}

TEST_CASE("fake cuBLASLt multiplies int8 into int32 as integer tensor cores do") {
  Product product;
  product.compute = CUBLAS_COMPUTE_32I;
  product.scale = CUDA_R_32I;
  product.in = CUDA_R_8I;
  product.out = CUDA_R_32I;
  product.op_a = CUBLAS_OP_T;
  product.m = 4;
  product.k = 8;
  product.beta = 1;
  check(product);
}

TEST_CASE("fake cuBLASLt refuses int8 but for transposed A and sizes in fours") {
  for (const int fault : {0, 1, 2, 3, 4}) {
    CAPTURE(fault);
    Product product;
    product.compute = CUBLAS_COMPUTE_32I;
    product.scale = CUDA_R_32I;
    product.in = CUDA_R_8I;
    product.out = CUDA_R_32I;
    product.op_a = fault == 1 ? CUBLAS_OP_N : CUBLAS_OP_T;
    product.m = fault == 2 ? 6 : 4;
    product.k = fault == 3 ? 6 : 8;
    product.a.padding = fault == 4 ? 2 : 0;
    product.describe();
    CHECK(heuristic_status(product) ==
          (fault == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED));
  }
}

TEST_CASE("fake cuBLASLt knows row-major matrices, leading dimensions and strided batches") {
  for (const auto order : {CUBLASLT_ORDER_COL, CUBLASLT_ORDER_ROW}) {
    for (const auto order_a : {CUBLASLT_ORDER_COL, CUBLASLT_ORDER_ROW}) {
      Product product;
      product.batches = 3;
      product.a.order = order_a;
      product.b.order = order;
      product.c.order = product.d.order = order;
      product.a.padding = 2;
      product.b.padding = 1;
      product.c.padding = 3;
      product.d.padding = 4;
      product.op_b = CUBLAS_OP_T;
      product.beta = 1;
      check(product);
    }
  }
}

TEST_CASE("fake cuBLASLt hands one matrix to all batches where the stride is 0") {
  Product product;
  product.batches = 4;
  product.a.batch_stride = 0;
  check(product);
  Product other;
  other.batches = 4;
  other.b.batch_stride = 0;
  check(other);
}

TEST_CASE("fake cuBLASLt writes interleaved batches, as heads lie in attention") {
  Product product;
  product.batches = 3;
  product.d.padding = 2 * product.m;  // three heads side by side in each column
  product.d.batch_stride = product.m;
  product.c = product.d;
  product.describe();
  std::mt19937 generator(3);
  const std::vector<double> a = product.random(product.a, generator);
  const std::vector<double> b = product.random(product.b, generator);
  const Buffer a_buffer(CUDA_R_32F, a);
  const Buffer b_buffer(CUDA_R_32F, b);
  const Buffer d_buffer(CUDA_R_32F, std::vector<double>(3 * 5 * 3, 0));
  REQUIRE(product.run(a_buffer.data(), b_buffer.data(), d_buffer.data(), d_buffer.data()) ==
          CUBLAS_STATUS_SUCCESS);
  const std::vector<double> result = d_buffer.values();
  for (std::int64_t batch = 0; batch < 3; ++batch) {
    for (std::int64_t i = 0; i < 5; ++i) {
      for (std::int64_t j = 0; j < 3; ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < 7; ++p) {
          sum += a[product.a.at(batch, i, p)] * b[product.b.at(batch, p, j)];
        }
        CHECK(result[product.d.at(batch, i, j)] == Approx(sum));
      }
    }
  }
}

TEST_CASE("fake cuBLASLt applies each epilogue, in each type that has it") {
  for (const auto type : {CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF}) {
    for (const auto epilogue :
         {CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_BIAS,
          CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU_BIAS}) {
      CAPTURE(type, epilogue);
      Product product;
      product.in = product.out = type;
      product.epilogue = epilogue;
      product.batches = 2;
      check(product);
    }
  }
}

TEST_CASE("fake cuBLASLt makes 0 of NaN in a RELU epilogue, as the real library does") {
  Product product;
  product.epilogue = CUBLASLT_EPILOGUE_RELU;
  product.m = product.n = product.k = 1;
  product.describe();
  const Buffer a(CUDA_R_32F, {not_a_number});
  const Buffer b(CUDA_R_32F, {1});
  const Buffer d(CUDA_R_32F, {5});
  REQUIRE(product.run(a.data(), b.data(), d.data(), d.data()) == CUBLAS_STATUS_SUCCESS);
  CHECK(d.values() == std::vector<double>{0});
}

TEST_CASE("fake cuBLASLt has no epilogue in float64") {
  for (const auto epilogue :
       {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_BIAS,
        CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS}) {
    Product product;
    product.compute = CUBLAS_COMPUTE_64F;
    product.scale = product.in = product.out = CUDA_R_64F;
    product.epilogue = epilogue;
    product.describe();
    CHECK(heuristic_status(product) == (epilogue == CUBLASLT_EPILOGUE_DEFAULT
                                            ? CUBLAS_STATUS_SUCCESS
                                            : CUBLAS_STATUS_NOT_SUPPORTED));
  }
}

TEST_CASE("fake cuBLASLt does not read C where beta is 0") {
  Product product;
  product.describe();
  const Buffer a(CUDA_R_32F, std::vector<double>(35, 1));
  const Buffer b(CUDA_R_32F, std::vector<double>(21, 2));
  const Buffer d(CUDA_R_32F, std::vector<double>(15, not_a_number));
  REQUIRE(product.run(a.data(), b.data(), d.data(), d.data()) == CUBLAS_STATUS_SUCCESS);
  CHECK(d.values() == std::vector<double>(15, 14));
}

TEST_CASE("fake cuBLASLt adds onto D where C is D") {
  Product product;
  product.beta = 1;
  product.describe();
  const Buffer a(CUDA_R_32F, std::vector<double>(35, 1));
  const Buffer b(CUDA_R_32F, std::vector<double>(21, 2));
  const Buffer d(CUDA_R_32F, std::vector<double>(15, 3));
  REQUIRE(product.run(a.data(), b.data(), d.data(), d.data()) == CUBLAS_STATUS_SUCCESS);
  CHECK(d.values() == std::vector<double>(15, 17));
}

TEST_CASE("fake cuBLASLt rounds inputs to TF32 where that is allowed, and only there") {
  const double fine = 1 + std::ldexp(1.0, -12);  // TF32 has 10 bits of fraction
  for (const auto compute : {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32}) {
    Product product;
    product.compute = compute;
    product.m = product.n = product.k = 1;
    product.describe();
    const Buffer a(CUDA_R_32F, {fine});
    const Buffer b(CUDA_R_32F, {fine});
    const Buffer d(CUDA_R_32F, {0});
    REQUIRE(product.run(a.data(), b.data(), d.data(), d.data()) == CUBLAS_STATUS_SUCCESS);
    CHECK((d.values()[0] == 1) == (compute == CUBLAS_COMPUTE_32F_FAST_TF32));
  }
}

TEST_CASE(
    "fake cuBLASLt takes partial sums' workspace only as far as it is allowed, and spoils it") {
  Product product;
  product.m = 4;
  product.n = 4;
  product.k = 256;
  product.describe();
  const std::size_t needed = 2 * 4 * 4 * sizeof(float);
  cublasLtMatmulHeuristicResult_t results[4];
  int found = 0;
  REQUIRE(product.find(results, 4, &found) == CUBLAS_STATUS_SUCCESS);
  CHECK(found == 1);
  CHECK(results[0].workspaceSize == 0);
  product.allow_workspace(needed);
  REQUIRE(product.find(results, 4, &found) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(found == 2);
  CHECK(results[0].workspaceSize == needed);
  CHECK(results[1].workspaceSize == 0);

  const Buffer a(CUDA_R_32F, std::vector<double>(1024, 1));
  const Buffer b(CUDA_R_32F, std::vector<double>(1024, 1));
  const Buffer d(CUDA_R_32F, std::vector<double>(16, 0));
  const Buffer workspace(CUDA_R_32F, std::vector<double>(needed / sizeof(float), 3));
  const auto run = [&](void* memory, std::size_t bytes) {
    return product.run(a.data(), b.data(), d.data(), d.data(), &results[0].algo, memory, bytes);
  };
  CHECK(run(nullptr, 0) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(run(workspace.data(), needed - 1) == CUBLAS_STATUS_INVALID_VALUE);
  emulation::clear_matmul_calls();
  REQUIRE(run(workspace.data(), needed) == CUBLAS_STATUS_SUCCESS);
  CHECK(d.values() == std::vector<double>(16, 256));
  for (const double value : workspace.values()) CHECK(std::isnan(value));
  CHECK(emulation::matmul_calls().at(0).workspace_bytes == needed);
}

TEST_CASE("fake cuBLASLt shows in D when an operand lies in the workspace or in D") {
  Product product;
  product.m = product.n = 8;
  product.k = 64;
  product.describe();
  product.allow_workspace(1 << 20);
  cublasLtMatmulHeuristicResult_t result;
  int found = 0;
  REQUIRE(product.find(&result, 1, &found) == CUBLAS_STATUS_SUCCESS);
  REQUIRE(result.workspaceSize > 0);
  const std::vector<double> ones(512, 1);
  const Buffer a(CUDA_R_32F, ones);
  const Buffer b(CUDA_R_32F, ones);
  const Buffer d(CUDA_R_32F, ones);
  const auto run = [&](const Buffer& left, const Buffer& workspace) {
    REQUIRE(product.run(left.data(), b.data(), d.data(), d.data(), &result.algo, workspace.data(),
                        512 * sizeof(float)) == CUBLAS_STATUS_SUCCESS);
    return d.values()[0];
  };
  const Buffer workspace(CUDA_R_32F, ones);
  CHECK(run(a, workspace) == 64);
  CHECK(std::isnan(run(d, workspace)));
  CHECK(std::isnan(run(a, b)));
}

TEST_CASE("fake cuBLASLt refuses types that do not go together") {
  struct Types {
    cublasComputeType_t compute;
    cudaDataType_t scale, in, out;
  };
  for (const Types& types : {
           Types{CUBLAS_COMPUTE_16F, CUDA_R_16F, CUDA_R_16F, CUDA_R_16F},
           Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_64F, CUDA_R_64F},
           Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_16F},
           Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF},
           Types{CUBLAS_COMPUTE_32F, CUDA_R_64F, CUDA_R_32F, CUDA_R_32F},
           Types{CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_16F, CUDA_R_16F},
           Types{CUBLAS_COMPUTE_64F, CUDA_R_64F, CUDA_R_32F, CUDA_R_32F},
           Types{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32I, CUDA_R_32I},
       }) {
    CAPTURE(types.compute, types.in, types.out);
    Product product;
    product.compute = types.compute;
    product.scale = types.scale;
    product.in = types.in;
    product.out = types.out;
    product.describe();
    CHECK(heuristic_status(product) == CUBLAS_STATUS_NOT_SUPPORTED);
  }
}

TEST_CASE("fake cuBLASLt refuses device scalars, a bias of row-major rows and of another type") {
  SECTION("device scalars") {
    Ready product;
    product.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, std::int32_t{CUBLASLT_POINTER_MODE_DEVICE});
    CHECK(heuristic_status(product) == CUBLAS_STATUS_NOT_SUPPORTED);
  }
  SECTION("row-major bias") {
    Product product;
    product.c.order = product.d.order = CUBLASLT_ORDER_ROW;
    product.epilogue = CUBLASLT_EPILOGUE_BIAS;
    product.describe();
    CHECK(heuristic_status(product) == CUBLAS_STATUS_NOT_SUPPORTED);
  }
  SECTION("float32 bias of a float16 result") {
    Product product;
    product.in = product.out = CUDA_R_16F;
    product.epilogue = CUBLASLT_EPILOGUE_BIAS;
    product.describe();
    product.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, std::int32_t{CUDA_R_32F});
    CHECK(heuristic_status(product) == CUBLAS_STATUS_NOT_SUPPORTED);
    product.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, std::int32_t{CUDA_R_16F});
    CHECK(heuristic_status(product) == CUBLAS_STATUS_SUCCESS);
  }
  SECTION("C and D of different orders") {
    Product product;
    product.c.order = CUBLASLT_ORDER_ROW;
    product.describe();
    CHECK(heuristic_status(product) == CUBLAS_STATUS_NOT_SUPPORTED);
  }
  SECTION("an order of tiles") {
    Ready product;
    Product::set(product.layout_a, CUBLASLT_MATRIX_LAYOUT_ORDER,
                 std::int32_t{CUBLASLT_ORDER_COL32});
    CHECK(heuristic_status(product) == CUBLAS_STATUS_NOT_SUPPORTED);
  }
}

TEST_CASE("fake cuBLASLt finds descriptors that contradict one another") {
  const auto invalid = [](auto change) {
    Ready product;
    change(product);
    return heuristic_status(product) == CUBLAS_STATUS_INVALID_VALUE;
  };
  CHECK_FALSE(invalid([](Product&) {}));
  CHECK(invalid(
      [](Product& p) { Product::set(p.layout_a, CUBLASLT_MATRIX_LAYOUT_LD, std::int64_t{7}); }));
  CHECK(invalid(
      [](Product& p) { Product::set(p.layout_d, CUBLASLT_MATRIX_LAYOUT_LD, std::int64_t{7}); }));
  CHECK(invalid(
      [](Product& p) { Product::set(p.layout_a, CUBLASLT_MATRIX_LAYOUT_COLS, std::uint64_t{9}); }));
  CHECK(invalid(
      [](Product& p) { Product::set(p.layout_c, CUBLASLT_MATRIX_LAYOUT_ROWS, std::uint64_t{7}); }));
  CHECK(invalid(
      [](Product& p) { Product::set(p.layout_d, CUBLASLT_MATRIX_LAYOUT_ROWS, std::uint64_t{0}); }));
  CHECK(invalid([](Product& p) {
    Product::set(p.layout_b, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, std::int32_t{2});
  }));
  CHECK(invalid([](Product& p) {
    for (auto* layout : {p.layout_a, p.layout_b, p.layout_c, p.layout_d}) {
      Product::set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, std::int32_t{2});
    }
    Product::set(p.layout_d, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, std::int64_t{0});
  }));
  CHECK(invalid([](Product& p) { p.set(CUBLASLT_MATMUL_DESC_TRANSA, std::int32_t{9}); }));
}

TEST_CASE("fake cuBLASLt has no layout without elements") {
  cublasLtMatrixLayout_t layout = nullptr;
  CHECK(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 0, 4, 4) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 4, 0, 4) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 4, 4, 0) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasLtMatrixLayoutCreate(nullptr, CUDA_R_32F, 4, 4, 4) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("fake cuBLASLt checks the size of attributes") {
  Ready product;
  const std::int64_t wide = 0;
  CHECK(cublasLtMatmulDescSetAttribute(product.desc, CUBLASLT_MATMUL_DESC_TRANSA, &wide,
                                       sizeof wide) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasLtMatmulDescSetAttribute(product.desc, CUBLASLT_MATMUL_DESC_TRANSA, nullptr, 4) ==
        CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasLtMatrixLayoutSetAttribute(product.layout_a, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                         &wide, sizeof wide) == CUBLAS_STATUS_INVALID_VALUE);

  std::uint32_t epilogue = 0;
  std::size_t bytes = 0;
  CHECK(cublasLtMatmulDescGetAttribute(product.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, nullptr, 0,
                                       &bytes) == CUBLAS_STATUS_SUCCESS);
  CHECK(bytes == sizeof epilogue);
  CHECK(cublasLtMatmulDescGetAttribute(product.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                       bytes, nullptr) == CUBLAS_STATUS_SUCCESS);
  CHECK(epilogue == CUBLASLT_EPILOGUE_DEFAULT);
  CHECK(cublasLtMatmulDescGetAttribute(product.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, 8,
                                       nullptr) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE(
    "fake cuBLASLt refuses pointers that are null, elsewhere, or less aligned than promised") {
  Ready product;
  const Buffer a(CUDA_R_32F, product.data, 4);  // 16 bytes behind an allocation's start
  const Buffer b(CUDA_R_32F, product.data);
  const Buffer d(CUDA_R_32F, product.data);
  CHECK(product.run(nullptr, b.data(), d.data(), d.data()) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(product.run(a.data(), nullptr, d.data(), d.data()) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(product.run(a.data(), b.data(), nullptr, d.data()) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(product.run(a.data(), b.data(), d.data(), nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  std::vector<float> host(64, 1);
  CHECK(product.run(host.data(), b.data(), d.data(), d.data()) == CUBLAS_STATUS_INVALID_VALUE);
  const Buffer small(CUDA_R_32F, std::vector<double>(63, 1));
  CHECK(product.run(a.data(), b.data(), d.data(), small.data()) == CUBLAS_STATUS_INVALID_VALUE);

  cublasLtMatmulHeuristicResult_t result;
  int found = 0;
  const Buffer unaligned(CUDA_R_32F, product.data, 1);
  REQUIRE(product.find(&result, 1, &found) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.run(a.data(), b.data(), d.data(), d.data(), &result.algo) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.run(unaligned.data(), b.data(), d.data(), d.data(), &result.algo) ==
        CUBLAS_STATUS_INVALID_VALUE);
  product.promise_alignment(4);
  REQUIRE(product.find(&result, 1, &found) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.run(unaligned.data(), b.data(), d.data(), d.data(), &result.algo) ==
        CUBLAS_STATUS_SUCCESS);
  CHECK(d.values() == std::vector<double>(64, 8));
}

TEST_CASE("fake cuBLASLt wants a bias where the epilogue adds one, aligned as when it was asked") {
  Product product;
  product.epilogue = CUBLASLT_EPILOGUE_BIAS;
  product.describe();
  const Buffer a(CUDA_R_32F, std::vector<double>(35, 1));
  const Buffer b(CUDA_R_32F, std::vector<double>(21, 1));
  const Buffer d(CUDA_R_32F, std::vector<double>(15, 1));
  const Buffer bias(CUDA_R_32F, std::vector<double>(5, 1), 1);
  cublasLtMatmulHeuristicResult_t result;
  int found = 0;
  REQUIRE(product.find(&result, 1, &found) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.run(a.data(), b.data(), d.data(), d.data(), &result.algo) ==
        CUBLAS_STATUS_INVALID_VALUE);
  product.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias.data()));
  CHECK(product.run(a.data(), b.data(), d.data(), d.data(), &result.algo) ==
        CUBLAS_STATUS_INVALID_VALUE);
  REQUIRE(product.find(&result, 1, &found) == CUBLAS_STATUS_SUCCESS);
  CHECK(product.run(a.data(), b.data(), d.data(), d.data(), &result.algo) == CUBLAS_STATUS_SUCCESS);
  CHECK(d.values() == std::vector<double>(15, 8));
}

TEST_CASE("fake cuBLASLt runs an algorithm only on what it was found for") {
  Ready product;
  Ready larger(16);
  const Buffer a(CUDA_R_32F, larger.data);
  const Buffer d(CUDA_R_32F, larger.data);
  cublasLtMatmulHeuristicResult_t result;
  int found = 0;
  REQUIRE(product.find(&result, 1, &found) == CUBLAS_STATUS_SUCCESS);
  CHECK(larger.run(a.data(), a.data(), d.data(), d.data(), &result.algo) ==
        CUBLAS_STATUS_INVALID_VALUE);
  const cublasLtMatmulAlgo_t nothing = {};
  CHECK(larger.run(a.data(), a.data(), d.data(), d.data(), &nothing) ==
        CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("fake cuBLASLt needs a live handle, an array and a preference") {
  Ready product;
  cublasLtMatmulHeuristicResult_t result;
  int found = -1;
  CHECK(product.find(&result, 0, &found) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(product.find(nullptr, 1, &found) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(product.find(&result, 1, nullptr) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(cublasLtMatmulAlgoGetHeuristic(nullptr, product.desc, product.layout_a, product.layout_b,
                                       product.layout_c, product.layout_d, product.preference, 1,
                                       &result, &found) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(found == 0);
  CHECK(cublasLtDestroy(nullptr) == CUBLAS_STATUS_NOT_INITIALIZED);
}

TEST_CASE("fake cuBLASLt keeps a record of what was asked") {
  emulation::clear_matmul_calls();
  Product product;
  product.batches = 2;
  product.op_b = CUBLAS_OP_T;
  product.in = product.out = CUDA_R_16F;
  product.epilogue = CUBLASLT_EPILOGUE_GELU;
  product.a.batch_stride = 0;
  check(product);
  const std::vector<MatmulCall> calls = emulation::matmul_calls();
  REQUIRE(calls.size() == 1);
  CHECK(calls[0].m == 5);
  CHECK(calls[0].n == 3);
  CHECK(calls[0].k == 7);
  CHECK(calls[0].batch_count == 2);
  CHECK_FALSE(calls[0].transpose_a);
  CHECK(calls[0].transpose_b);
  CHECK(calls[0].a_type == CUDA_R_16F);
  CHECK(calls[0].d_type == CUDA_R_16F);
  CHECK(calls[0].epilogue == CUBLASLT_EPILOGUE_GELU);
  CHECK(calls[0].alpha == 1);
  CHECK(calls[0].beta == 0);
  CHECK(calls[0].a_batch_stride == 0);
  CHECK(calls[0].b_batch_stride == 21);
  CHECK(calls[0].d_batch_stride == 15);
}

TEST_CASE("fake cuBLASLt names its errors") {
  CHECK(std::string(cublasLtGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED)) ==
        "CUBLAS_STATUS_NOT_SUPPORTED");
  CHECK(std::string(cublasLtGetStatusString(CUBLAS_STATUS_ALLOC_FAILED)) ==
        "CUBLAS_STATUS_ALLOC_FAILED");
  CHECK(cublasLtGetVersion() == 130100);
}
