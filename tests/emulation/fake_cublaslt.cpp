// cuBLASLt's functions over the emulation: what passes here is meant to pass on the real library.

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "cublasLt.h"
#include "cublaslt_problem.h"
#include "emulation.h"
#include "emulation_cublaslt.h"

struct cublasLtContext {
  std::uint64_t cookie;
};

namespace autopar::emulation {

using namespace cublaslt;

namespace {

constexpr std::uint64_t handle_cookie = 0x68616e646c65;

/// Where an attribute lies in its structure.
struct Field {
  int attribute;
  std::size_t offset;
  std::size_t bytes;
};

#define FIELD(attribute, type, member) \
  { attribute, offsetof(type, member), sizeof(type::member) }
constexpr Field layout_fields[] = {
    FIELD(CUBLASLT_MATRIX_LAYOUT_TYPE, Layout, type),
    FIELD(CUBLASLT_MATRIX_LAYOUT_ORDER, Layout, order),
    FIELD(CUBLASLT_MATRIX_LAYOUT_ROWS, Layout, rows),
    FIELD(CUBLASLT_MATRIX_LAYOUT_COLS, Layout, cols),
    FIELD(CUBLASLT_MATRIX_LAYOUT_LD, Layout, ld),
    FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, Layout, batch_count),
    FIELD(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, Layout, batch_stride),
};

constexpr Field desc_fields[] = {
    FIELD(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, Desc, compute),
    FIELD(CUBLASLT_MATMUL_DESC_SCALE_TYPE, Desc, scale),
    FIELD(CUBLASLT_MATMUL_DESC_POINTER_MODE, Desc, pointer_mode),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSA, Desc, transpose_a),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSB, Desc, transpose_b),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSC, Desc, transpose_c),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE, Desc, epilogue),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_POINTER, Desc, bias),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, Desc, bias_batch_stride),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, Desc, bias_type),
};

constexpr Field preference_fields[] = {
    FIELD(CUBLASLT_MATMUL_PREF_SEARCH_MODE, Preference, search_mode),
    FIELD(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, Preference, max_workspace),
    FIELD(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, Preference, reduction_schemes),
    FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, Preference, alignment[0]),
    FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, Preference, alignment[1]),
    FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, Preference, alignment[2]),
    FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, Preference, alignment[3]),
};

#undef FIELD

const Field* find_field(std::span<const Field> fields, int attribute) {
  const auto found = std::ranges::find(fields, attribute, &Field::attribute);
  return found == fields.end() ? nullptr : &*found;
}

template <typename State, typename Opaque>
cublasStatus_t set_attribute(Opaque* opaque, std::span<const Field> fields, int attribute,
                             const void* value, std::size_t bytes) {
  const Field* field = find_field(fields, attribute);
  if (!is_live<State>(opaque) || field == nullptr || value == nullptr || bytes != field->bytes) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(reinterpret_cast<std::byte*>(opaque) + field->offset, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename State, typename Opaque>
cublasStatus_t get_attribute(const Opaque* opaque, std::span<const Field> fields, int attribute,
                             void* value, std::size_t bytes, std::size_t* bytes_written) {
  const Field* field = find_field(fields, attribute);
  if (!is_live<State>(opaque) || field == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes == 0 ? bytes_written == nullptr : value == nullptr || bytes != field->bytes) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (bytes != 0) {
    std::memcpy(value, reinterpret_cast<const std::byte*>(opaque) + field->offset, bytes);
  }
  if (bytes_written != nullptr) *bytes_written = field->bytes;
  return CUBLAS_STATUS_SUCCESS;
}

/// 0 for types that no product takes.
std::size_t size_of(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_8I:
      return 1;
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return 2;
    case CUDA_R_32F:
    case CUDA_R_32I:
      return 4;
    case CUDA_R_64F:
      return 8;
    default:
      return 0;
  }
}

double scalar(std::int32_t type, const void* value) {
  if (type == CUDA_R_64F) return *static_cast<const double*>(value);
  if (type == CUDA_R_32I) return *static_cast<const std::int32_t*>(value);
  return *static_cast<const float*>(value);
}

std::mutex calls_mutex;
std::vector<MatmulCall> calls;

void record(const Problem& problem, const Operands& operands, const void* alpha, const void* beta) {
  MatmulCall call;
  call.m = problem.m();
  call.n = problem.n();
  call.k = problem.k();
  call.batch_count = problem.d.batch_count;
  call.transpose_a = problem.transposes_a();
  call.transpose_b = problem.transposes_b();
  call.a_type = problem.a.type;
  call.b_type = problem.b.type;
  call.c_type = problem.c.type;
  call.d_type = problem.d.type;
  call.compute = static_cast<cublasComputeType_t>(problem.desc.compute);
  call.epilogue = static_cast<cublasLtEpilogue_t>(problem.desc.epilogue);
  call.alpha = scalar(problem.desc.scale, alpha);
  call.beta = scalar(problem.desc.scale, beta);
  call.a_batch_stride = problem.a.batch_stride;
  call.b_batch_stride = problem.b.batch_stride;
  call.c_batch_stride = problem.c.batch_stride;
  call.d_batch_stride = problem.d.batch_stride;
  call.workspace_bytes = operands.workspace_bytes;
  const std::lock_guard lock(calls_mutex);
  calls.push_back(call);
}

bool is_live_handle(cublasLtHandle_t handle) {
  return handle != nullptr && handle->cookie == handle_cookie;
}

}  // namespace

std::vector<MatmulCall> matmul_calls() {
  const std::lock_guard lock(calls_mutex);
  return calls;
}

void clear_matmul_calls() {
  const std::lock_guard lock(calls_mutex);
  calls.clear();
}

}  // namespace autopar::emulation

