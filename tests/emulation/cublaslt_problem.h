#pragma once
// What lies in cuBLASLt's opaque structures, and which products the real library would run: strict
// where it is documented to be, and where it would silently read or write wrong memory.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <type_traits>
#include <vector>

#include "cublasLt.h"

namespace autopar::emulation::cublaslt {

// A cookie tells a live structure from a destroyed one.
constexpr std::uint64_t layout_cookie = 0x6c61796f7574;
constexpr std::uint64_t desc_cookie = 0x64657363;
constexpr std::uint64_t preference_cookie = 0x70726566;
constexpr std::uint64_t algo_cookie = 0x616c676f;

struct Layout {
  std::uint64_t cookie = layout_cookie;
  cudaDataType_t type = CUDA_R_32F;
  std::int32_t order = CUBLASLT_ORDER_COL;
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  std::int64_t ld = 0;
  std::int64_t batch_stride = 0;
  std::int32_t batch_count = 1;

  /// A layout is `major` vectors of `minor` elements side by side, `ld` apart.
  std::uint64_t minor() const { return order == CUBLASLT_ORDER_COL ? rows : cols; }
  std::uint64_t major() const { return order == CUBLASLT_ORDER_COL ? cols : rows; }
  std::int64_t row_stride() const { return order == CUBLASLT_ORDER_COL ? 1 : ld; }
  std::int64_t col_stride() const { return order == CUBLASLT_ORDER_COL ? ld : 1; }
  /// Elements from the first to the last.
  std::uint64_t extent() const {
    return static_cast<std::uint64_t>(batch_count - 1) * static_cast<std::uint64_t>(batch_stride) +
           (major() - 1) * static_cast<std::uint64_t>(ld) + minor();
  }
  bool operator==(const Layout&) const = default;
};

struct Desc {
  std::uint64_t cookie = desc_cookie;
  std::int32_t compute = CUBLAS_COMPUTE_32F;
  std::int32_t scale = CUDA_R_32F;
  std::int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t transpose_a = CUBLAS_OP_N;
  std::int32_t transpose_b = CUBLAS_OP_N;
  std::int32_t transpose_c = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::int32_t bias_type = -1;  ///< -1: as D
  const void* bias = nullptr;
  std::int64_t bias_batch_stride = 0;

  bool has(cublasLtEpilogue_t part) const { return (epilogue & part) != 0; }
};

struct Preference {
  std::uint64_t cookie = preference_cookie;
  std::uint64_t max_workspace = 0;
  std::uint32_t search_mode = CUBLASLT_SEARCH_BEST_FIT;
  std::uint32_t reduction_schemes = ~0U;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  ///< of A, B, C, D
};

struct Algo {
  std::uint64_t cookie = algo_cookie;
  std::uint64_t problem = 0;        ///< fingerprint of what it was found for
  std::uint64_t workspace = 0;      ///< bytes that it uses
  std::uint32_t alignment[5] = {};  ///< bytes that the pointers of A, B, C, D and the bias need
};

/// Copies between an opaque structure and what lies in it.
template <typename State, typename Opaque>
State load(const Opaque* opaque) {
  static_assert(sizeof(State) <= sizeof(Opaque) && std::is_trivially_copyable_v<State>);
  State state;
  std::memcpy(static_cast<void*>(&state), opaque, sizeof state);
  return state;
}

template <typename State, typename Opaque>
void store(Opaque* opaque, const State& state) {
  static_assert(sizeof(State) <= sizeof(Opaque) && std::is_trivially_copyable_v<State>);
  std::memcpy(opaque, &state, sizeof state);
}

template <typename State, typename Opaque>
bool is_live(const Opaque* opaque) {
  return opaque != nullptr && load<State>(opaque).cookie == State().cookie;
}

template <typename State, typename Opaque>
cublasStatus_t create(Opaque** opaque, const State& state) {
  if (opaque == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *opaque = new Opaque{};
  store(*opaque, state);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename State, typename Opaque>
cublasStatus_t destroy(Opaque* opaque) {
  if (opaque == nullptr) return CUBLAS_STATUS_SUCCESS;
  if (!is_live<State>(opaque)) return CUBLAS_STATUS_INVALID_VALUE;
  *opaque = {};
  delete opaque;
  return CUBLAS_STATUS_SUCCESS;
}

struct Problem {
  Desc desc;
  Layout a, b, c, d;

  bool transposes_a() const { return desc.transpose_a != CUBLAS_OP_N; }
  bool transposes_b() const { return desc.transpose_b != CUBLAS_OP_N; }
  std::int64_t m() const { return static_cast<std::int64_t>(d.rows); }
  std::int64_t n() const { return static_cast<std::int64_t>(d.cols); }
  std::int64_t k() const { return static_cast<std::int64_t>(transposes_a() ? a.rows : a.cols); }
  bool is_int8() const { return a.type == CUDA_R_8I; }
};

/// None where a structure is not a live one.
std::optional<Problem> load_problem(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                    cublasLtMatrixLayout_t d);

/// False: the descriptors contradict themselves or one another.
bool is_consistent(const Problem& problem);

/// Whether there is an algorithm at all, whatever the pointers.
bool is_supported(const Problem& problem);

/// A hash of what an algorithm depends on; the bias pointer may change.
std::uint64_t fingerprint(const Problem& problem);

/// The largest power of two that divides an address, at most 256.
std::uint32_t alignment_of(const void* pointer);

/// Products with a long sum and a small result split the sum over blocks, where a workspace for
/// their partial sums is allowed: the first, fastest answer. The second does without.
std::vector<Algo> find_algos(const Problem& problem, const Preference& preference);

struct Operands {
  const void* a;
  const void* b;
  const void* c;
  void* d;
  void* workspace;
  std::size_t workspace_bytes;
};

/// The work of a supported product, to be done later; alpha and beta are read now.
std::function<void()> product(const Problem& problem, const Operands& operands, const void* alpha,
                              const void* beta);

}  // namespace autopar::emulation::cublaslt
