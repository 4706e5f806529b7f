#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "runtime/passes/matcher.h"
#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

/// A product as a number times values; a power is its base several times over.
struct Product {
  double number = 1;
  std::vector<ValueId> factors;

  /// The factor beside `x`, if there are just these two and the number is that.
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

/// Each activation is a product of x and a function of x. Its inner products are taken apart, so
/// that the order in which they were written does not matter.
class ActivationFusion {
 public:
  ActivationFusion(Graph& graph, const KernelTable& kernels)
      : graph_(graph), kernels_(kernels), matcher_(graph) {}

  void run() {
    for (Node& node : graph_.nodes) {
      if (!node.domain.empty() || (node.op_type != "Mul" && node.op_type != "Div")) continue;
      const Product product = product_of(node.outputs[0], true);
      for (const ValueId x : product.factors) {
        const auto activation = spelled(product, x, node);
        if (!activation) continue;
        node = *activation;
        break;
      }
    }
  }

 private:
  std::optional<Node> spelled(const Product& product, ValueId x, const Node& root) const {
    const auto function = product.beside(x);
    if (!function || matcher_.shape(x) != matcher_.shape(root.outputs[0])) return std::nullopt;
    Node node = root;
    node.inputs = {x};
    if (is_about(product.number, 0.5, matcher_.type(x)) && is_one_plus_erf(*function, x)) {
      node.op_type = "Gelu";
      node.attributes = {{"approximate", std::string("none")}};
    } else if (is_about(product.number, 0.5, matcher_.type(x)) && is_one_plus_tanh(*function, x)) {
      node.op_type = "Gelu";
      node.attributes = {{"approximate", std::string("tanh")}};
    } else if (const auto slope = sigmoid_slope(*function, x);
               slope && product.number == 1 && Matcher::is_attribute(*slope, matcher_.type(x))) {
      node.op_type = "Swish";
      node.attributes = {{"alpha", static_cast<float>(*slope)}};
    } else {
      return std::nullopt;
    }
    const bool fits =
        matcher_.is_closed(root.outputs[0], {&x, 1}) && can_run(kernels_, graph_, node);
    return fits ? std::optional(node) : std::nullopt;
  }

  /// 1 + erf(x / sqrt(2)).
  bool is_one_plus_erf(ValueId value, ValueId x) const {
    const Node* erf = matcher_.maker(one_plus(value), "Erf");
    if (erf == nullptr) return false;
    const Product inner = product_of(erf->inputs[0], false);
    return inner.factors == std::vector{x} &&
           is_about(inner.number, std::numbers::sqrt2 / 2, matcher_.type(x));
  }

  /// 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)), also with x taken out of the sum.
  bool is_one_plus_tanh(ValueId value, ValueId x) const {
    const Node* tanh = matcher_.maker(one_plus(value), "Tanh");
    if (tanh == nullptr) return false;
    const DataType type = matcher_.type(x);
    const Product inner = product_of(tanh->inputs[0], false);
    if (!is_about(inner.number, std::sqrt(2 / std::numbers::pi), type)) return false;
    const auto is_cubic_term = [&](ValueId term, std::size_t power) {
      const Product cubic = product_of(term, false);
      return cubic.factors == std::vector(power, x) && is_about(cubic.number, 0.044715, type);
    };
    if (inner.factors.size() == 1) {
      const Node* sum = matcher_.maker(inner.factors[0], "Add");
      const auto other = matcher_.beside(sum, [&](ValueId term) { return is_cubic_term(term, 3); });
      return other == x;
    }
    const auto factor = inner.beside(x);
    return factor && is_cubic_term(one_plus(*factor), 2);
  }

  /// a where the value is sigmoid(a x).
  std::optional<double> sigmoid_slope(ValueId value, ValueId x) const {
    const Node* sigmoid = matcher_.maker(value, "Sigmoid");
    if (sigmoid == nullptr) return std::nullopt;
    if (sigmoid->inputs[0] == x) return 1;
    const auto [of, factor] = matcher_.multiple(sigmoid->inputs[0]);
    return of == x ? std::optional(factor) : std::nullopt;
  }

  /// t where the value is 1 + t; no_value where it is not.
  ValueId one_plus(ValueId value) const {
    return matcher_
        .beside(matcher_.maker(value, "Add"),
                [&](ValueId addend) { return matcher_.is_number(addend, 1); })
        .value_or(graph::no_value);
  }

  /// Taken apart down to what other nodes read too.
  Product product_of(ValueId value, bool is_root) const {
    Product product;
    if (value == graph::no_value) return product;
    const bool is_inner = is_root || matcher_.uses().is_read_once(value);
    const Node* mul = matcher_.maker(value, "Mul");
    const Node* div = matcher_.maker(value, "Div");
    const Node* power = matcher_.maker(value, "Pow");
    if (const auto number = matcher_.number(value)) {
      product.number = *number;
    } else if (is_inner && mul != nullptr) {
      for (const ValueId input : mul->inputs) multiply(product, product_of(input, false), 1);
    } else if (is_inner && div != nullptr && matcher_.number(div->inputs[1])) {
      product = product_of(div->inputs[0], false);
      product.number /= *matcher_.number(div->inputs[1]);
    } else if (is_inner && power != nullptr && matcher_.is_number(power->inputs[1], 2)) {
      multiply(product, product_of(power->inputs[0], false), 2);
    } else if (is_inner && power != nullptr && matcher_.is_number(power->inputs[1], 3)) {
      multiply(product, product_of(power->inputs[0], false), 3);
    } else {
      product.factors = {value};
    }
    return product;
  }

  static void multiply(Product& product, const Product& by, int times) {
    for (int i = 0; i < times; ++i) {
      product.number *= by.number;
      product.factors.insert(product.factors.end(), by.factors.begin(), by.factors.end());
    }
  }

  Graph& graph_;
  const KernelTable& kernels_;
  Matcher matcher_;
};

}  // namespace

void fuse_activations(Graph& graph, const KernelTable& kernels) {
  ActivationFusion(graph, kernels).run();
}

}  // namespace autopar::runtime::passes