using namespace autopar::emulation;

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new cublasLtContext{handle_cookie};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  if (!is_live_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->cookie = 0;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
#define NAME(value) \
  case value:       \
    return #value
    NAME(CUBLAS_STATUS_SUCCESS);
    NAME(CUBLAS_STATUS_NOT_INITIALIZED);
    NAME(CUBLAS_STATUS_ALLOC_FAILED);
    NAME(CUBLAS_STATUS_INVALID_VALUE);
    NAME(CUBLAS_STATUS_ARCH_MISMATCH);
    NAME(CUBLAS_STATUS_MAPPING_ERROR);
    NAME(CUBLAS_STATUS_EXECUTION_FAILED);
    NAME(CUBLAS_STATUS_INTERNAL_ERROR);
    NAME(CUBLAS_STATUS_NOT_SUPPORTED);
    NAME(CUBLAS_STATUS_LICENSE_ERROR);
#undef NAME
  }
  return "CUBLAS_STATUS_UNKNOWN";
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "the functionality requested is not supported";
    default:
      return cublasLtGetStatusName(status);
  }
}

std::size_t cublasLtGetVersion() { return 130100; }
std::size_t cublasLtGetCudartVersion() { return 13000; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  if (rows == 0 || cols == 0 || ld <= 0) return CUBLAS_STATUS_INVALID_VALUE;
  Layout state;
  state.type = type;
  state.rows = rows;
  state.cols = cols;
  state.ld = ld;
  return create(layout, state);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy<Layout>(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* value, std::size_t bytes) {
  return set_attribute<Layout>(layout, layout_fields, attribute, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                void* value, std::size_t bytes,
                                                std::size_t* bytes_written) {
  return get_attribute<Layout>(layout, layout_fields, attribute, value, bytes, bytes_written);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  Desc state;
  state.compute = compute;
  state.scale = scale;
  return create(desc, state);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy<Desc>(desc); }

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  return set_attribute<Desc>(desc, desc_fields, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute, void* value,
                                              std::size_t bytes, std::size_t* bytes_written) {
  return get_attribute<Desc>(desc, desc_fields, attribute, value, bytes, bytes_written);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference, Preference());
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy<Preference>(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  return set_attribute<Preference>(preference, preference_fields, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    void* value, std::size_t bytes,
                                                    std::size_t* bytes_written) {
  return get_attribute<Preference>(preference, preference_fields, attribute, value, bytes,
                                   bytes_written);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  if (returned == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *returned = 0;
  if (!is_live_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (requested < 1 || results == nullptr || !is_live<Preference>(preference)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const std::optional<Problem> problem = load_problem(desc, a, b, c, d);
  if (!problem || !is_consistent(*problem)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_supported(*problem)) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const Algo& algo : find_algos(*problem, load<Preference>(preference))) {
    if (*returned == requested) break;
    cublasLtMatmulHeuristicResult_t& result = results[(*returned)++];
    result = {};
    store(&result.algo, algo);
    result.workspaceSize = algo.workspace;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t workspace_bytes, cudaStream_t stream) {
  if (!is_live_handle(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!alpha || !a || !b || !beta || !c || !d) return CUBLAS_STATUS_INVALID_VALUE;
  const std::optional<Problem> problem = load_problem(desc, a_layout, b_layout, c_layout, d_layout);
  if (!problem || !is_consistent(*problem)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_supported(*problem)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (c == d && problem->c != problem->d) return CUBLAS_STATUS_INVALID_VALUE;
  const void* bias = problem->desc.bias;
  const bool has_bias = problem->desc.has(CUBLASLT_EPILOGUE_BIAS);
  if (has_bias && bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;

  const std::array<const void*, 5> pointers = {a, b, c, d, has_bias ? bias : nullptr};
  Algo chosen;
  if (algo == nullptr) {
    Preference preference;
    preference.max_workspace = workspace == nullptr ? 0 : workspace_bytes;
    for (int i = 0; i < 4; ++i) preference.alignment[i] = alignment_of(pointers[i]);
    chosen = find_algos(*problem, preference).front();
  } else {
    chosen = load<Algo>(algo);
    if (chosen.cookie != algo_cookie || chosen.problem != fingerprint(*problem)) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  // Where the real library would have the device read or write elsewhere, and fail much later.
  Layout bias_layout = problem->d;
  bias_layout.cols = 1;
  bias_layout.batch_stride = problem->desc.bias_batch_stride;
  const std::array<Layout, 5> layouts = {problem->a, problem->b, problem->c, problem->d,
                                         bias_layout};
  const int device = device_of(stream);
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    if (pointers[i] == nullptr) continue;
    const std::size_t element = size_of(layouts[i].type);
    const std::size_t needed = std::max<std::size_t>(chosen.alignment[i], element);
    if (alignment_of(pointers[i]) < needed ||
        !is_device_memory(pointers[i], layouts[i].extent() * element, device)) {
      return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  if (problem->is_int8() && std::ranges::any_of(pointers, [](const void* pointer) {
        return alignment_of(pointer) < 4;
      })) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (chosen.workspace > 0 &&
      (workspace == nullptr || workspace_bytes < chosen.workspace ||
       alignment_of(workspace) < 256 || !is_device_memory(workspace, chosen.workspace, device))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }

  if (load_code(device, chosen.problem, "cuBLASLt's code for a product") != cudaSuccess) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  const Operands operands = {a, b, c, d, workspace, chosen.workspace};
  if (enqueue(stream, product(*problem, operands, alpha, beta)) != cudaSuccess) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  record(*problem, operands, alpha, beta);
  return CUBLAS_STATUS_SUCCESS;
}
