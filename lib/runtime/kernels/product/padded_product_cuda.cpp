// Results whose rows have no alignment: GPT-2's 50,257 logits. cuBLASLt's fast kernels write 16
// bytes at once, and for such rows it takes one of those that do not. So rows are computed some at
// a time into scratch memory, where each begins at a multiple of 16 bytes, and copied to their
// place.

#include <algorithm>

#include "graph/arena.h"
#include "runtime/kernels/common/element_types.h"
#include "runtime/kernels/product/device_product_cuda.h"

namespace autopar::runtime::cuda {
namespace {

constexpr std::int64_t alignment = 16;  ///< bytes
constexpr std::int64_t least_rows = 256;
constexpr std::int64_t least_columns = 1024;
constexpr std::int64_t least_depth = 64;
/// Scratch memory is to stay small beside the result.
constexpr std::int64_t least_turns = 8;
constexpr std::int64_t most_padded_bytes = std::int64_t{128} << 20;

bool serves(const Product& product, std::int64_t element_bytes) {
  const bool has_rows = product.out.column_stride == 1 && product.batches.empty() &&
                        (!product.c || product.has_bias()) &&
                        product.activation == Activation::none;
  const bool is_large = product.rows >= least_rows && product.columns >= least_columns &&
                        product.depth >= least_depth;
  return has_rows && is_large && product.out.row_stride * element_bytes % alignment != 0;
}

class PaddedProduct final : public DeviceProduct {
 public:
  PaddedProduct(const ProductRequest& request, std::int64_t element_bytes)
      : rows_(request.product.rows),
        a_row_bytes_(request.product.a.row_stride * element_bytes),
        out_row_bytes_(request.product.out.row_stride * element_bytes) {
    const std::int64_t columns = request.product.columns;
    const std::int64_t elements_aligned = alignment / element_bytes;
    const std::int64_t padded =
        (columns + elements_aligned - 1) / elements_aligned * elements_aligned;
    rows_at_once_ =
        std::clamp(std::min(most_padded_bytes / (padded * element_bytes), rows_ / least_turns),
                   least_rows, rows_);
    ProductRequest some = request;
    some.product.rows = rows_at_once_;
    some.product.out.row_stride = padded;
    some.out_alignment = scratch_alignment;
    padded_bytes_ = graph::aligned(rows_at_once_ * padded * element_bytes);
    product_ = make_cublas_product(some);
    copy_ = request.device.make_strided_copy({rows_at_once_, columns}, {padded, 1},
                                             {request.product.out.row_stride, 1},
                                             static_cast<int>(element_bytes));
  }

  std::int64_t scratch_bytes() const override { return padded_bytes_ + product_->scratch_bytes(); }

  /// The last rows are as many as the others: some of them are computed twice.
  void run(const ProductData& data, std::byte* scratch, cudaStream_t stream) override {
    for (std::int64_t done = 0; done < rows_; done += rows_at_once_) {
      const std::int64_t row = std::min(done, rows_ - rows_at_once_);
      ProductData some = data;
      some.a += row * a_row_bytes_;
      some.out = scratch;
      product_->run(some, scratch + padded_bytes_, stream);
      copy_->run(scratch, data.out + row * out_row_bytes_, stream);
    }
  }

 private:
  static constexpr int scratch_alignment = 64;

  std::int64_t rows_;
  std::int64_t rows_at_once_ = 0;
  std::int64_t a_row_bytes_;
  std::int64_t out_row_bytes_;
  std::int64_t padded_bytes_ = 0;
  std::unique_ptr<DeviceProduct> product_;
  std::unique_ptr<StridedCopy> copy_;
};

}  // namespace

std::unique_ptr<DeviceProduct> make_padded_product(const ProductRequest& request) {
  if (!is_half(request.type)) return nullptr;
  const std::int64_t element_bytes = graph::bits_of(request.type) / 8;
  if (!serves(request.product, element_bytes)) return nullptr;
  return std::make_unique<PaddedProduct>(request, element_bytes);
}

}  // namespace autopar::runtime::cuda
