// Products by cuBLASLt. It has matrices by columns, so a row-major result is made as its transpose,
// of the transposed operands in the other order: then a bias is one number a row, as cuBLASLt adds
// it.

#include <cublasLt.h>

#include <algorithm>
#include <limits>
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

/// What cuBLASLt calls a type, and what it computes in.
struct BlasTypes {
  cudaDataType_t element;
  cudaDataType_t scale;
  cublasComputeType_t compute;
};

std::optional<BlasTypes> blas_types(DataType type, bool allows_tf32) {
  switch (type) {
    case DataType::float32:
      return BlasTypes{CUDA_R_32F, CUDA_R_32F,
                       allows_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
    case DataType::float16:
      return BlasTypes{CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DataType::bfloat16:
      return BlasTypes{CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case DataType::float64:
      return BlasTypes{CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
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

/// Where the copy of an operand lies that cuBLASLt cannot read or write as it is.
struct Staged {
  std::unique_ptr<StridedCopy> copy;
  std::int64_t scratch_offset = 0;
};

/// Scratch memory is aligned to 64 bytes, a workspace to 256.
constexpr std::int64_t scratch_alignment = 64;
constexpr std::int64_t workspace_alignment = 256;

class CublasProduct final : public DeviceProduct {
 public:
  CublasProduct(const ProductRequest& request, const BlasTypes& types)
      : device_(request.device),
        node_(request.node),
        type_(request.type),
        types_(types),
        element_bytes_(graph::bits_of(request.type) / 8),
        product_(request.product),
        out_elements_(graph::num_elements(product_.batches) * product_.rows * product_.columns),
        alpha_double_(product_.alpha) {
    stage_operands();
    merge_batches(product_);
    plan_batches(request);
    if (!plan_with_epilogue() && !plan_without_epilogue())
      fail("node '{}': {} has no algorithm in cuBLASLt", node_, description());
  }

  std::int64_t scratch_bytes() const override {
    return workspace_bytes_ == 0
               ? staged_bytes_
               : staged_bytes_ + workspace_bytes_ + workspace_alignment - scratch_alignment;
  }

  void run(const ProductData& data, std::byte* scratch, cudaStream_t stream) override {
    const std::byte* a = staged(staged_a_, data.a, scratch, stream);
    const std::byte* b = staged(staged_b_, data.b, scratch, stream);
    std::byte* out = staged_out_.copy ? scratch + staged_out_.scratch_offset : data.out;
    if (spread_c_) spread_c_->run(data.c, out, stream);
    if (bias_in_epilogue_) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(data.c));
    for (const Offsets& offsets : calls_) {
      std::byte* d = out + offsets.out;
      const std::byte* c = c_is_operand_ ? data.c + offsets.c : d;
      multiply(a + offsets.a, b + offsets.b, c, d, workspace(scratch), stream);
    }
    if (staged_out_.copy) staged_out_.copy->run(out, data.out, stream);
    activate(activation_after_, type_, data.out, out_elements_, stream);
  }

 private:
  /// Bytes from the first matrices to those of one call.
  struct Offsets {
    std::int64_t a = 0;
    std::int64_t b = 0;
    std::int64_t c = 0;
    std::int64_t out = 0;
  };

  // ---- What is copied before and after
  // -----------------------------------------------------------

  void stage_operands() {
    const Product& p = product_;
    if (!blas_layout(p.a, p.rows, p.depth)) stage(staged_a_, product_.a, p.rows, p.depth, false);
    if (!blas_layout(p.b, p.depth, p.columns))
      stage(staged_b_, product_.b, p.depth, p.columns, false);
    if (!blas_layout(p.out, p.rows, p.columns))
      stage(staged_out_, product_.out, p.rows, p.columns, true);
  }

  /// Gives the matrices a place in scratch memory, where they lie row by row.
  void stage(Staged& staged, MatrixLayout& layout, std::int64_t rows, std::int64_t columns,
             bool is_result) {
    Shape shape = product_.batches;
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (layout.batch_strides[d] == 0) shape[d] = 1;
    shape.insert(shape.end(), {rows, columns});
    std::vector<std::int64_t> from = layout.batch_strides;
    from.insert(from.end(), {layout.row_stride, layout.column_stride});
    std::vector<std::int64_t> to = row_major_strides(shape);
    for (std::size_t d = 0; d < product_.batches.size(); ++d)
      if (layout.batch_strides[d] != 0) layout.batch_strides[d] = to[d];
    layout.row_stride = columns;
    layout.column_stride = 1;
    if (is_result) std::swap(from, to);
    staged.copy = device_.make_strided_copy(shape, from, to, element_bytes_);
    staged.scratch_offset = staged_bytes_;
    staged_bytes_ += graph::aligned(graph::num_elements(shape) * element_bytes_);
  }

  static const std::byte* staged(const Staged& staged, const std::byte* data, std::byte* scratch,
                                 cudaStream_t stream) {
    if (!staged.copy) return data;
    staged.copy->run(data, scratch + staged.scratch_offset, stream);
    return scratch + staged.scratch_offset;
  }

  // ---- Batches
  // -----------------------------------------------------------------------------------

  /// The longest batch dimension is one call's; the others are a call each.
  void plan_batches(const ProductRequest& request) {
    const Shape& batches = product_.batches;
    Shape outer = batches;
    if (!batches.empty()) {
      batch_ = static_cast<std::size_t>(std::ranges::max_element(batches) - batches.begin());
      outer[*batch_] = 1;
    }
    for (std::int64_t i = 0; i < graph::num_elements(outer); ++i) {
      const auto offset = [&](const MatrixLayout& layout) {
        return batch_offset(outer, layout.batch_strides, i) * element_bytes_;
      };
      calls_.push_back({offset(product_.a), offset(product_.b),
                        product_.c ? offset(*product_.c) : 0, offset(product_.out)});
    }
    out_alignment_ = staged_out_.copy ? scratch_alignment : request.out_alignment;
    b_alignment_ = staged_b_.copy ? scratch_alignment : request.b_alignment;
  }

  std::int32_t batch_count() const {
    return batch_ ? static_cast<std::int32_t>(product_.batches[*batch_]) : 1;
  }

  // ---- Plans ------------------------------------------------------------------------------------

  /// A bias, and then the activation that cuBLASLt has. It has neither in float64, and its GELU is
  /// the one by tanh, too coarse for float32.
  bool plan_with_epilogue() {
    if (types_.scale != CUDA_R_32F) return false;
    const bool is_exact = type_ == DataType::float32 && !device_.allows_tf32();
    unsigned activation = 0;
    if (product_.activation == Activation::relu) activation = CUBLASLT_EPILOGUE_RELU;
    if (product_.activation == Activation::gelu_tanh && !is_exact)
      activation = CUBLASLT_EPILOGUE_GELU;
    const bool has_bias = product_.has_bias() && product_.beta == 1 && out_layout().by_rows;
    const unsigned epilogue = activation | (has_bias ? unsigned{CUBLASLT_EPILOGUE_BIAS} : 0U);
    return epilogue != 0 && plan(epilogue, has_bias);
  }

  bool plan_without_epilogue() { return plan(CUBLASLT_EPILOGUE_DEFAULT, false); }

  /// False where cuBLASLt has no algorithm for it.
  bool plan(unsigned epilogue, bool has_bias) {
    bias_in_epilogue_ = has_bias;
    const bool activates = (epilogue & (CUBLASLT_EPILOGUE_RELU | CUBLASLT_EPILOGUE_GELU)) != 0;
    activation_after_ = activates ? Activation::none : product_.activation;
    const bool has_c = product_.c && !has_bias;
    c_is_operand_ = has_c && reads_c();
    spread_c_ = has_c && !c_is_operand_ ? make_spread() : nullptr;
    beta_ = has_c ? product_.beta : 0;
    beta_double_ = beta_;
    describe(epilogue);
    return find_algorithm();
  }

  BlasLayout out_layout() const {
    return *blas_layout(product_.out, product_.rows, product_.columns);
  }

  /// Whether c is a matrix that cuBLASLt can read beside the result.
  bool reads_c() const {
    const MatrixLayout& c = *product_.c;
    const auto layout = blas_layout(c, product_.rows, product_.columns);
    return layout && layout->by_rows == out_layout().by_rows &&
           std::ranges::find(c.batch_strides, 0) == c.batch_strides.end();
  }

  /// Else it is spread over the result, and added from there.
  std::unique_ptr<StridedCopy> make_spread() const {
    const auto strides = [](const MatrixLayout& layout) {
      std::vector<std::int64_t> result = layout.batch_strides;
      result.insert(result.end(), {layout.row_stride, layout.column_stride});
      return result;
    };
    Shape shape = product_.batches;
    shape.insert(shape.end(), {product_.rows, product_.columns});
    return device_.make_strided_copy(shape, strides(*product_.c), strides(product_.out),
                                     element_bytes_);
  }

  void describe(unsigned epilogue) {
    cublasLtMatmulDesc_t description = nullptr;
    check(cublasLtMatmulDescCreate(&description, types_.compute, types_.scale));
    description_.reset(description);
    const BlasLayout a = *blas_layout(product_.a, product_.rows, product_.depth);
    const BlasLayout b = *blas_layout(product_.b, product_.depth, product_.columns);
    const bool is_swapped = out_layout().by_rows;
    // What lies by rows is its own transpose by columns.
    const auto operation = [&](const BlasLayout& layout) {
      return static_cast<std::int32_t>(layout.by_rows == is_swapped ? CUBLAS_OP_N : CUBLAS_OP_T);
    };
    set(CUBLASLT_MATMUL_DESC_TRANSA, operation(is_swapped ? b : a));
    set(CUBLASLT_MATMUL_DESC_TRANSB, operation(is_swapped ? a : b));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{epilogue});
    if (bias_in_epilogue_) {
      // The search for an algorithm reads of the pointer how it is aligned.
      const auto aligned = static_cast<std::uintptr_t>(scratch_alignment);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, reinterpret_cast<const void*>(aligned));
    }
    a_layout_ = make_layout(product_.a, a, product_.rows, product_.depth);
    b_layout_ = make_layout(product_.b, b, product_.depth, product_.columns);
    out_layout_ = make_layout(product_.out, out_layout(), product_.rows, product_.columns);
    const MatrixLayout& c = c_is_operand_ ? *product_.c : product_.out;
    c_layout_ = make_layout(c, *blas_layout(c, product_.rows, product_.columns), product_.rows,
                            product_.columns);
  }

  Layout make_layout(const MatrixLayout& layout, const BlasLayout& blas, std::int64_t rows,
                     std::int64_t columns) const {
    if (!blas.by_rows) std::swap(rows, columns);
    cublasLtMatrixLayout_t made = nullptr;
    check(cublasLtMatrixLayoutCreate(&made, types_.element, static_cast<std::uint64_t>(columns),
                                     static_cast<std::uint64_t>(rows), blas.leading));
    Layout owned(made);
    const std::int32_t count = batch_count();
    const std::int64_t stride = batch_ ? layout.batch_strides[*batch_] : 0;
    check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                           sizeof count));
    check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                           &stride, sizeof stride));
    return owned;
  }

  /// The first that cuBLASLt's own heuristic names, so that every run gives the same bits. Sums
  /// that are split are put together in the type that they are computed in, never in a half type.
  bool find_algorithm() {
    cublasLtMatmulPreference_t made = nullptr;
    check(cublasLtMatmulPreferenceCreate(&made));
    const Preference preference(made);
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
      check(cublasLtMatmulPreferenceSetAttribute(made, attribute, &value, sizeof value));
    };
    const bool is_swapped = out_layout().by_rows;
    const std::uint32_t of_a = alignment_of(product_.a, scratch_alignment);
    const std::uint32_t of_b = alignment_of(product_.b, b_alignment_);
    const std::uint32_t of_out = alignment_of(product_.out, out_alignment_);
    const std::uint32_t of_c =
        c_is_operand_ ? alignment_of(*product_.c, scratch_alignment) : of_out;
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace());
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, is_swapped ? of_b : of_a);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, is_swapped ? of_a : of_b);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of_c);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_out);
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        device_.cublas(), description_.get(), left_layout(), right_layout(), c_layout_.get(),
        out_layout_.get(), made, 1, &result, &found);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
    check(status);
    if (found == 0 || result.state != CUBLAS_STATUS_SUCCESS) return false;
    algorithm_ = result.algo;
    workspace_bytes_ = static_cast<std::int64_t>(result.workspaceSize);
    return true;
  }

  /// cuBLAS's own default.
  std::uint64_t most_workspace() const {
    constexpr std::uint64_t mib = 1 << 20;
    return device_.properties().major >= 9 ? 32 * mib : 4 * mib;
  }

  /// The alignment that all matrices of all batches have.
  std::uint32_t alignment_of(const MatrixLayout& layout, std::int64_t first) const {
    for (const std::int64_t stride : layout.batch_strides)
      first = std::gcd(first, stride * element_bytes_);
    return static_cast<std::uint32_t>(first);
  }

  // ---- Runs
  // --------------------------------------------------------------------------------------

  cublasLtMatrixLayout_t left_layout() const {
    return out_layout().by_rows ? b_layout_.get() : a_layout_.get();
  }
  cublasLtMatrixLayout_t right_layout() const {
    return out_layout().by_rows ? a_layout_.get() : b_layout_.get();
  }

  void multiply(const std::byte* a, const std::byte* b, const std::byte* c, std::byte* d,
                std::byte* workspace, cudaStream_t stream) const {
    const bool is_double = types_.scale == CUDA_R_64F;
    const void* alpha = is_double ? static_cast<const void*>(&alpha_double_) : &product_.alpha;
    const void* beta = is_double ? static_cast<const void*>(&beta_double_) : &beta_;
    const bool is_swapped = out_layout().by_rows;
    check(cublasLtMatmul(device_.cublas(), description_.get(), alpha, is_swapped ? b : a,
                         left_layout(), is_swapped ? a : b, right_layout(), beta, c,
                         c_layout_.get(), d, out_layout_.get(), &algorithm_, workspace,
                         static_cast<std::size_t>(workspace_bytes_), stream));
  }

  std::byte* workspace(std::byte* scratch) const {
    if (workspace_bytes_ == 0) return nullptr;
    const auto address = reinterpret_cast<std::uintptr_t>(scratch + staged_bytes_);
    const std::uintptr_t alignment = workspace_alignment;
    return reinterpret_cast<std::byte*>((address + alignment - 1) / alignment * alignment);
  }

  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check(cublasLtMatmulDescSetAttribute(description_.get(), attribute, &value, sizeof value));
  }

  std::string description() const {
    return fmt::format("the product {} x {} x {} of {} in {} batches", product_.rows,
                       product_.depth, product_.columns, name_of(type_),
                       graph::num_elements(product_.batches));
  }

  void check(cublasStatus_t status) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    fail("node '{}': {} failed in cuBLASLt: {}", node_, description(),
         cublasLtGetStatusName(status));
  }

  CudaDevice& device_;
  std::string node_;
  DataType type_;
  BlasTypes types_;
  int element_bytes_;
  Product product_;
  std::int64_t out_elements_;

  Staged staged_a_;
  Staged staged_b_;
  Staged staged_out_;
  std::int64_t staged_bytes_ = 0;

  std::optional<std::size_t> batch_;  ///< the dimension that is one call's
  std::vector<Offsets> calls_;
  std::int64_t out_alignment_ = 0;
  std::int64_t b_alignment_ = 0;

  bool bias_in_epilogue_ = false;
  Activation activation_after_ = Activation::none;
  bool c_is_operand_ = false;
  std::unique_ptr<StridedCopy> spread_c_;
  double alpha_double_;
  float beta_ = 0;
  double beta_double_ = 0;

  Description description_;
  Layout a_layout_;
  Layout b_layout_;
  Layout c_layout_;
  Layout out_layout_;
  cublasLtMatmulAlgo_t algorithm_{};
  std::int64_t workspace_bytes_ = 0;
};

}  // namespace

std::unique_ptr<DeviceProduct> make_cublas_product(const ProductRequest& request) {
  const auto types = blas_types(request.type, request.device.allows_tf32());
  if (!types) return nullptr;
  return std::make_unique<CublasProduct>(request, *types);
}

}  // namespace autopar::runtime::cuda
