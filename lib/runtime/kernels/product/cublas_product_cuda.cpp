// Products by cuBLASLt. It has matrices by columns, so a row-major result is made as its transpose,
// of the transposed operands in the other order: then a bias is one number a row, as cuBLASLt adds
// it.

#include <cublasLt.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/arena.h"
#include "runtime/kernels/product/device_product_cuda.h"

namespace autopar::runtime::cuda {
namespace {

using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// What cuBLASLt calls the types of operands and of results, and what it computes in.
struct BlasTypes {
  cudaDataType_t element;
  cudaDataType_t result;
  cudaDataType_t scale;
  cublasComputeType_t compute;
};

std::optional<BlasTypes> blas_types(DataType type, bool allows_tf32) {
  switch (type) {
    case DataType::float32:
      return BlasTypes{CUDA_R_32F, CUDA_R_32F, CUDA_R_32F,
                       allows_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
    case DataType::float16:
      return BlasTypes{CUDA_R_16F, CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DataType::bfloat16:
      return BlasTypes{CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DataType::float64:
      return BlasTypes{CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
    case DataType::int8:
      return BlasTypes{CUDA_R_8I, CUDA_R_32I, CUDA_R_32I, CUBLAS_COMPUTE_32I};
    default:
      return std::nullopt;
  }
}

/// Matrices that cuBLASLt can read: vectors of neighbouring elements, `leading` apart.
struct BlasLayout {
  bool by_rows = true;
  std::int64_t leading = 0;
};

std::optional<std::int64_t> leading_by_rows(std::int64_t rows, std::int64_t columns,
                                            std::int64_t row_stride, std::int64_t column_stride) {
  if (columns > 1 && column_stride != 1) return std::nullopt;
  if (rows == 1) return columns;
  return row_stride >= columns ? std::optional(row_stride) : std::nullopt;
}

std::optional<BlasLayout> blas_layout(const MatrixLayout& layout, std::int64_t rows,
                                      std::int64_t columns) {
  if (auto leading = leading_by_rows(rows, columns, layout.row_stride, layout.column_stride))
    return BlasLayout{true, *leading};
  if (auto leading = leading_by_rows(columns, rows, layout.column_stride, layout.row_stride))
    return BlasLayout{false, *leading};
  return std::nullopt;
}

/// Scratch memory is aligned to 64 bytes, a workspace to 256.
constexpr std::int64_t scratch_alignment = 64;
constexpr std::int64_t workspace_alignment = 256;

/// A product as cuBLASLt takes it.
struct BlasProduct {
  CudaDevice& device;
  BlasTypes types;
  DataType type;
  int element_bytes;
  int result_bytes;  ///< of an element of the result and of c
  Product product;
  std::int64_t out_alignment;
  std::int64_t b_alignment;
  std::string what = {};                  ///< for messages
  std::int64_t staged_bytes = 0;          ///< of scratch memory
  std::optional<std::size_t> batch = {};  ///< the dimension that is one call's

  BlasLayout a_layout() const { return *blas_layout(product.a, product.rows, product.depth); }
  BlasLayout b_layout() const { return *blas_layout(product.b, product.depth, product.columns); }
  BlasLayout out_layout() const { return *blas_layout(product.out, product.rows, product.columns); }
  /// Whether the transposed product is made.
  bool is_swapped() const { return out_layout().by_rows; }

  void check(cublasStatus_t status) const {
    if (status != CUBLAS_STATUS_SUCCESS)
      fail("{} failed in cuBLASLt: {}", what, cublasLtGetStatusName(status));
  }
  template <typename T>
  void set(const Description& description, cublasLtMatmulDescAttributes_t attribute,
           const T& value) const {
    check(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof value));
  }
};

// ---- What is copied before and after -----------------------------------------------------------

/// The copy of an operand that cuBLASLt cannot read or write as it is; null where it can.
struct Staged {
  std::unique_ptr<StridedCopy> copy;
  std::int64_t scratch_offset = 0;

  const std::byte* read(const std::byte* data, std::byte* scratch, cudaStream_t stream) const {
    if (!copy) return data;
    copy->run(data, scratch + scratch_offset, stream);
    return scratch + scratch_offset;
  }
};

std::vector<std::int64_t> strides_of(const MatrixLayout& layout) {
  std::vector<std::int64_t> strides = layout.batch_strides;
  strides.insert(strides.end(), {layout.row_stride, layout.column_stride});
  return strides;
}

/// Gives matrices that cuBLASLt cannot take a place in scratch memory, where they lie row by row.
Staged stage(BlasProduct& of, MatrixLayout& layout, std::int64_t rows, std::int64_t columns,
             bool is_result) {
  if (blas_layout(layout, rows, columns)) return {};
  Shape shape = of.product.batches;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (layout.batch_strides[d] == 0) shape[d] = 1;
  shape.insert(shape.end(), {rows, columns});
  std::vector<std::int64_t> from = strides_of(layout);
  std::vector<std::int64_t> to = row_major_strides(shape);
  for (std::size_t d = 0; d < layout.batch_strides.size(); ++d)
    if (layout.batch_strides[d] != 0) layout.batch_strides[d] = to[d];
  layout.row_stride = columns;
  layout.column_stride = 1;
  if (is_result) std::swap(from, to);
  const int element_bytes = is_result ? of.result_bytes : of.element_bytes;
  const std::int64_t bytes = graph::aligned(graph::num_elements(shape) * element_bytes);
  return {of.device.make_strided_copy(shape, from, to, element_bytes),
          std::exchange(of.staged_bytes, of.staged_bytes + bytes)};
}

/// Spreads a c that cuBLASLt cannot read over the result, to be added from there.
std::unique_ptr<StridedCopy> make_spread(const BlasProduct& of) {
  const Product& product = of.product;
  Shape shape = product.batches;
  shape.insert(shape.end(), {product.rows, product.columns});
  return of.device.make_strided_copy(shape, strides_of(*product.c), strides_of(product.out),
                                     of.result_bytes);
}

// ---- Batches -----------------------------------------------------------------------------------

/// Bytes from the first matrices to those of one call.
struct Offsets {
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;
  std::int64_t out = 0;
};

/// The longest batch dimension is one call's; the others are a call each.
std::vector<Offsets> plan_batches(BlasProduct& of) {
  const Product& product = of.product;
  Shape outer = product.batches;
  if (!outer.empty()) {
    of.batch = static_cast<std::size_t>(std::ranges::max_element(outer) - outer.begin());
    outer[*of.batch] = 1;
  }
  std::vector<Offsets> calls;
  for (std::int64_t i = 0; i < graph::num_elements(outer); ++i) {
    const auto offset = [&](const MatrixLayout& layout, int element_bytes) {
      return batch_offset(outer, layout.batch_strides, i) * element_bytes;
    };
    calls.push_back({offset(product.a, of.element_bytes), offset(product.b, of.element_bytes),
                     product.c ? offset(*product.c, of.result_bytes) : 0,
                     offset(product.out, of.result_bytes)});
  }
  return calls;
}

// ---- Plans -------------------------------------------------------------------------------------

/// What one call of cuBLASLt does, and what is left to be done around it.
struct Plan {
  bool bias_in_epilogue = false;
  Activation activation_after = Activation::none;
  bool c_is_operand = false;
  std::unique_ptr<StridedCopy> spread_c;
  float beta = 0;
  Description description;
  Layout left;  ///< the operands in the order in which cuBLASLt multiplies them
  Layout right;
  Layout c;
  Layout out;
  cublasLtMatmulAlgo_t algorithm{};
  std::int64_t workspace_bytes = 0;
};

/// A bias, and then the activation, as far as cuBLASLt has them; 0 for neither. It has none in
/// float64, and its GELU is the one by tanh, too coarse for float32.
unsigned epilogue_of(const BlasProduct& of) {
  if (of.types.scale != CUDA_R_32F) return 0;
  const Product& product = of.product;
  const bool is_exact = of.type == DataType::float32 && !of.device.allows_tf32();
  unsigned epilogue = 0;
  if (product.activation == Activation::relu) epilogue = CUBLASLT_EPILOGUE_RELU;
  if (product.activation == Activation::gelu_tanh && !is_exact) epilogue = CUBLASLT_EPILOGUE_GELU;
  if (product.has_bias() && product.beta == 1 && of.is_swapped())
    epilogue |= unsigned{CUBLASLT_EPILOGUE_BIAS};
  return epilogue;
}

/// Whether c is a matrix that cuBLASLt can read beside the result.
bool reads_c(const BlasProduct& of) {
  const MatrixLayout& c = *of.product.c;
  const auto layout = blas_layout(c, of.product.rows, of.product.columns);
  return layout && layout->by_rows == of.is_swapped() &&
         std::ranges::find(c.batch_strides, 0) == c.batch_strides.end();
}

Layout make_layout(const BlasProduct& of, cudaDataType_t type, const MatrixLayout& layout,
                   std::int64_t rows, std::int64_t columns) {
  const BlasLayout blas = *blas_layout(layout, rows, columns);
  if (!blas.by_rows) std::swap(rows, columns);
  cublasLtMatrixLayout_t made = nullptr;
  of.check(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(columns),
                                      static_cast<std::uint64_t>(rows), blas.leading));
  Layout owned(made);
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, auto value) {
    of.check(cublasLtMatrixLayoutSetAttribute(made, attribute, &value, sizeof value));
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
      of.batch ? static_cast<std::int32_t>(of.product.batches[*of.batch]) : 1);
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
      of.batch ? layout.batch_strides[*of.batch] : std::int64_t{0});
  return owned;
}

void describe(const BlasProduct& of, unsigned epilogue, Plan& plan) {
  cublasLtMatmulDesc_t description = nullptr;
  of.check(cublasLtMatmulDescCreate(&description, of.types.compute, of.types.scale));
  plan.description.reset(description);
  const bool is_swapped = of.is_swapped();
  // What lies by rows is its own transpose by columns.
  const auto operation = [&](const BlasLayout& layout) {
    return static_cast<std::int32_t>(layout.by_rows == is_swapped ? CUBLAS_OP_N : CUBLAS_OP_T);
  };
  const std::int32_t a_operation = operation(of.a_layout());
  const std::int32_t b_operation = operation(of.b_layout());
  of.set(plan.description, CUBLASLT_MATMUL_DESC_TRANSA, is_swapped ? b_operation : a_operation);
  of.set(plan.description, CUBLASLT_MATMUL_DESC_TRANSB, is_swapped ? a_operation : b_operation);
  of.set(plan.description, CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{epilogue});
  if (plan.bias_in_epilogue) {
    // The search for an algorithm reads of the pointer how it is aligned.
    const auto aligned = static_cast<std::uintptr_t>(scratch_alignment);
    of.set(plan.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
           reinterpret_cast<const void*>(aligned));
  }
  const Product& product = of.product;
  plan.left = make_layout(of, of.types.element, product.a, product.rows, product.depth);
  plan.right = make_layout(of, of.types.element, product.b, product.depth, product.columns);
  if (is_swapped) std::swap(plan.left, plan.right);
  plan.c = make_layout(of, of.types.result, plan.c_is_operand ? *product.c : product.out,
                       product.rows, product.columns);
  plan.out = make_layout(of, of.types.result, product.out, product.rows, product.columns);
}

/// Looks for an algorithm: the first that cuBLASLt's own heuristic names, so that every run gives
/// the same bits. Sums that are split are put together in the type that they are computed in, never
/// in a half type. False where cuBLASLt has none.
bool find_algorithm(const BlasProduct& of, Plan& plan) {
  cublasLtMatmulPreference_t made = nullptr;
  of.check(cublasLtMatmulPreferenceCreate(&made));
  const Preference preference(made);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    of.check(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value));
  };
  // What all matrices of all batches have.
  const auto alignment = [&](const MatrixLayout& layout, int element_bytes, std::int64_t first) {
    for (const std::int64_t stride : layout.batch_strides)
      first = std::gcd(first, stride * element_bytes);
    return static_cast<std::uint32_t>(first);
  };
  const Product& product = of.product;
  const bool is_swapped = of.is_swapped();
  const std::uint32_t of_a = alignment(product.a, of.element_bytes, scratch_alignment);
  const std::uint32_t of_b = alignment(product.b, of.element_bytes, of.b_alignment);
  const std::uint32_t of_out = alignment(product.out, of.result_bytes, of.out_alignment);
  constexpr std::uint64_t mib = 1 << 20;  // of workspace: cuBLAS's own defaults
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
         of.device.properties().major >= 9 ? 32 * mib : 4 * mib);
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, is_swapped ? of_b : of_a);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, is_swapped ? of_a : of_b);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
         plan.c_is_operand ? alignment(*product.c, of.result_bytes, scratch_alignment) : of_out);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_out);
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      of.device.cublas(), plan.description.get(), plan.left.get(), plan.right.get(), plan.c.get(),
      plan.out.get(), made, 1, &result, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  of.check(status);
  if (found == 0 || result.state != CUBLAS_STATUS_SUCCESS) return false;
  plan.algorithm = result.algo;
  plan.workspace_bytes = static_cast<std::int64_t>(result.workspaceSize);
  return true;
}

