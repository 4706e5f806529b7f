// The stand-in for cuBLASLt against its definition in double.

#include <catch2/catch.hpp>

#include "cublaslt_product_under_test.h"

using namespace autopar;
using emulation::MatmulCall;
using namespace autopar::fake_cublaslt_test;

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
