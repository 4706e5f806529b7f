#include <array>
#include <cmath>

#include "runtime/passes/matcher.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

/// x / sqrt(mean(y^2) + epsilon), where y is x: `of` is the input of RMSNormalization, or, if
/// `is_centred`, of LayerNormalization.
struct Normalized {
  ValueId of = graph::no_value;
  double epsilon = 0;
  bool is_centred = false;
};

class NormalizationFusion {
 public:
  NormalizationFusion(Graph& graph, const KernelTable& kernels)
      : graph_(graph), kernels_(kernels), matcher_(graph) {}

  /// Nodes go from the last to the first: a sum with a bias comes before the product in it.
  void run() {
    for (std::size_t n = graph_.nodes.size(); n-- > 0;)
      if (const auto fused = fused_into(graph_.nodes[n])) graph_.nodes[n] = *fused;
  }

 private:
  /// RMSNormalization ends with the product with the scale, and LayerNormalization there or with
  /// the sum with the bias.
  std::optional<Node> fused_into(const Node& node) const {
    if (!node.domain.empty() || node.inputs.size() != 2) return std::nullopt;
    if (node.op_type == "Mul") return fused(node, node, graph::no_value);
    if (node.op_type != "Add") return std::nullopt;
    for (const std::size_t i : {0U, 1U}) {
      const Node* product = matcher_.maker(node.inputs[i], "Mul");
      if (product == nullptr || product->inputs.size() != 2) continue;
      if (auto whole = fused(node, *product, node.inputs[1 - i])) return whole;
    }
    return std::nullopt;
  }

  std::optional<Node> fused(const Node& root, const Node& product, ValueId bias) const {
    for (const std::size_t i : {0U, 1U}) {
      const ValueId scale = product.inputs[1 - i];
      const auto normalized = match(product.inputs[i]);
      if (!normalized) continue;
      if (bias != graph::no_value && !normalized->is_centred) continue;
      if (auto node = make(root, *normalized, scale, bias)) return node;
    }
    return std::nullopt;
  }

  std::optional<Node> make(const Node& root, const Normalized& normalized, ValueId scale,
                           ValueId bias) const {
    const ValueId out = root.outputs[0];
    const DataType type = matcher_.type(out);
    if (!graph::is_floating_point(type) || !Matcher::is_attribute(normalized.epsilon, type))
      return std::nullopt;
    const Shape row = {matcher_.shape(out).empty() ? 0 : matcher_.shape(out).back()};
    for (const ValueId vector : {scale, bias}) {
      if (vector == graph::no_value) continue;
      if (matcher_.shape(vector) != row || matcher_.type(vector) != type) return std::nullopt;
    }
    const auto input = input_of_type(normalized.of, type);
    if (!input || matcher_.shape(*input) != matcher_.shape(out)) return std::nullopt;
    const std::array leaves = {*input, scale, bias};
    if (!matcher_.is_closed(out, leaves)) return std::nullopt;
    Node node = root;
    node.op_type = normalized.is_centred ? "LayerNormalization" : "RMSNormalization";
    node.inputs = {*input, scale};
    if (bias != graph::no_value) node.inputs.push_back(bias);
    node.attributes = {{"axis", std::int64_t{-1}},
                       {"epsilon", static_cast<float>(normalized.epsilon)}};
    return can_run(kernels_, graph_, node) ? std::optional(node) : std::nullopt;
  }

  /// The value in the type of the result: as it is, or before a half type was widened.
  std::optional<ValueId> input_of_type(ValueId value, DataType type) const {
    if (matcher_.type(value) == type) return value;
    const ValueId before = matcher_.uncast(value);
    const bool is_half = type == DataType::float16 || type == DataType::bfloat16;
    return is_half && matcher_.type(before) == type ? std::optional(before) : std::nullopt;
  }

