// Products by constant matrices in float32 where the processor has AVX2 alone. oneDNN 2 keeps
// weights in blocks there for convolutions only: its products copy B into blocks in each run, and
// where B's rows are a power of two apart, this takes as long as the product.

#include <algorithm>
#include <optional>
#include <string_view>

#include "runtime/kernels/cpu/onednn.h"
#include "runtime/kernels/product/kernels.h"
#include "runtime/kernels/product/onednn_product.h"
#include "runtime/kernels/product/row_by_blocks.h"

namespace autopar::runtime::cpu {
namespace {

using dnnl::memory;

constexpr std::int64_t block = narrow_block;

/// The product as a convolution of an image one element wide by windows of one element: A's rows
/// are its places, and its channels are summed over.
dnnl::convolution_forward::primitive_desc describe_as_convolution(const Product& product,
                                                                  std::int64_t rows) {
  const auto image = [&](std::int64_t channels) {
    return channels_last_layout({1, channels, rows, 1});
  };
  const memory::dims once = {1, 1};
  const memory::dims nothing = {0, 0};
  return describe_primitive<dnnl::convolution_forward>(
      user_scratchpad(), dnnl::prop_kind::forward_inference, dnnl::algorithm::convolution_direct,
      image(product.depth),
      onednn::any_layout(float_layout({product.columns, product.depth, 1, 1})),
      product.c ? float_layout({product.columns}) : memory::desc(), image(product.columns), once,
      nothing, nothing, nothing);
}

/// The layout of B, [depth, columns], in columns of blocks of 8 by 8, if the convolution has it so.
std::optional<memory::desc> blocked_layout(
    const dnnl::convolution_forward::primitive_desc& convolution, const Product& product) {
  if (!std::string_view(convolution.impl_info_str()).starts_with("jit_1x1")) return std::nullopt;
  const memory::desc matrix =
      convolution.weights_desc().reshape({product.columns, product.depth}).permute_axes({1, 0});
  const onednn::Layout layout = onednn::layout_of(matrix);
  const bool is_blocked =
      layout.inner_blocks == memory::dims{block, block} &&
      layout.inner_dims == memory::dims{0, 1} &&
      layout.strides == memory::dims{block * block, layout.padded_dims[0] * block};
  return is_blocked ? std::optional(matrix) : std::nullopt;
}

class BlockedMatMul final : public Kernel {
 public:
  /// `blocks`: B as the convolution reads it.
  BlockedMatMul(const Product& product, int threads,
                const dnnl::convolution_forward::primitive_desc& convolution,
                std::shared_ptr<std::byte> blocks)
      : product_(product), threads_(threads), blocks_(std::move(blocks)) {
    std::vector<int> arguments = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    if (product.c) arguments.push_back(DNNL_ARG_BIAS);
    if (product.rows > 1) convolution_ = OnednnPrimitive(convolution, arguments);
  }

  bool reads(std::size_t input) const override { return input != 1; }

  std::int64_t scratch_bytes() const override { return convolution_.scratch_bytes(); }

  void run(const KernelIo& io) override {
    const auto* const row = io.inputs[0].as<const float>();
    const float* const bias = product_.c ? io.inputs[2].as<const float>() : nullptr;
    auto* const out = io.outputs[0].as<float>();
    if (product_.rows == 1) {
      const auto* const blocks = reinterpret_cast<const float*>(blocks_.get());
      const std::int64_t padded_depth = (product_.depth + block - 1) / block * block;
      return multiply_row({row, blocks, bias, out, product_.depth, padded_depth, product_.columns},
                          block, threads_);
    }
    if (product_.c) convolution_.bind(DNNL_ARG_BIAS, bias);
    convolution_.bind(DNNL_ARG_SRC, row);
    convolution_.bind(DNNL_ARG_WEIGHTS, blocks_.get());
    convolution_.bind(DNNL_ARG_DST, out);
    convolution_.run(io.scratch);
  }

 private:
  Product product_;
  int threads_;
  std::shared_ptr<std::byte> blocks_;
  OnednnPrimitive convolution_;  ///< of several rows
};

}  // namespace

bool can_be_blocked(const KernelRequest& request, const Product& product) {
  const auto is_float32 = [](const TensorView& view) {
    return !view.present() || view.type == DataType::float32;
  };
  const bool lies_in_rows = product.a.row_stride == product.depth && product.a.column_stride == 1 &&
                            product.out.row_stride == product.columns;
  const bool adds_bias_alone =
      product.alpha == 1 && (!product.c || (product.has_bias() && product.beta == 1));
  return request.may_replace(1) && request.constants.size() > 1 &&
         std::ranges::all_of(request.inputs, is_float32) && product.depth > 0 &&
         !product.is_empty() && graph::num_elements(product.batches) == 1 && lies_in_rows &&
         adds_bias_alone;
}

std::unique_ptr<Kernel> make_blocked_matmul(const KernelRequest& request, const Product& product) {
  const graph::Tensor& weights = *request.constants[1];
  try {
    // A single row reads the same layout, so that one copy of the weights serves any number of
    // rows.
    const auto convolution =
        describe_as_convolution(product, std::max<std::int64_t>(product.rows, 2));
    const auto layout = blocked_layout(convolution, product);
    const auto most_bytes = weights.size_bytes() + weights.size_bytes() / 32;
    if (!layout || static_cast<std::int64_t>(layout->get_size()) > most_bytes) return nullptr;
    const memory::desc stored(
        {product.depth, product.columns}, memory::data_type::f32,
        {product.b.row_stride, product.columns == 1 ? 1 : product.b.column_stride});
    auto blocks =
        request.kept(1, form_of(stored, *layout), static_cast<std::int64_t>(layout->get_size()),
                     [&] { return reordered_copy(request.device, stored, weights, *layout); });
    if (blocks == nullptr) return nullptr;
    return std::make_unique<BlockedMatMul>(product, request.device.threads(), convolution,
                                           std::move(blocks));
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

}  // namespace autopar::runtime::cpu