/// nullopt where cuBLASLt has no algorithm for it.
std::optional<Plan> make_plan(const BlasProduct& of, unsigned epilogue) {
  Plan plan;
  plan.bias_in_epilogue = (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
  const bool activates = (epilogue & (CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_GELU)) != 0;
  if (!activates) plan.activation_after = of.product.activation;
  if (of.product.c && !plan.bias_in_epilogue) {
    plan.c_is_operand = reads_c(of);
    if (!plan.c_is_operand) plan.spread_c = make_spread(of);
    plan.beta = of.product.beta;
  }
  describe(of, epilogue, plan);
  return find_algorithm(of, plan) ? std::optional(std::move(plan)) : std::nullopt;
}

/// A factor in the type that cuBLASLt takes it in.
union Scalar {
  Scalar(float value, cudaDataType_t type) : as_float(value) {
    if (type == CUDA_R_64F) as_double = value;
    if (type == CUDA_R_32I) as_integer = static_cast<std::int32_t>(value);
  }
  float as_float;
  double as_double;
  std::int32_t as_integer;
};

// ---- Runs --------------------------------------------------------------------------------------

class CublasProduct final : public DeviceProduct {
 public:
  CublasProduct(const ProductRequest& request, const BlasTypes& types)
      : of_{.device = request.device,
            .types = types,
            .type = request.type,
            .element_bytes = graph::bits_of(request.type) / 8,
            .result_bytes = types.result == CUDA_R_32I ? 4 : graph::bits_of(request.type) / 8,
            .product = request.product,
            .out_alignment = request.out_alignment,
            .b_alignment = request.b_alignment},
        out_elements_(request.product.rows * request.product.columns *
                      graph::num_elements(request.product.batches)) {
    Product& p = of_.product;
    staged_a_ = stage(of_, p.a, p.rows, p.depth, false);
    staged_b_ = stage(of_, p.b, p.depth, p.columns, false);
    staged_out_ = stage(of_, p.out, p.rows, p.columns, true);
    if (staged_b_.copy) of_.b_alignment = scratch_alignment;
    if (staged_out_.copy) of_.out_alignment = scratch_alignment;
    merge_batches(p);
    of_.what =
        fmt::format("node '{}': the product {} x {} x {} of {} in {} batches", request.node, p.rows,
                    p.depth, p.columns, name_of(request.type), graph::num_elements(p.batches));
    calls_ = plan_batches(of_);
    const unsigned epilogue = epilogue_of(of_);
    std::optional<Plan> plan = epilogue != 0 ? make_plan(of_, epilogue) : std::nullopt;
    if (!plan) plan = make_plan(of_, CUBLASLT_EPILOGUE_DEFAULT);
    has_algorithm_ = plan.has_value();
    if (plan) plan_ = std::move(*plan);
  }

  /// Else it cannot run.
  bool has_algorithm() const { return has_algorithm_; }
  const std::string& what() const { return of_.what; }

  std::int64_t scratch_bytes() const override {
    return plan_.workspace_bytes == 0
               ? of_.staged_bytes
               : of_.staged_bytes + plan_.workspace_bytes + workspace_alignment - scratch_alignment;
  }

  void run(const ProductData& data, std::byte* scratch, cudaStream_t stream) override {
    const std::byte* a = staged_a_.read(data.a, scratch, stream);
    const std::byte* b = staged_b_.read(data.b, scratch, stream);
    std::byte* out = staged_out_.copy ? scratch + staged_out_.scratch_offset : data.out;
    if (plan_.spread_c) plan_.spread_c->run(data.c, out, stream);
    if (plan_.bias_in_epilogue)
      of_.set(plan_.description, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
              static_cast<const void*>(data.c));
    const Scalar alpha(of_.product.alpha, of_.types.scale);
    const Scalar beta(plan_.beta, of_.types.scale);
    for (const Offsets& offsets : calls_) {
      const std::byte* left = a + offsets.a;
      const std::byte* right = b + offsets.b;
      if (of_.is_swapped()) std::swap(left, right);
      std::byte* d = out + offsets.out;
      const std::byte* c = plan_.c_is_operand ? data.c + offsets.c : d;
      of_.check(cublasLtMatmul(of_.device.cublas(), plan_.description.get(), &alpha, left,
                               plan_.left.get(), right, plan_.right.get(), &beta, c, plan_.c.get(),
                               d, plan_.out.get(), &plan_.algorithm, workspace(scratch),
                               static_cast<std::size_t>(plan_.workspace_bytes), stream));
    }
    if (staged_out_.copy) staged_out_.copy->run(out, data.out, stream);
    activate(plan_.activation_after, of_.type, data.out, out_elements_, stream);
  }

 private:
  std::byte* workspace(std::byte* scratch) const {
    if (plan_.workspace_bytes == 0) return nullptr;
    const auto address = reinterpret_cast<std::uintptr_t>(scratch + of_.staged_bytes);
    const std::uintptr_t alignment = workspace_alignment;
    return reinterpret_cast<std::byte*>((address + alignment - 1) / alignment * alignment);
  }

  BlasProduct of_;
  std::int64_t out_elements_;
  Staged staged_a_;
  Staged staged_b_;
  Staged staged_out_;
  std::vector<Offsets> calls_;
  bool has_algorithm_ = false;
  Plan plan_;
};

}  // namespace

std::unique_ptr<DeviceProduct> make_cublas_product(const ProductRequest& request) {
  const auto types = blas_types(request.type, request.device.allows_tf32());
  if (!types) return nullptr;
  auto product = std::make_unique<CublasProduct>(request, *types);
  if (product->has_algorithm()) return product;
  if (request.type == DataType::int8) return nullptr;
  fail("{} has no algorithm in cuBLASLt", product->what());
}

}  // namespace autopar::runtime::cuda
