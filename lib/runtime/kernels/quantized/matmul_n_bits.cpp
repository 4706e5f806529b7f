#include "runtime/kernels/quantized/matmul_n_bits.h"

#include "runtime/kernels/common/kernel_arguments.h"

namespace autopar::runtime {

PackedProduct packed_product(const KernelRequest& request) {
  const graph::Node& node = request.node;
  PackedProduct product;
  product.columns = node.int_attribute("N", 0);
  product.depth = node.int_attribute("K", 0);
  product.block = node.int_attribute("block_size", 0);
  product.bits = static_cast<int>(node.int_attribute("bits", 4));
  const TensorView& a = request.inputs.at(0);
  const TensorView& b = request.inputs.at(1);
  const TensorView& scales = request.inputs.at(2);
  const bool has_sense = product.columns > 0 && product.depth > 0 && product.block >= 8 &&
                         (product.bits == 2 || product.bits == 4 || product.bits == 8) &&
                         !a.shape.empty() && a.shape.back() == product.depth;
  if (has_sense) product.blocks = (product.depth + product.block - 1) / product.block;
  if (!has_sense || b.type != DataType::uint8 ||
      b.elements() != product.columns * product.row_bytes() || scales.type != a.type ||
      scales.elements() != product.columns * product.blocks)
    fail(
        "node '{}': MatMulNBits of {} {} with {} bits, N {}, K {}, blocks of {}, weights {} and "
        "scales {} makes no sense",
        node.name, name_of(a.type), graph::to_string(a.shape), product.bits, product.columns,
        product.depth, product.block, graph::to_string(b.shape), graph::to_string(scales.shape));
  product.rows = a.elements() / product.depth;
  if (is_given(request.inputs, 3)) {
    const TensorView& zeros = request.inputs[3];
    product.zeros =
        zeros.type == a.type ? PackedProduct::Zeros::numbers : PackedProduct::Zeros::packed;
    const std::int64_t expected =
        product.columns * (zeros.type == a.type ? product.blocks : product.zero_bytes());
    if ((zeros.type != a.type && zeros.type != DataType::uint8) || zeros.elements() != expected)
      fail("node '{}': zero points of MatMulNBits are {} {}", node.name, name_of(zeros.type),
           graph::to_string(zeros.shape));
  }
  if (is_given(request.inputs, 4))
    fail("node '{}': MatMulNBits with g_idx has no kernel", node.name);
  if (node.int_attribute("weight_prepacked", 0) != 0)
    fail("node '{}': MatMulNBits with weights packed for one device has no kernel", node.name);
  product.has_bias = is_given(request.inputs, 5);
  if (product.has_bias &&
      (request.inputs[5].type != a.type || request.inputs[5].elements() != product.columns))
    fail("node '{}': the bias of MatMulNBits is {} {}", node.name, name_of(request.inputs[5].type),
         graph::to_string(request.inputs[5].shape));
  return product;
}

}  // namespace autopar::runtime
