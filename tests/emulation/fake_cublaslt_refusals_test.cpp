// What the stand-in for cuBLASLt refuses, as the real library does or where it would go wrong.

#include <catch2/catch.hpp>

#include "cublaslt_product_under_test.h"

using namespace autopar;
using emulation::MatmulCall;
using namespace autopar::fake_cublaslt_test;

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
