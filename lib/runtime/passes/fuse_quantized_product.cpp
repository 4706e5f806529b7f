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
      if (node.op_type == "Mul") fused = scaled_integers(node);
      if (node.op_type == "Gather") fused = gathered(node, static_cast<NodeId>(n));
      if (fused) graph_.nodes[n] = std::move(*fused);
    }
    insertions_.apply(graph_);
  }

 private:
  /// MatMul of two that are dequantised.
  std::optional<Node> product_of_quantized(const Node& matmul) {
    const auto a = quantized(matmul.inputs[0], 1);
    const auto b = quantized(matmul.inputs[1], matcher_.shape(matmul.inputs[1]).back());
    if (!a || !b) return std::nullopt;
    Node fused = quantized_matmul(matmul, {a->values, b->values, a->scale, a->zero, b->zero});
    if (!serves(fused)) return std::nullopt;
    fused.inputs[2] = product_of_scales(matmul.name, a->scale, b->scale);
    return fused;
  }

  /// MatMulInteger, Cast, Mul.
  std::optional<Node> scaled_integers(const Node& mul) {
    const auto sums_of = [&](ValueId id) -> const Node* {
      const Node* cast = matcher_.maker(id, "Cast");
      const bool is_read_once = cast != nullptr && matcher_.uses().is_read_once(id) &&
                                matcher_.uses().is_read_once(cast->inputs[0]);
      return is_read_once ? matcher_.maker(cast->inputs[0], "MatMulInteger") : nullptr;
    };
    const auto scale = matcher_.beside(&mul, [&](ValueId id) { return sums_of(id) != nullptr; });
    if (!scale || matcher_.type(*scale) != DataType::float32) return std::nullopt;
    const ValueId sums = mul.inputs[*scale == mul.inputs[0] ? 1 : 0];
    const Node& product = *sums_of(sums);
    const graph::Shape& shape = matcher_.shape(sums);
    if (matcher_.shape(mul.outputs[0]) != shape || shape.empty() ||
        !has_one_or_columns(*scale, shape.back()))
      return std::nullopt;
    const auto zero = [&](std::size_t input) {
      return input < product.inputs.size() ? one_zero(product.inputs[input]) : graph::no_value;
    };
    const auto a_zero = zero(2);
    const auto b_zero = zero(3);
    if (!a_zero || !b_zero) return std::nullopt;
    Node fused =
        quantized_matmul(mul, {product.inputs[0], product.inputs[1], *scale, *a_zero, *b_zero});
    return serves(fused) ? std::optional(std::move(fused)) : std::nullopt;
  }

  /// Gather from a table that is dequantised by one scale.
  std::optional<Node> gathered(const Node& gather, NodeId place) {
    const Node* dequantize = matcher_.maker(gather.inputs[0], "DequantizeLinear");
    const auto table = quantized(gather.inputs[0], 1);
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

  /// Where the value comes from bytes by one scale, or one for each of so many columns.
  std::optional<Quantized> quantized(ValueId value, std::int64_t columns) {
    const Node* node = matcher_.maker(value, "DequantizeLinear");
    if (node == nullptr || matcher_.type(value) != DataType::float32) return std::nullopt;
    const ValueId values = node->inputs[0];
    const ValueId scale = node->inputs[1];
    const auto rank = static_cast<std::int64_t>(matcher_.shape(values).size());
    const std::int64_t axis = node->int_attribute("axis", 1);
    const bool is_by_column = axis == rank - 1 || axis == -1;
    const bool is_one = graph::num_elements(matcher_.shape(scale)) == 1;
    if (!is_byte(matcher_.type(values)) || matcher_.type(scale) != DataType::float32 ||
        !graph_.is_constant(scale) || node->int_attribute("block_size", 0) != 0 ||
        !(is_one || (is_by_column && has_one_or_columns(scale, columns))))
      return std::nullopt;
    const auto zero = one_zero(node->inputs.size() > 2 ? node->inputs[2] : graph::no_value);
    if (!zero) return std::nullopt;
    return Quantized{values, scale, *zero};
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
    if (!graph_.is_constant(given)) return std::nullopt;
    const Tensor zeros = graph_.value(given).constant->contiguous_copy();
    const auto bytes = zeros.bytes();
    const bool are_same = std::ranges::all_of(bytes, [&](auto x) { return x == bytes.front(); });
    if (bytes.empty() || !are_same) return std::nullopt;
    const Tensor one = Tensor::of<std::byte>(zeros.type(), {1}, bytes.first(1));
    return graph_.add_constant(graph_.value(given).name + "_one", one);
  }

  /// The node's successor, without the inputs at the end that are left out.
  static Node quantized_matmul(const Node& node, std::vector<ValueId> inputs) {
    while (inputs.back() == graph::no_value) inputs.pop_back();
    return {node.name, "QuantizedMatMul", internal_domain, std::move(inputs), node.outputs, {}};
  }

  bool serves(const Node& fused) const {
    const graph::Shape& a = matcher_.shape(fused.inputs[0]);
    const graph::Shape& b = matcher_.shape(fused.inputs[1]);
    return a.size() >= 2 && b.size() >= 2 && a.back() <= deepest_sum &&
           can_run(kernels_, graph_, fused);
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
