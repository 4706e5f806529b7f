// Products as cuBLASLt computes them: types, roundings and epilogues.

#include <algorithm>
#include <bit>
#include <cmath>

#include "cublaslt_problem.h"
#include "runtime/kernels/common/half.h"

namespace autopar::emulation::cublaslt {

namespace {

using runtime::BFloat16;
using runtime::Float16;

float round_to_tf32(float value) {
  if (!std::isfinite(value)) return value;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + 0x1000U) & ~0x1FFFU);
}

float widen(float value) { return value; }
double widen(double value) { return value; }
float widen(Float16 value) { return to_float(value); }
float widen(BFloat16 value) { return to_float(value); }
std::int32_t widen(std::int8_t value) { return value; }
std::int32_t widen(std::int32_t value) { return value; }

template <typename T, typename Wide>
T narrow(Wide value) {
  if constexpr (std::is_same_v<T, Float16>) {
    return runtime::to_float16(value);
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return runtime::to_bfloat16(value);
  } else {
    return value;
  }
}

/// The real library's: NaN becomes 0.
float relu(float value) { return value > 0 ? value : 0; }

float gelu_tanh(float x) {
  return 0.5F * x * (1 + std::tanh(0.7978845608F * (x + 0.044715F * x * x * x)));
}

/// op(A) of one batch, packed so that each step of the sum finds its m elements side by side.
template <typename Wide, typename In>
void pack_a(const Problem& problem, const In* a, std::vector<Wide>& packed) {
  const std::int64_t m = problem.m();
  const std::int64_t k = problem.k();
  std::int64_t step_of_m = problem.a.row_stride();
  std::int64_t step_of_k = problem.a.col_stride();
  if (problem.transposes_a()) std::swap(step_of_m, step_of_k);
  packed.resize(static_cast<std::size_t>(m * k));
  for (std::int64_t p = 0; p < k; ++p) {
    for (std::int64_t i = 0; i < m; ++i) {
      packed[static_cast<std::size_t>(p * m + i)] = widen(a[i * step_of_m + p * step_of_k]);
    }
  }
}

/// In: of A and B. Out: of C and D. Wide: of sums, alpha and beta.
template <typename In, typename Out, typename Wide>
void multiply(const Problem& problem, const Operands& operands, Wide alpha, Wide beta) {
  const std::int64_t m = problem.m();
  const std::int64_t n = problem.n();
  const std::int64_t k = problem.k();
  const Desc& desc = problem.desc;
  const bool is_tf32 = desc.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const auto* all_a = static_cast<const In*>(operands.a);
  const auto* all_b = static_cast<const In*>(operands.b);
  const auto* all_c = static_cast<const Out*>(operands.c);
  const auto* all_bias = static_cast<const Out*>(desc.bias);
  auto* all_d = static_cast<Out*>(operands.d);
  std::int64_t step_of_k = problem.b.row_stride();
  std::int64_t step_of_n = problem.b.col_stride();
  if (problem.transposes_b()) std::swap(step_of_k, step_of_n);

  // Whoever still needs what lay in the workspace or in D is to notice. All ones are NaN.
  if (operands.workspace_bytes > 0) {
    std::memset(operands.workspace, 0xFF, operands.workspace_bytes);
  }
  const bool reads_d = beta != 0 && operands.c == operands.d;
  for (std::int64_t batch = 0; batch < problem.d.batch_count && !reads_d; ++batch) {
    for (std::int64_t j = 0; j < static_cast<std::int64_t>(problem.d.major()); ++j) {
      void* vector = all_d + batch * problem.d.batch_stride + j * problem.d.ld;
      std::memset(vector, 0xFF, problem.d.minor() * sizeof(Out));
    }
  }

  std::vector<Wide> packed_a;
  std::vector<Wide> sums(static_cast<std::size_t>(m));
  for (std::int64_t batch = 0; batch < problem.d.batch_count; ++batch) {
    if (batch == 0 || problem.a.batch_stride != 0) {
      pack_a(problem, all_a + batch * problem.a.batch_stride, packed_a);
      if constexpr (std::is_same_v<Wide, float>) {
        if (is_tf32) std::ranges::transform(packed_a, packed_a.begin(), round_to_tf32);
      }
    }
    const In* b = all_b + batch * problem.b.batch_stride;
    const Out* c = all_c + batch * problem.c.batch_stride;
    const Out* bias = all_bias + batch * desc.bias_batch_stride;
    Out* d = all_d + batch * problem.d.batch_stride;
    for (std::int64_t j = 0; j < n; ++j) {
      std::ranges::fill(sums, Wide{0});
      for (std::int64_t p = 0; p < k; ++p) {
        Wide factor = widen(b[p * step_of_k + j * step_of_n]);
        if constexpr (std::is_same_v<Wide, float>) {
          if (is_tf32) factor = round_to_tf32(factor);
        }
        const Wide* column = packed_a.data() + p * m;
        for (std::int64_t i = 0; i < m; ++i)
          sums[static_cast<std::size_t>(i)] += factor * column[i];
      }
      for (std::int64_t i = 0; i < m; ++i) {
        Wide value = alpha * sums[static_cast<std::size_t>(i)];
        if (beta != 0) {
          value += beta * widen(c[i * problem.c.row_stride() + j * problem.c.col_stride()]);
        }
        if constexpr (std::is_same_v<Wide, float>) {
          if (desc.has(CUBLASLT_EPILOGUE_BIAS)) value += widen(bias[i]);
          if (desc.has(CUBLASLT_EPILOGUE_RELU)) value = relu(value);
          if (desc.has(CUBLASLT_EPILOGUE_GELU)) value = gelu_tanh(value);
        }
        d[i * problem.d.row_stride() + j * problem.d.col_stride()] = narrow<Out>(value);
      }
    }
  }
}

template <typename In, typename Out, typename Wide>
std::function<void()> product(const Problem& problem, const Operands& operands, const void* alpha,
                              const void* beta) {
  return [problem, operands, alpha = *static_cast<const Wide*>(alpha),
          beta = *static_cast<const Wide*>(beta)] {
    multiply<In, Out, Wide>(problem, operands, alpha, beta);
  };
}

}  // namespace

std::function<void()> product(const Problem& problem, const Operands& operands, const void* alpha,
                              const void* beta) {
  const bool widens = problem.a.type != problem.d.type;
  switch (problem.a.type) {
    case CUDA_R_16F:
      return (widens ? product<Float16, float, float>
                     : product<Float16, Float16, float>)(problem, operands, alpha, beta);
    case CUDA_R_16BF:
      return (widens ? product<BFloat16, float, float>
                     : product<BFloat16, BFloat16, float>)(problem, operands, alpha, beta);
    case CUDA_R_64F:
      return product<double, double, double>(problem, operands, alpha, beta);
    case CUDA_R_8I:
      return product<std::int8_t, std::int32_t, std::int32_t>(problem, operands, alpha, beta);
    default:
      return product<float, float, float>(problem, operands, alpha, beta);
  }
}

}  // namespace autopar::emulation::cublaslt