  std::optional<Normalized> match(ValueId value) const {
    value = matcher_.uncast(value);
    ValueId numerator = graph::no_value;
    std::optional<ValueId> variance;  // with epsilon
    if (const Node* div = matcher_.maker(value, "Div")) {
      numerator = div->inputs[0];
      variance = root_of(div->inputs[1]);
    } else {
      numerator = matcher_
                      .beside(matcher_.maker(value, "Mul"),
                              [&](ValueId factor) {
                                const auto under = inverse_root_of(factor);
                                if (under) variance = under;
                                return under.has_value();
                              })
                      .value_or(graph::no_value);
    }
    return variance ? with_variance(numerator, *variance) : std::nullopt;
  }

  std::optional<Normalized> with_variance(ValueId numerator, ValueId variance) const {
    const auto mean = matcher_.beside(matcher_.maker(variance, "Add"), [&](ValueId addend) {
      return matcher_.number(addend).has_value();
    });
    if (!mean) return std::nullopt;
    const Node& sum = *matcher_.maker(variance, "Add");
    const double epsilon = *matcher_.number(sum.inputs[sum.inputs[0] == *mean ? 1 : 0]);
    const auto squares = matcher_.mean_of(*mean);
    const auto squared = squares ? root_of_square(*squares) : std::nullopt;
    if (!squared || matcher_.uncast(*squared) != matcher_.uncast(numerator)) return std::nullopt;
    if (const auto centred = before_centring(matcher_.uncast(numerator)))
      return Normalized{*centred, epsilon, true};
    return Normalized{numerator, epsilon, false};
  }

  /// x where the value is x - mean(x).
  std::optional<ValueId> before_centring(ValueId value) const {
    const Node* difference = matcher_.maker(value, "Sub");
    if (difference == nullptr) return std::nullopt;
    const auto averaged = matcher_.mean_of(matcher_.uncast(difference->inputs[1]));
    if (!averaged || matcher_.uncast(*averaged) != matcher_.uncast(difference->inputs[0]))
      return std::nullopt;
    return difference->inputs[0];
  }

  /// y where the value is y * y.
  std::optional<ValueId> root_of_square(ValueId value) const {
    if (const Node* power = matcher_.maker(value, "Pow"))
      return matcher_.is_number(power->inputs[1], 2) ? std::optional(power->inputs[0])
                                                     : std::nullopt;
    const Node* product = matcher_.maker(value, "Mul");
    const bool is_square = product != nullptr && product->inputs[0] == product->inputs[1];
    return is_square ? std::optional(product->inputs[0]) : std::nullopt;
  }

  /// u where the value is sqrt(u).
  std::optional<ValueId> root_of(ValueId value) const {
    if (const Node* root = matcher_.maker(value, "Sqrt")) return root->inputs[0];
    const Node* power = matcher_.maker(value, "Pow");
    const bool is_root = power != nullptr && matcher_.is_number(power->inputs[1], 0.5);
    return is_root ? std::optional(power->inputs[0]) : std::nullopt;
  }

  /// u where the value is 1 / sqrt(u).
  std::optional<ValueId> inverse_root_of(ValueId value) const {
    if (const Node* inverse = matcher_.maker(value, "Reciprocal"))
      return root_of(inverse->inputs[0]);
    if (const Node* div = matcher_.maker(value, "Div"))
      return matcher_.is_number(div->inputs[0], 1) ? root_of(div->inputs[1]) : std::nullopt;
    const Node* power = matcher_.maker(value, "Pow");
    const bool is_inverse = power != nullptr && matcher_.is_number(power->inputs[1], -0.5);
    return is_inverse ? std::optional(power->inputs[0]) : std::nullopt;
  }

  Graph& graph_;
  const KernelTable& kernels_;
  Matcher matcher_;
};

}  // namespace

void fuse_normalizations(Graph& graph, const KernelTable& kernels) {
  NormalizationFusion(graph, kernels).run();
}

}  // namespace autopar::runtime::passes
