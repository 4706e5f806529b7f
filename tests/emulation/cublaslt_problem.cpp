#include "cublaslt_problem.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace autopar::emulation::cublaslt {

namespace {

/// The combinations of types that the real library's table has and the runtime may use.
struct Supported {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cudaDataType_t ab;
  cudaDataType_t cd;
};

constexpr Supported supported[] = {
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_16F},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_16F, CUDA_R_16F},
    {CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_16F, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF},
    {CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_16BF, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    {CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    {CUBLAS_COMPUTE_64F, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F},
    {CUBLAS_COMPUTE_64F_PEDANTIC, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F},
    {CUBLAS_COMPUTE_32I, CUDA_R_32I, CUDA_R_8I, CUDA_R_32I},
    {CUBLAS_COMPUTE_32I_PEDANTIC, CUDA_R_32I, CUDA_R_8I, CUDA_R_32I},
};

bool is_operation(std::int32_t value) {
  return value == CUBLAS_OP_N || value == CUBLAS_OP_T || value == CUBLAS_OP_C;
}
}  // namespace

std::optional<Problem> load_problem(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                    cublasLtMatrixLayout_t d) {
  if (!is_live<Desc>(desc)) return std::nullopt;
  for (const auto* layout : {a, b, c, d}) {
    if (!is_live<Layout>(layout)) return std::nullopt;
  }
  return Problem{load<Desc>(desc), load<Layout>(a), load<Layout>(b), load<Layout>(c),
                 load<Layout>(d)};
}

bool is_consistent(const Problem& problem) {
  const Desc& desc = problem.desc;
  if (!is_operation(desc.transpose_a) || !is_operation(desc.transpose_b)) return false;
  for (const Layout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    if (layout->rows == 0 || layout->cols == 0 || layout->batch_count < 1) return false;
    if (layout->batch_stride < 0) return false;
    if (layout->order != CUBLASLT_ORDER_COL && layout->order != CUBLASLT_ORDER_ROW) continue;
    if (layout->ld < static_cast<std::int64_t>(layout->minor())) return false;
    if (layout->batch_count != problem.d.batch_count) return false;
  }
  if (problem.d.batch_count > 1 && problem.d.batch_stride == 0) return false;
  const auto shape = [](const Layout& layout, bool transposed) {
    return transposed ? std::pair(layout.cols, layout.rows) : std::pair(layout.rows, layout.cols);
  };
  const auto [m, k] = shape(problem.a, problem.transposes_a());
  const auto [k_of_b, n] = shape(problem.b, problem.transposes_b());
  const std::pair result(m, n);
  return k == k_of_b && shape(problem.c, false) == result && shape(problem.d, false) == result;
}

bool is_supported(const Problem& problem) {
  const Desc& desc = problem.desc;
  const auto fits = [&](const Supported& types) {
    return types.compute == desc.compute && types.scale == desc.scale &&
           types.ab == problem.a.type && types.ab == problem.b.type && types.cd == problem.c.type &&
           types.cd == problem.d.type;
  };
  if (std::ranges::none_of(supported, fits)) return false;
  if (desc.pointer_mode != CUBLASLT_POINTER_MODE_HOST || desc.transpose_c != CUBLAS_OP_N) {
    return false;
  }
  for (const Layout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    if (layout->order != CUBLASLT_ORDER_COL && layout->order != CUBLASLT_ORDER_ROW) return false;
    const std::uint64_t most = std::numeric_limits<std::int32_t>::max();
    if (layout->rows > most || layout->cols > most) return false;
  }
  if (problem.c.order != problem.d.order) return false;

  switch (desc.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
      break;
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
      if (desc.scale != CUDA_R_32F) return false;
      break;
    default:
      return false;
  }
  // The bias is a column of D: rows of a row-major D would each need one element of it.
  if (desc.has(CUBLASLT_EPILOGUE_BIAS) &&
      (problem.d.order != CUBLASLT_ORDER_COL ||
       (desc.bias_type != -1 && desc.bias_type != problem.d.type))) {
    return false;
  }

  // Integer tensor cores: A transposed, B not, column-major, m, k and leading dimensions in fours.
  if (problem.is_int8()) {
    if (!problem.transposes_a() || problem.transposes_b()) return false;
    if (problem.m() % 4 != 0 || problem.k() % 4 != 0) return false;
    for (const Layout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
      if (layout->order != CUBLASLT_ORDER_COL || layout->ld % 4 != 0) return false;
    }
  }
  return true;
}

/// FNV-1a over what an algorithm depends on; the bias pointer may change.
std::uint64_t fingerprint(const Problem& problem) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::int64_t number) {
    hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x100000001b3;
  };
  const Desc& desc = problem.desc;
  for (const std::int64_t number : {std::int64_t{desc.compute}, std::int64_t{desc.scale},
                                    std::int64_t{desc.transpose_a}, std::int64_t{desc.transpose_b},
                                    std::int64_t{desc.epilogue}, std::int64_t{desc.bias_type}}) {
    add(number);
  }
  for (const Layout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    add(layout->type);
    add(layout->order);
    add(static_cast<std::int64_t>(layout->rows));
    add(static_cast<std::int64_t>(layout->cols));
    add(layout->ld);
    add(layout->batch_stride);
    add(layout->batch_count);
  }
  return hash;
}

/// Algorithms read 16 bytes at a time where they were told that pointers are so aligned.
constexpr std::uint32_t widest_access = 16;
std::uint32_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return address == 0
             ? 256
             : static_cast<std::uint32_t>(std::min<std::uintptr_t>(address & (~address + 1), 256));
}

std::vector<Algo> find_algos(const Problem& problem, const Preference& preference) {
  Algo algo;
  algo.problem = fingerprint(problem);
  for (int i = 0; i < 4; ++i) {
    algo.alignment[i] = std::min(widest_access, preference.alignment[i]);
  }
  algo.alignment[4] = std::min(widest_access, alignment_of(problem.desc.bias));
  std::vector<Algo> algos;
  const std::int64_t partial_sums = 2 * problem.m() * problem.n() * problem.d.batch_count;
  const bool splits_sum = problem.k() >= 64 && problem.k() >= 2 * problem.m();
  const auto workspace = static_cast<std::uint64_t>(partial_sums) * sizeof(float);
  if (splits_sum && workspace <= preference.max_workspace) {
    algos.push_back(algo);
    algos.back().workspace = workspace;
  }
  algos.push_back(algo);
  return algos;
}

}  // namespace autopar::emulation::cublaslt
