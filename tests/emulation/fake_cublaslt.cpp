// Strict where the real library is documented to be, and where it would silently read or write
// wrong memory: what passes here is meant to pass there.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "cublasLt.h"
#include "emulation.h"
#include "emulation_cublaslt.h"
#include "runtime/kernels/common/half.h"

struct cublasLtContext {
  std::uint64_t cookie;
};

namespace autopar::emulation {

namespace {

using runtime::BFloat16;
using runtime::Float16;

// What lies in the opaque structures. A cookie tells a live one from a destroyed one.

constexpr std::uint64_t handle_cookie = 0x68616e646c65;
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

bool is_operation(std::int32_t value) {
  return value == CUBLAS_OP_N || value == CUBLAS_OP_T || value == CUBLAS_OP_C;
}

/// INVALID_VALUE: the descriptors contradict themselves or one another.
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

/// Whether there is an algorithm at all, whatever the pointers.
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

/// Products with a long sum and a small result split the sum over blocks, where a workspace for
/// their partial sums is allowed: the first, fastest answer. The second does without.
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

struct Operands {
  const void* a;
  const void* b;
  const void* c;
  void* d;
  void* workspace;
  std::size_t workspace_bytes;
};

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

/// The work, by types; one of `supported`.
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
