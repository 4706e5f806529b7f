#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cublasLt.h"

namespace autopar::emulation {

/// A product as it was asked for: D = epilogue(alpha op(A) op(B) + beta C), D m x n, the sum over
/// k.
struct MatmulCall {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  int batch_count = 1;
  bool transpose_a = false;
  bool transpose_b = false;
  cudaDataType_t a_type = CUDA_R_32F;
  cudaDataType_t b_type = CUDA_R_32F;
  cudaDataType_t c_type = CUDA_R_32F;
  cudaDataType_t d_type = CUDA_R_32F;
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  double alpha = 1;
  double beta = 0;
  std::int64_t a_batch_stride = 0;  ///< elements, as all strides
  std::int64_t b_batch_stride = 0;
  std::int64_t c_batch_stride = 0;
  std::int64_t d_batch_stride = 0;
  std::size_t workspace_bytes = 0;  ///< that the algorithm uses
};

/// The successful calls of cublasLtMatmul, in order, of all threads since the last clear. A
/// captured call counts once, however often its graph is launched.
std::vector<MatmulCall> matmul_calls();
void clear_matmul_calls();

}  // namespace autopar::emulation
