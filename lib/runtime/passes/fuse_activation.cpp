#include <cmath>
#include <numbers>

#include "runtime/passes/matcher.h"

namespace autopar::runtime::passes {
namespace {

/// A product as a number, made of moderate ones, times values; a power is its base several times
/// over.
struct Product {
  double number = 1;
  std::vector<ValueId> factors;

  /// The factor beside `x`, if there are just these two.
  std::optional<ValueId> beside(ValueId x) const {
    if (factors.size() != 2) return std::nullopt;
    if (factors[0] == x) return factors[1];
    return factors[1] == x ? std::optional(factors[0]) : std::nullopt;
  }
};

bool is_about(double number, double expected, DataType type) {
  const double tolerance = type == DataType::bfloat16  ? 1e-2
                           : type == DataType::float16 ? 2e-3
                                                       : 1e-5;
  return std::abs(number - expected) <= tolerance * std::abs(expected);
}

void multiply(Product& product, const Product& by, int times) {
  for (int i = 0; i < times; ++i) {
    product.number *= by.number;
    product.factors.insert(product.factors.end(), by.factors.begin(), by.factors.end());
  }
}

/// Taken apart down to what other nodes read too, so that the order in which it was written does
/// not matter, as far as activations are deep.
Product product_of(const Matcher& matcher, ValueId value, bool is_root = false, int depth = 0) {
  constexpr int deepest = 8;
  Product product;
  if (value == graph::no_value) return product;
  const bool is_inner = is_root || (depth < deepest && matcher.is_read_once(value));
  const Node* mul = matcher.maker(value, "Mul");
  const Node* div = matcher.maker(value, "Div");
  const Node* power = matcher.maker(value, "Pow");
  const double exponent = power != nullptr ? matcher.number(power->inputs[1]).value_or(0) : 0;
  const auto is_divisor = [&](ValueId id) {
    const auto number = matcher.number(id);
    return number && *number != 0 && is_moderate(*number);
  };
  if (const auto number = matcher.number(value); number && is_moderate(*number)) {
    product.number = *number;
  } else if (is_inner && mul != nullptr) {
    for (const ValueId input : mul->inputs)
      multiply(product, product_of(matcher, input, false, depth + 1), 1);
  } else if (is_inner && div != nullptr && is_divisor(div->inputs[1])) {
    product = product_of(matcher, div->inputs[0], false, depth + 1);
    product.number /= *matcher.number(div->inputs[1]);
  } else if (is_inner && (exponent == 2 || exponent == 3)) {
    multiply(product, product_of(matcher, power->inputs[0], false, depth + 1),
             static_cast<int>(exponent));
  } else {
    product.factors = {value};
  }
  return product;
}

/// t where the value is 1 + t; no_value where it is not.
ValueId one_plus(const Matcher& matcher, ValueId value) {
  const Node* sum = matcher.maker(value, "Add");
  return matcher.beside(sum, [&](ValueId addend) { return matcher.is_number(addend, 1); })
      .value_or(graph::no_value);
}

/// 1 + erf(x / sqrt(2)).
bool is_one_plus_erf(const Matcher& matcher, ValueId value, ValueId x) {
  const Node* erf = matcher.maker(one_plus(matcher, value), "Erf");
  if (erf == nullptr) return false;
  const Product inner = product_of(matcher, erf->inputs[0]);
  return inner.factors == std::vector{x} &&
         is_about(inner.number, std::numbers::sqrt2 / 2, matcher.type(x));
}

/// 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)), also with x taken out of the sum.
bool is_one_plus_tanh(const Matcher& matcher, ValueId value, ValueId x) {
  const Node* tanh = matcher.maker(one_plus(matcher, value), "Tanh");
  if (tanh == nullptr) return false;
  const DataType type = matcher.type(x);
  const Product inner = product_of(matcher, tanh->inputs[0]);
  if (!is_about(inner.number, std::sqrt(2 / std::numbers::pi), type)) return false;
  const auto is_cubic_term = [&](ValueId term, std::size_t power) {
    const Product cubic = product_of(matcher, term);
    return cubic.factors == std::vector(power, x) && is_about(cubic.number, 0.044715, type);
  };
  if (inner.factors.size() == 1) {
    const Node* sum = matcher.maker(inner.factors[0], "Add");
    return matcher.beside(sum, [&](ValueId term) { return is_cubic_term(term, 3); }) == x;
  }
  const auto factor = inner.beside(x);
  return factor && is_cubic_term(one_plus(matcher, *factor), 2);
}

/// a where the value is sigmoid(a x).
std::optional<double> sigmoid_slope(const Matcher& matcher, ValueId value, ValueId x) {
  const Node* sigmoid = matcher.maker(value, "Sigmoid");
  if (sigmoid == nullptr) return std::nullopt;
  if (sigmoid->inputs[0] == x) return 1;
  const auto [of, factor] = matcher.multiple(sigmoid->inputs[0]);
  return of == x ? std::optional(factor) : std::nullopt;
}

/// The activation of x, if `product` is one: each is a product of x and a function of x.
std::optional<Node> activation(const Pass& pass, const Product& product, ValueId x,
                               const Node& root) {
  const auto function = product.beside(x);
  if (!function || pass.shape(x) != pass.shape(root.outputs[0])) return std::nullopt;
  Node node = root;
  node.inputs = {x};
  const bool is_half = is_about(product.number, 0.5, pass.type(x));
  const auto slope = sigmoid_slope(pass, *function, x);
  if (is_half && is_one_plus_erf(pass, *function, x)) {
    node.op_type = "Gelu";
    node.attributes = {{"approximate", std::string("none")}};
  } else if (is_half && is_one_plus_tanh(pass, *function, x)) {
    node.op_type = "Gelu";
    node.attributes = {{"approximate", std::string("tanh")}};
  } else if (slope && product.number == 1 && Matcher::is_attribute(*slope, pass.type(x))) {
    node.op_type = "Swish";
    node.attributes = {{"alpha", static_cast<float>(*slope)}};
  } else {
    return std::nullopt;
  }
  if (!pass.is_closed(root.outputs[0], {&x, 1})) return std::nullopt;
  return pass.if_it_runs(std::move(node));
}

}  // namespace

void fuse_activations(Graph& graph, const KernelTable& kernels) {
  rewrite_nodes(graph, kernels, [](Pass& pass, const Node& node) -> std::optional<Node> {
    if (!is_onnx(node, "Mul") && !is_onnx(node, "Div")) return std::nullopt;
    const Product product = product_of(pass, node.outputs[0], true);
    for (const ValueId x : product.factors)
      if (auto fused = activation(pass, product, x, node)) return fused;
    return std::nullopt;
  });
}

}  // namespace autopar::runtime::passes
