#include <array>

#include "runtime/passes/matcher.h"

namespace autopar::runtime::passes {
namespace {

/// x / sqrt(mean(y^2) + epsilon), where y is x: `of` is the input of RMSNormalization, or, if
/// `is_centred`, of LayerNormalization.
struct Normalized {
  ValueId of = graph::no_value;
  double epsilon = 0;
  bool is_centred = false;
};

/// u where the value is u to that power.
std::optional<ValueId> base_of_power(const Matcher& matcher, ValueId value, double exponent) {
  const Node* power = matcher.maker(value, "Pow");
  const bool is_power = power != nullptr && matcher.is_number(power->inputs[1], exponent);
  return is_power ? std::optional(power->inputs[0]) : std::nullopt;
}

/// y where the value is y * y.
std::optional<ValueId> root_of_square(const Matcher& matcher, ValueId value) {
  if (const auto base = base_of_power(matcher, value, 2)) return base;
  const Node* product = matcher.maker(value, "Mul");
  const bool is_square = product != nullptr && product->inputs[0] == product->inputs[1];
  return is_square ? std::optional(product->inputs[0]) : std::nullopt;
}

/// u where the value is sqrt(u).
std::optional<ValueId> root_of(const Matcher& matcher, ValueId value) {
  if (const Node* root = matcher.maker(value, "Sqrt")) return root->inputs[0];
  return base_of_power(matcher, value, 0.5);
}

/// u where the value is 1 / sqrt(u).
std::optional<ValueId> inverse_root_of(const Matcher& matcher, ValueId value) {
  if (const Node* inverse = matcher.maker(value, "Reciprocal"))
    return root_of(matcher, inverse->inputs[0]);
  if (const Node* div = matcher.maker(value, "Div"))
    return matcher.is_number(div->inputs[0], 1) ? root_of(matcher, div->inputs[1]) : std::nullopt;
  return base_of_power(matcher, value, -0.5);
}

/// x where the value is x - mean(x).
std::optional<ValueId> before_centring(const Matcher& matcher, ValueId value) {
  const Node* difference = matcher.maker(value, "Sub");
  if (difference == nullptr) return std::nullopt;
  const auto averaged = matcher.mean_of(matcher.before_widening(difference->inputs[1]));
  const ValueId minuend = matcher.before_widening(difference->inputs[0]);
  if (!averaged || matcher.before_widening(*averaged) != minuend) return std::nullopt;
  return difference->inputs[0];
}

/// `variance` has epsilon in it.
std::optional<Normalized> with_variance(const Matcher& matcher, ValueId numerator,
                                        ValueId variance) {
  const Node* sum = matcher.maker(variance, "Add");
  std::optional<double> epsilon;
  const auto mean = matcher.beside(sum, [&](ValueId addend) {
    epsilon = matcher.number(addend);
    return epsilon.has_value();
  });
  const auto squares = mean ? matcher.mean_of(*mean) : std::nullopt;
  const auto squared = squares ? root_of_square(matcher, *squares) : std::nullopt;
  const ValueId exact = matcher.before_widening(numerator);
  if (!squared || matcher.before_widening(*squared) != exact) return std::nullopt;
  if (const auto centred = before_centring(matcher, exact))
    return Normalized{*centred, *epsilon, true};
  return Normalized{numerator, *epsilon, false};
}

std::optional<Normalized> normalized(const Matcher& matcher, ValueId value) {
  value = matcher.uncast(value);
  std::optional<ValueId> numerator;
  std::optional<ValueId> variance;
  if (const Node* div = matcher.maker(value, "Div")) {
    numerator = div->inputs[0];
    variance = root_of(matcher, div->inputs[1]);
  } else {
    numerator = matcher.beside(matcher.maker(value, "Mul"), [&](ValueId factor) {
      variance = inverse_root_of(matcher, factor);
      return variance.has_value();
    });
  }
  return variance ? with_variance(matcher, *numerator, *variance) : std::nullopt;
}

/// The value in the type of the result: as it is, or before a half type was widened.
std::optional<ValueId> input_of_type(const Matcher& matcher, ValueId value, DataType type) {
  if (matcher.type(value) == type) return value;
  const ValueId before = matcher.before_widening(value);
  const bool is_half = type == DataType::float16 || type == DataType::bfloat16;
  return is_half && matcher.type(before) == type ? std::optional(before) : std::nullopt;
}

std::optional<Node> normalization(const Pass& pass, const Node& root, const Normalized& found,
                                  ValueId scale, ValueId bias) {
  const ValueId out = root.outputs[0];
  const DataType type = pass.type(out);
  if (!graph::is_floating_point(type) || !Matcher::is_attribute(found.epsilon, type))
    return std::nullopt;
  const Shape row = {pass.shape(out).empty() ? 0 : pass.shape(out).back()};
  for (const ValueId vector : {scale, bias}) {
    if (vector == graph::no_value) continue;
    if (pass.shape(vector) != row || pass.type(vector) != type) return std::nullopt;
  }
  const auto input = input_of_type(pass, found.of, type);
  if (!input || pass.shape(*input) != pass.shape(out)) return std::nullopt;
  const std::array leaves = {*input, scale, bias};
  if (!pass.is_closed(out, leaves)) return std::nullopt;
  Node node = root;
  node.op_type = found.is_centred ? "LayerNormalization" : "RMSNormalization";
  node.inputs = {*input, scale};
  if (bias != graph::no_value) node.inputs.push_back(bias);
  node.attributes = {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(found.epsilon)}};
  return pass.if_it_runs(std::move(node));
}

/// Where the product with the scale, which `product` is, ends it, or the sum with the bias.
std::optional<Node> scaled(const Pass& pass, const Node& root, const Node& product, ValueId bias) {
  for (const std::size_t i : {0U, 1U}) {
    const auto found = normalized(pass, product.inputs[i]);
    if (!found || (bias != graph::no_value && !found->is_centred)) continue;
    if (auto node = normalization(pass, root, *found, product.inputs[1 - i], bias)) return node;
  }
  return std::nullopt;
}

}  // namespace

/// From the last node on: a sum with a bias comes before the product in it.
void fuse_normalizations(Graph& graph, const KernelTable& kernels) {
  rewrite_nodes_from_last(graph, kernels, [](Pass& pass, const Node& node) -> std::optional<Node> {
    if (node.inputs.size() != 2) return std::nullopt;
    if (is_onnx(node, "Mul")) return scaled(pass, node, node, graph::no_value);
    if (!is_onnx(node, "Add")) return std::nullopt;
    for (const std::size_t i : {0U, 1U}) {
      const Node* product = pass.maker(node.inputs[i], "Mul");
      if (product == nullptr || product->inputs.size() != 2) continue;
      if (auto whole = scaled(pass, node, *product, node.inputs[1 - i])) return whole;
    }
    return std::nullopt;
  });
}

}  // namespace autopar::runtime::passes
