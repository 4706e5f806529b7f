#include <algorithm>

#include "runtime/constant_store.h"
#include "runtime/passes/matcher.h"

namespace autopar::runtime::passes {
namespace {

using graph::Tensor;

/// Sums of so many products of bytes fit 32 bits.
constexpr std::int64_t deepest_sum = (std::int64_t{1} << 31) / (255 * 255);

/// What DequantizeLinear makes numbers of.
struct Quantized {
  ValueId values = graph::no_value;
  ValueId scale = graph::no_value;  ///< a constant of float32
  ValueId zero = graph::no_value;   ///< of one element, or none
};

/// A zero point with one element, if the given one is, or all of its elements are the same;
/// no_value where none is given.
std::optional<ValueId> one_zero(Pass& pass, const Node& node, std::size_t input) {
  if (!has_input(node, input)) return graph::no_value;
  const ValueId given = node.inputs[input];
  if (graph::num_elements(pass.shape(given)) == 1) return given;
  const auto zeros = pass.data(given);
  if (!zeros || zeros->bytes().empty()) return std::nullopt;
  const auto bytes = zeros->bytes();
  if (std::ranges::any_of(bytes, [&](auto x) { return x != bytes.front(); })) return std::nullopt;
  const Tensor one = Tensor::of<std::byte>(zeros->type(), {1}, bytes.first(1));
  return pass.graph.add_constant(pass.graph.value(given).name + "_one", one);
}

/// Where the value comes from bytes by one scale, or one for each place along the dimension.
std::optional<Quantized> quantized(Pass& pass, ValueId value, std::optional<std::int64_t> by = {}) {
  const Node* node = pass.maker(value, "DequantizeLinear");
  if (node == nullptr || pass.type(value) != DataType::float32) return std::nullopt;
  const ValueId values = node->inputs[0];
  const ValueId scale = node->inputs[1];
  const std::int64_t axis = node->int_attribute("axis", 1);
  const bool is_by_place = by && (axis < 0 ? axis + std::ssize(pass.shape(values)) : axis) == *by;
  const bool is_one = graph::num_elements(pass.shape(scale)) == 1;
  const bool are_bytes =
      pass.type(values) == DataType::int8 || pass.type(values) == DataType::uint8;
  if (!are_bytes || pass.type(scale) != DataType::float32 || !pass.has_data(scale) ||
      node->int_attribute("block_size", 0) != 0 || !(is_one || is_by_place))
    return std::nullopt;
  const auto zero = one_zero(pass, *node, 2);
  return zero ? std::optional(Quantized{values, scale, *zero}) : std::nullopt;
}

/// A node of this name and these outputs, without the inputs at the end that are left out.
Node successor(const Node& node, const char* op_type, std::vector<ValueId> inputs) {
  while (inputs.back() == graph::no_value) inputs.pop_back();
  return {node.name, op_type, internal_domain, std::move(inputs), node.outputs, {}};
}

/// The product in the place of `node`, whose scale is still b's alone.
std::optional<Node> quantized_matmul(const Pass& pass, const Node& node, const Quantized& a,
                                     const Quantized& b) {
  const bool are_matrices = pass.shape(a.values).size() >= 2 && pass.shape(b.values).size() >= 2;
  if (!are_matrices || pass.shape(a.values).back() > deepest_sum) return std::nullopt;
  return pass.if_it_runs(
      successor(node, "QuantizedMatMul", {a.values, b.values, b.scale, a.zero, b.zero}));
}

/// In the place of `node`, with what `conv` says: its weights must be constants around zero.
std::optional<Node> quantized_conv(const Pass& pass, const Node& node, const Node& conv,
                                   const Quantized& image, const Quantized& weights) {
  const Shape& taps = pass.shape(weights.values);
  const std::int64_t sum = graph::num_elements(taps) / std::max<std::int64_t>(taps[0], 1);
  const double middle = pass.type(weights.values) == DataType::uint8 ? 128 : 0;
  const bool is_around_zero =
      weights.zero == graph::no_value ? middle == 0 : pass.is_number(weights.zero, middle);
  if (!pass.is_constant(weights.values) || sum > deepest_sum || !is_around_zero)
    return std::nullopt;
  const bool has_bias = conv.op_type == "Conv" && conv.inputs.size() > 2;
  Node fused = successor(node, "QuantizedConv",
                         {image.values, weights.values, weights.scale, image.zero,
                          has_bias ? conv.inputs[2] : graph::no_value});
  fused.attributes = conv.attributes;
  return pass.if_it_runs(std::move(fused));
}

Tensor transposed_bytes(const Tensor& matrix) {
  const Tensor stored = matrix.contiguous_copy();
  const auto from = stored.bytes();
  const auto rows = static_cast<std::size_t>(stored.shape()[0]);
  const auto columns = static_cast<std::size_t>(stored.shape()[1]);
  Tensor tensor = Tensor::zeros(stored.type(), {stored.shape()[1], stored.shape()[0]});
  const auto to = tensor.mutable_bytes();
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      to[column * rows + row] = from[row * columns + column];
  return tensor;
}

/// A matrix of bytes; the one that it is made of leaves memory.
ValueId transposed(Pass& pass, ValueId matrix, ConstantStore* store) {
  const std::string name = pass.graph.value(matrix).name + "_transposed";
  const Shape swapped{pass.shape(matrix)[1], pass.shape(matrix)[0]};
  const Tensor& stored = *pass.graph.value(matrix).constant;
  if (!stored.has_data())
    return pass.graph.add_constant(name, Tensor::absent(pass.type(matrix), swapped));
  Tensor tensor =
      derived(store, {"transposed bytes", {&stored}}, [&] { return transposed_bytes(stored); });
  stored.release_pages();
  return pass.graph.add_constant(name, std::move(tensor));
}

ValueId product_of_scales(Pass& pass, const std::string& name, ValueId one, ValueId columns) {
  const float factor = pass.data(one)->values<float>()[0];
  Tensor scales = pass.graph.value(columns).constant->contiguous_copy();
  auto* numbers = reinterpret_cast<float*>(scales.mutable_bytes().data());
  for (std::int64_t i = 0; i < scales.elements(); ++i) numbers[i] *= factor;
  return pass.graph.add_constant(name + "_scale", std::move(scales));
}

/// MatMul of two that are dequantised.
std::optional<Node> product_of_quantized(Pass& pass, const Node& matmul) {
  const auto a = quantized(pass, matmul.inputs[0]);
  const auto b = quantized(pass, matmul.inputs[1], std::ssize(pass.shape(matmul.inputs[1])) - 1);
  auto fused = a && b ? quantized_matmul(pass, matmul, *a, *b) : std::nullopt;
  if (fused) fused->inputs[2] = product_of_scales(pass, matmul.name, a->scale, b->scale);
  return fused;
}

/// Gemm that scales nothing: the product, and what is added to it. Weights that are transposed
/// must be constants.
std::optional<Node> gemm_of_quantized(Pass& pass, const Node& gemm, ConstantStore* store) {
  const bool is_transposed = gemm.int_attribute("transB", 0) != 0;
  const auto a = quantized(pass, gemm.inputs[0]);
  const auto b = quantized(pass, gemm.inputs[1], is_transposed ? 0 : 1);
  if (!a || !b || is_scaled(gemm) || gemm.int_attribute("transA", 0) != 0 ||
      (is_transposed && !pass.is_constant(b->values)))
    return std::nullopt;
  auto product = quantized_matmul(pass, gemm, *a, *b);
  if (!product) return std::nullopt;
  if (is_transposed) product->inputs[1] = transposed(pass, b->values, store);
  product->inputs[2] = product_of_scales(pass, gemm.name, a->scale, b->scale);
  if (!has_input(gemm, 2)) return product;
  product->name += "_product";
  const ValueId sums = pass.graph.add_value(
      {product->name, DataType::float32, pass.shape(gemm.outputs[0]), std::nullopt});
  product->outputs = {sums};
  pass.insertions.before(pass.producer(gemm.outputs[0]), std::move(*product));
  return Node{gemm.name, "Add", "", {sums, gemm.inputs[2]}, gemm.outputs, {}};
}

/// Conv of an image and weights that are dequantised.
std::optional<Node> convolution_of_quantized(Pass& pass, const Node& conv) {
  const auto image = quantized(pass, conv.inputs[0]);
  const auto weights = quantized(pass, conv.inputs[1], 0);
  auto fused = image && weights ? quantized_conv(pass, conv, conv, *image, *weights) : std::nullopt;
  if (fused) fused->inputs[2] = product_of_scales(pass, conv.name, image->scale, weights->scale);
  return fused;
}

/// The product of integers that a value is a Cast of, if nothing else reads either.
const Node* sums_of(const Matcher& matcher, ValueId value) {
  const Node* cast = matcher.maker(value, "Cast");
  if (cast == nullptr || !matcher.is_read_once(value) || !matcher.is_read_once(cast->inputs[0]))
    return nullptr;
  const Node* product = matcher.maker(cast->inputs[0], "MatMulInteger");
  return product != nullptr ? product : matcher.maker(cast->inputs[0], "ConvInteger");
}

/// MatMulInteger or ConvInteger, Cast, Mul.
std::optional<Node> scaled_integers(Pass& pass, const Node& mul) {
  ValueId sums = graph::no_value;
  const auto scale = pass.beside(&mul, [&](ValueId id) {
    sums = id;
    return sums_of(pass, id) != nullptr;
  });
  if (!scale || pass.type(*scale) != DataType::float32) return std::nullopt;
  const Node& product = *sums_of(pass, sums);
  const Shape& shape = pass.shape(sums);
  if (pass.shape(mul.outputs[0]) != shape || shape.empty()) return std::nullopt;
  const Shape& of_scale = pass.shape(*scale);
  const bool has_one = graph::num_elements(of_scale) == 1;
  const bool has_columns =
      !has_one && graph::num_elements(of_scale) == shape.back() && of_scale.back() == shape.back();
  const auto a_zero = one_zero(pass, product, 2);
  const auto b_zero = one_zero(pass, product, 3);
  if (!a_zero || !b_zero) return std::nullopt;
  const Quantized a{product.inputs[0], *scale, *a_zero};
  const Quantized b{product.inputs[1], *scale, *b_zero};
  if (product.op_type == "ConvInteger")
    return has_one ? quantized_conv(pass, mul, product, a, b) : std::nullopt;
  return has_one || has_columns ? quantized_matmul(pass, mul, a, b) : std::nullopt;
}

/// Gather from a table that is dequantised by one scale.
std::optional<Node> gathered(Pass& pass, const Node& gather) {
  const Node* dequantize = pass.maker(gather.inputs[0], "DequantizeLinear");
  const auto table = quantized(pass, gather.inputs[0]);
  if (!table || !pass.is_constant(table->values) || !pass.shape(table->scale).empty())
    return std::nullopt;
  Node rows = gather;
  rows.name += "_quantized";
  rows.inputs[0] = table->values;
  rows.outputs = {pass.graph.add_value(
      {rows.name, pass.type(table->values), pass.shape(gather.outputs[0]), std::nullopt})};
  Node numbers = *dequantize;
  numbers.name = gather.name;
  numbers.inputs[0] = rows.outputs[0];
  numbers.outputs = gather.outputs;
  numbers.attributes.erase("axis");  // of one scale for all, it says nothing
  pass.insertions.before(pass.producer(gather.outputs[0]), std::move(rows));
  return numbers;
}

}  // namespace

void fuse_quantized_products(Graph& graph, const KernelTable& kernels, ConstantStore* store) {
  rewrite_nodes(graph, kernels, [store](Pass& pass, const Node& node) -> std::optional<Node> {
    if (is_onnx(node, "MatMul")) return product_of_quantized(pass, node);
    if (is_onnx(node, "Gemm")) return gemm_of_quantized(pass, node, store);
    if (is_onnx(node, "Conv")) return convolution_of_quantized(pass, node);
    if (is_onnx(node, "Mul")) return scaled_integers(pass, node);
    if (is_onnx(node, "Gather")) return gathered(pass, node);
    return std::nullopt;
  });
}

}  // namespace autopar::runtime::passes
