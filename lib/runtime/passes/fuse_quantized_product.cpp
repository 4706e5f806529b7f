#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/passes/matcher.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Tensor;
using graph::ValueId;

/// Sums of so many products of bytes fit 32 bits.
constexpr std::int64_t deepest_sum = (std::int64_t{1} << 31) / (255 * 255);

bool is_byte(DataType type) { return type == DataType::int8 || type == DataType::uint8; }

/// What DequantizeLinear makes numbers of.
struct Quantized {
  ValueId values = graph::no_value;
  ValueId scale = graph::no_value;  ///< a constant of float32
  ValueId zero = graph::no_value;   ///< of one element, or none
};

class QuantizedProductFusion {
 public:
  QuantizedProductFusion(Graph& graph, const KernelTable& kernels)
      : graph_(graph), kernels_(kernels), matcher_(graph) {}

  void run() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (!node.domain.empty()) continue;
      std::optional<Node> fused;
      if (node.op_type == "MatMul") fused = product_of_quantized(node);
      if (node.op_type == "Gemm") fused = gemm_of_quantized(node, static_cast<NodeId>(n));
      if (node.op_type == "Conv") fused = convolution_of_quantized(node);
      if (node.op_type == "Mul") fused = scaled_integers(node);
      if (node.op_type == "Gather") fused = gathered(node, static_cast<NodeId>(n));
      if (fused) graph_.nodes[n] = std::move(*fused);
    }
    insertions_.apply(graph_);
  }

 private:
  /// MatMul of two that are dequantised.
  std::optional<Node> product_of_quantized(const Node& matmul) {
    const auto b_rank = static_cast<std::int64_t>(matcher_.shape(matmul.inputs[1]).size());
    const auto a = quantized(matmul.inputs[0]);
    const auto b = quantized(matmul.inputs[1], b_rank - 1);
    if (!a || !b) return std::nullopt;
    Node fused =
        successor(matmul, "QuantizedMatMul", {a->values, b->values, b->scale, a->zero, b->zero});
    if (!serves(fused)) return std::nullopt;
    fused.inputs[2] = product_of_scales(matmul.name, a->scale, b->scale);
    return fused;
  }

  /// Gemm that scales nothing: the product, and what is added to it. Weights that are transposed
  /// must be constants.
  std::optional<Node> gemm_of_quantized(const Node& gemm, NodeId place) {
    const bool is_transposed = gemm.int_attribute("transB", 0) != 0;
    const bool has_addend = gemm.inputs.size() > 2 && gemm.inputs[2] != graph::no_value;
    const bool is_scaled = gemm.float_attribute("alpha", 1) != 1 ||
                           (has_addend && gemm.float_attribute("beta", 1) != 1);
    const auto a = quantized(gemm.inputs[0]);
    const auto b = quantized(gemm.inputs[1], is_transposed ? 0 : 1);
    if (!a || !b || is_scaled || gemm.int_attribute("transA", 0) != 0 ||
        (is_transposed && !graph_.is_constant(b->values)))
      return std::nullopt;
    Node product =
        successor(gemm, "QuantizedMatMul", {a->values, b->values, b->scale, a->zero, b->zero});
    if (!serves(product)) return std::nullopt;
    if (is_transposed) product.inputs[1] = transposed(b->values);
    product.inputs[2] = product_of_scales(gemm.name, a->scale, b->scale);
    if (!has_addend) return product;
    product.name += "_product";
    product.outputs = {graph_.add_value(
        {product.name, DataType::float32, matcher_.shape(gemm.outputs[0]), std::nullopt})};
    const ValueId sums = product.outputs[0];
    insertions_.before(place, std::move(product));
    return Node{gemm.name, "Add", "", {sums, gemm.inputs[2]}, gemm.outputs, {}};
  }

  /// Conv of an image and weights that are dequantised.
  std::optional<Node> convolution_of_quantized(const Node& conv) {
    const auto image = quantized(conv.inputs[0]);
    const auto weights = quantized(conv.inputs[1], 0);
    if (!image || !weights) return std::nullopt;
    auto fused = quantized_conv(conv, conv, *image, *weights);
    if (fused) fused->inputs[2] = product_of_scales(conv.name, image->scale, weights->scale);
    return fused;
  }

  /// MatMulInteger or ConvInteger, Cast, Mul.
  std::optional<Node> scaled_integers(const Node& mul) {
    const auto scale = matcher_.beside(&mul, [&](ValueId id) { return sums_of(id) != nullptr; });
    if (!scale || matcher_.type(*scale) != DataType::float32) return std::nullopt;
    const ValueId sums = mul.inputs[*scale == mul.inputs[0] ? 1 : 0];
    const Node& product = *sums_of(sums);
    const graph::Shape shape = matcher_.shape(sums);  // a new constant may move the values
    if (matcher_.shape(mul.outputs[0]) != shape || shape.empty()) return std::nullopt;
    const auto operand = [&](std::size_t input) -> std::optional<Quantized> {
      const auto zero = input + 2 < product.inputs.size() ? one_zero(product.inputs[input + 2])
                                                          : std::optional(graph::no_value);
      return zero ? std::optional(Quantized{product.inputs[input], *scale, *zero}) : std::nullopt;
    };
    const auto a = operand(0);
    const auto b = operand(1);
    if (!a || !b) return std::nullopt;
    if (product.op_type == "ConvInteger")
      return graph::num_elements(matcher_.shape(*scale)) == 1 ? quantized_conv(mul, product, *a, *b)
                                                              : std::nullopt;
    if (!has_one_or_columns(*scale, shape.back())) return std::nullopt;
    Node fused =
        successor(mul, "QuantizedMatMul", {a->values, b->values, *scale, a->zero, b->zero});
    return serves(fused) ? std::optional(std::move(fused)) : std::nullopt;
  }

  /// The product of integers that a value is a Cast of, if nothing else reads either.
  const Node* sums_of(ValueId value) const {
    const Node* cast = matcher_.maker(value, "Cast");
    if (cast == nullptr || !matcher_.uses().is_read_once(value) ||
        !matcher_.uses().is_read_once(cast->inputs[0]))
      return nullptr;
    const Node* product = matcher_.maker(cast->inputs[0], "MatMulInteger");
    return product != nullptr ? product : matcher_.maker(cast->inputs[0], "ConvInteger");
  }

  /// In the place of `node`, with what `conv` says: its weights must be constants around zero.
  std::optional<Node> quantized_conv(const Node& node, const Node& conv, const Quantized& image,
                                     const Quantized& weights) const {
    const graph::Shape& taps = matcher_.shape(weights.values);
    const std::int64_t sum = graph::num_elements(taps) / std::max<std::int64_t>(taps[0], 1);
    const double middle = matcher_.type(weights.values) == DataType::uint8 ? 128 : 0;
    const bool is_around_zero =
        weights.zero == graph::no_value ? middle == 0 : matcher_.is_number(weights.zero, middle);
    if (!graph_.is_constant(weights.values) || sum > deepest_sum || !is_around_zero)
      return std::nullopt;
    const bool has_bias = conv.op_type == "Conv" && conv.inputs.size() > 2;
    Node fused = successor(node, "QuantizedConv",
                           {image.values, weights.values, weights.scale, image.zero,
                            has_bias ? conv.inputs[2] : graph::no_value});
    fused.attributes = conv.attributes;
    return can_run(kernels_, graph_, fused) ? std::optional(std::move(fused)) : std::nullopt;
  }

  /// Gather from a table that is dequantised by one scale.
  std::optional<Node> gathered(const Node& gather, NodeId place) {
    const Node* dequantize = matcher_.maker(gather.inputs[0], "DequantizeLinear");
    const auto table = quantized(gather.inputs[0]);
    if (!table || !graph_.is_constant(table->values) || !matcher_.shape(table->scale).empty())
      return std::nullopt;
    Node rows = gather;
    rows.name += "_quantized";
    rows.inputs[0] = table->values;
    rows.outputs = {graph_.add_value({rows.name, matcher_.type(table->values),
                                      matcher_.shape(gather.outputs[0]), std::nullopt})};
    Node numbers = *dequantize;
    numbers.name = gather.name;
    numbers.inputs[0] = rows.outputs[0];
    numbers.outputs = gather.outputs;
    numbers.attributes.erase("axis");  // of one scale for all, it says nothing
    insertions_.before(place, std::move(rows));
    return numbers;
  }

  /// Where the value comes from bytes by one scale, or one for each place along the dimension.
  std::optional<Quantized> quantized(ValueId value, std::optional<std::int64_t> by = {}) {
    const Node* node = matcher_.maker(value, "DequantizeLinear");
    if (node == nullptr || matcher_.type(value) != DataType::float32) return std::nullopt;
    const ValueId values = node->inputs[0];
    const ValueId scale = node->inputs[1];
    const auto rank = static_cast<std::int64_t>(matcher_.shape(values).size());
    const std::int64_t axis = node->int_attribute("axis", 1);
    const bool is_by_place = by && (axis < 0 ? axis + rank : axis) == *by;
    const bool is_one = graph::num_elements(matcher_.shape(scale)) == 1;
    if (!is_byte(matcher_.type(values)) || matcher_.type(scale) != DataType::float32 ||
        !has_data(scale) || node->int_attribute("block_size", 0) != 0 || !(is_one || is_by_place))
      return std::nullopt;
    const auto zero = one_zero(node->inputs.size() > 2 ? node->inputs[2] : graph::no_value);
    if (!zero) return std::nullopt;
    return Quantized{values, scale, *zero};
  }

  /// Whether it is a constant that can be read: where memory is predicted it may be absent.
  bool has_data(ValueId id) const {
    return graph_.is_constant(id) && graph_.value(id).constant->has_data();
  }

  bool has_one_or_columns(ValueId id, std::int64_t columns) const {
    const graph::Shape& shape = matcher_.shape(id);
    const std::int64_t elements = graph::num_elements(shape);
    return elements == 1 || (elements == columns && shape.back() == columns);
  }

  /// A zero point with one element, if the given one is, or all of its elements are the same;
  /// no_value where none is given.
  std::optional<ValueId> one_zero(ValueId given) {
    if (given == graph::no_value || graph::num_elements(matcher_.shape(given)) == 1) return given;
    if (!has_data(given)) return std::nullopt;
    const Tensor zeros = graph_.value(given).constant->contiguous_copy();
    const auto bytes = zeros.bytes();
    const bool are_same = std::ranges::all_of(bytes, [&](auto x) { return x == bytes.front(); });
    if (bytes.empty() || !are_same) return std::nullopt;
    const Tensor one = Tensor::of<std::byte>(zeros.type(), {1}, bytes.first(1));
    return graph_.add_constant(graph_.value(given).name + "_one", one);
  }

  /// A node of this name and these outputs, without the inputs at the end that are left out.
  static Node successor(const Node& node, const char* op_type, std::vector<ValueId> inputs) {
    while (inputs.back() == graph::no_value) inputs.pop_back();
    return {node.name, op_type, internal_domain, std::move(inputs), node.outputs, {}};
  }

  bool serves(const Node& fused) const {
    const graph::Shape& a = matcher_.shape(fused.inputs[0]);
    const graph::Shape& b = matcher_.shape(fused.inputs[1]);
    return a.size() >= 2 && b.size() >= 2 && a.back() <= deepest_sum &&
           can_run(kernels_, graph_, fused);
  }

  /// A matrix of bytes; the one that it is made of leaves memory.
  ValueId transposed(ValueId matrix) {
    const std::string name = graph_.value(matrix).name + "_transposed";
    const graph::Shape& shape = matcher_.shape(matrix);
    const graph::Shape swapped{shape[1], shape[0]};
    if (!has_data(matrix))
      return graph_.add_constant(name, Tensor::absent(matcher_.type(matrix), swapped));
    const Tensor stored = graph_.value(matrix).constant->contiguous_copy();
    graph_.value(matrix).constant->release_pages();
    const auto from = stored.bytes();
    const auto rows = static_cast<std::size_t>(shape[0]);
    const auto columns = static_cast<std::size_t>(shape[1]);
    Tensor tensor = Tensor::zeros(stored.type(), swapped);
    const auto to = tensor.mutable_bytes();
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t column = 0; column < columns; ++column)
        to[column * rows + row] = from[row * columns + column];
    return graph_.add_constant(name, std::move(tensor));
  }

  ValueId product_of_scales(const std::string& name, ValueId one, ValueId columns) {
    const Tensor factor = graph_.value(one).constant->contiguous_copy();
    Tensor scales = graph_.value(columns).constant->contiguous_copy();
    auto* numbers = reinterpret_cast<float*>(scales.mutable_bytes().data());
    for (std::int64_t i = 0; i < scales.elements(); ++i) numbers[i] *= factor.values<float>()[0];
    return graph_.add_constant(name + "_scale", std::move(scales));
  }

  Graph& graph_;
  const KernelTable& kernels_;
  Matcher matcher_;
  Insertions insertions_;
};

}  // namespace

void fuse_quantized_products(Graph& graph, const KernelTable& kernels) {
  QuantizedProductFusion(graph, kernels).run();
}

}  // namespace autopar::runtime::passes
