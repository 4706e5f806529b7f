#include "graph/arena.h"
#include "runtime/kernels/common/kernel_arguments.h"
#include "runtime/kernels/product/onednn_product.h"
#include "runtime/kernels/quantized/byte_matmul.h"
#include "runtime/kernels/quantized/byte_tile.h"
#include "runtime/kernels/quantized/integers.h"
#include "runtime/kernels/quantized/kernels.h"

namespace autopar::runtime::cpu {
namespace {

using dnnl::memory;

constexpr std::size_t scale_input = 2;
constexpr std::size_t a_zero_input = 3;
constexpr std::size_t b_zero_input = 4;

class QuantizedMatMul final : public Kernel {
 public:
  QuantizedMatMul(const KernelRequest& request, const Product& product)
      : shift_(byte_shift(request.inputs[1].type)),
        b_elements_(request.inputs[1].elements()),
        has_a_zero_(is_given(request.inputs, a_zero_input)),
        is_b_zero_given_(is_given(request.inputs, b_zero_input)),
        has_b_zero_(needs_b_zero(request, shift_)) {
    const bool is_constant = request.is_constant(1);
    const memory::desc stored =
        matrices(product, product.b, product.depth, product.columns, memory::data_type::s8);
    const memory::desc wanted = is_constant ? onednn::any_layout(stored) : stored;
    dnnl::primitive_attr attributes = user_scratchpad();
    Shape scale_shape(product.batches.size() + 2, 1);
    scale_shape.back() = request.inputs[scale_input].elements();
    dnnl::post_ops scaling;
    scaling.append_binary(dnnl::algorithm::binary_mul, float_layout(scale_shape));
    attributes.set_post_ops(scaling);
    if (has_a_zero_) onednn::take_zero_point(attributes, DNNL_ARG_SRC);
    if (has_b_zero_) onednn::take_zero_point(attributes, DNNL_ARG_WEIGHTS);
    const auto description = describe_primitive<dnnl::matmul>(
        attributes,
        matrices(product, product.a, product.rows, product.depth,
                 byte_type(request.inputs[0].type)),
        wanted,
        matrices(product, product.out, product.rows, product.columns, memory::data_type::f32));
    matmul_ = OnednnPrimitive(description, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST});
    const memory::desc one({1}, memory::data_type::s32, memory::format_tag::x);
    matmul_.add(scale_argument, float_layout(scale_shape));
    if (has_a_zero_) matmul_.add(a_zero_argument, one);
    if (has_b_zero_) matmul_.add(b_zero_argument, one);
    if (is_constant) kept_weights_ = kept_bytes(request, stored, description.weights_desc());
  }

  std::int64_t scratch_bytes() const override { return matmul_.scratch_bytes() + moved_bytes(); }
  bool reads(std::size_t input) const override { return input != 1 || !kept_weights_; }

  void run(const KernelIo& io) override {
    const std::byte* weights = kept_weights_ ? kept_weights_.get() : io.inputs[1].data;
    if (moved_bytes() != 0) {
      auto* moved = reinterpret_cast<std::int8_t*>(io.scratch + matmul_.scratch_bytes());
      move_down(io.inputs[1].data, moved, b_elements_);
      weights = reinterpret_cast<const std::byte*>(moved);
    }
    if (has_a_zero_) {
      a_zero_ = zero_point(io.inputs[a_zero_input]);
      matmul_.bind(a_zero_argument, &a_zero_);
    }
    if (has_b_zero_) {
      b_zero_ = (is_b_zero_given_ ? zero_point(io.inputs[b_zero_input]) : 0) - shift_;
      matmul_.bind(b_zero_argument, &b_zero_);
    }
    matmul_.bind(scale_argument, io.inputs[scale_input].data);
    matmul_.bind(DNNL_ARG_SRC, io.inputs[0].data);
    matmul_.bind(DNNL_ARG_WEIGHTS, weights);
    matmul_.bind(DNNL_ARG_DST, io.outputs[0].data);
    matmul_.run(io.scratch);
  }

 private:
  static constexpr int scale_argument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1;
  static constexpr int a_zero_argument = DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC;
  static constexpr int b_zero_argument = DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_WEIGHTS;

  /// One that is known to be nothing costs no sums over rows.
  static bool needs_b_zero(const KernelRequest& request, std::int32_t shift) {
    if (!is_given(request.inputs, b_zero_input)) return shift != 0;
    return !request.is_constant(b_zero_input) || zero_point(request.inputs[b_zero_input]) != shift;
  }

  std::int64_t moved_bytes() const {
    return shift_ == 0 || kept_weights_ ? 0 : graph::aligned(b_elements_);
  }

  std::int32_t shift_;
  std::int64_t b_elements_;
  bool has_a_zero_;
  bool is_b_zero_given_;
  bool has_b_zero_;  ///< after the shift
  std::int32_t a_zero_ = 0;
  std::int32_t b_zero_ = 0;
  OnednnPrimitive matmul_;
  std::shared_ptr<std::byte> kept_weights_;  ///< null where weights are no constant
};

}  // namespace

std::unique_ptr<Kernel> make_quantized_matmul(const KernelRequest& request) {
  if (request.outputs[0].elements() == 0) return std::make_unique<NoWork>();
  const Product product = byte_product(request);
  if (has_byte_tiles()) return make_tiled_quantized_matmul(request, product);
  return std::make_unique<QuantizedMatMul>(request, product);
}

bool serves_quantized_matmul(const graph::Node&, std::span<const TensorView> inputs,
                             std::span<const TensorView> outputs) {
  if (outputs[0].elements() == 0) return true;
  return (adds_bytes_exactly() || has_byte_tiles()) && inputs[0].elements() > 0 &&
         inputs[1].elements() > 0;
}

}  // namespace autopar::runtime::cpu
