#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/constant_store.h"
#include "runtime/kernels/common/element_types.h"
#include "runtime/passes/channel_scale.h"

namespace autopar::runtime::passes {
namespace {

using graph::Tensor;

/// Whether the product is as exact as its factors: neither too large for a number of type T, nor so
/// small that it has fewer digits, which a moderate factor makes of nothing but the smallest
/// weights: trained models have such.
template <typename T>
bool is_exact_product(double weight, double factor) {
  const double product = std::abs(weight * factor);
  const bool is_small = weight != 0 && factor != 0 && product < std::numeric_limits<T>::min();
  return product <= std::numeric_limits<T>::max() && (!is_small || is_moderate(factor));
}

/// Whether weights hold the products of all their elements with their channel's factor. What is
/// absent, where memory is predicted, counts as if it did.
bool hold_products(const Tensor& weights, const Doubles& factors) {
  if (!weights.has_data() || weights.elements() == 0) return true;
  const Tensor stored = weights.contiguous_copy();
  const auto channel = static_cast<std::size_t>(stored.elements()) / factors.size();
  bool all = true;
  visit_type(stored.type(), Floats{}, [&]<typename T>(T) {
    const std::span<const T> elements = stored.values<T>();
    for (std::size_t i = 0; i < elements.size() && all; ++i)
      all = is_exact_product<T>(static_cast<double>(elements[i]), factors[i / channel]);
  });
  return all;
}

/// Whether it is a Conv of so many channels, its weights constants in which a factor is not lost.
bool can_take(const Matcher& matcher, const Node& conv, std::size_t channels) {
  if (!is_onnx(conv, "Conv")) return false;
  const ValueId weights = conv.inputs[1];
  const DataType type = matcher.type(weights);
  return (type == DataType::float32 || type == DataType::float64) && matcher.is_constant(weights) &&
         matcher.shape(weights)[0] == static_cast<std::int64_t>(channels) &&
         (!has_input(conv, 2) || numbers(matcher, conv.inputs[2]).has_value());
}

Tensor scaled_weights(const Tensor& stored, const Doubles& factors) {
  Tensor scaled = stored.contiguous_copy();
  visit_type(scaled.type(), Floats{}, [&]<typename T>(T) {
    auto* element = reinterpret_cast<T*>(scaled.mutable_bytes().data());
    for (const double factor : factors)
      for (std::int64_t i = 0; i < scaled.elements() / std::ssize(factors); ++i, ++element)
        *element = static_cast<T>(static_cast<double>(*element) * factor);
  });
  return scaled;
}

/// The weights are dropped.
Tensor scaled_weights(const Tensor& stored, const Doubles& factors, ConstantStore* store) {
  if (!stored.has_data()) return stored;
  const Tensor by = tensor_of(DataType::float64, factors);
  return derived(
      store, {"scaled by channel", {&stored, &by}}, [&] { return scaled_weights(stored, factors); },
      /*replaces=*/true);
}

Doubles shifted_bias(const Matcher& matcher, const Node& conv, const ChannelScale& scale) {
  Doubles bias =
      has_input(conv, 2) ? *numbers(matcher, conv.inputs[2]) : Doubles(scale.shifts.size(), 0);
  for (std::size_t c = 0; c < bias.size(); ++c)
    bias[c] = bias[c] * scale.factors[c] + scale.shifts[c];
  return bias;
}

/// False for infinities and NaN, too.
bool is_in_range(double number) { return std::abs(number) <= std::numeric_limits<float>::max(); }

/// The convolution whose result the node scales, with the scale in it; the old one is dead then.
std::optional<Node> scaled_convolution(const Pass& pass, const Node& node,
                                       const ChannelScale& scale) {
  const Node* conv = pass.maker(scale.operand);
  if (conv == nullptr || !pass.is_read_once(scale.operand) ||
      !can_take(pass, *conv, scale.factors.size()) ||
      !hold_products(*pass.graph.value(conv->inputs[1]).constant, scale.factors) ||
      !std::ranges::all_of(shifted_bias(pass, *conv, scale), is_in_range))
    return std::nullopt;
  Node scaled = *conv;
  scaled.name = node.name;
  scaled.outputs = node.outputs;
  return pass.if_it_runs(std::move(scaled));
}

}  // namespace

std::int64_t fold_channel_scales(Graph& graph, const KernelTable& kernels, ConstantStore* store) {
  const auto first_new = static_cast<ValueId>(graph.values.size());
  std::int64_t bytes = 0;
  /// A constant that the convolution no longer reads.
  const auto drop = [&](const Matcher& matcher, ValueId id) {
    const Tensor& dropped = *graph.value(id).constant;
    dropped.release_pages();
    if (id >= first_new || matcher.is_read_once(id)) bytes -= dropped.size_bytes();
  };
  const auto add = [&](ValueId like, const char* suffix, Tensor tensor) {
    bytes += tensor.size_bytes();
    return graph.add_constant(graph.value(like).name + suffix, std::move(tensor));
  };
  rewrite_nodes(graph, kernels, [&](Pass& pass, const Node& node) -> std::optional<Node> {
    for (const std::size_t operand : {0, 1}) {
      const auto scale = scale_of(pass, node, operand);
      auto conv = scale ? scaled_convolution(pass, node, *scale) : std::nullopt;
      if (!conv) continue;
      const ValueId weights = conv->inputs[1];
      Tensor bias = tensor_of(pass.type(weights), shifted_bias(pass, *conv, *scale));
      if (has_input(*conv, 2)) drop(pass, conv->inputs[2]);
      Tensor scaled = scaled_weights(*graph.value(weights).constant, scale->factors, store);
      drop(pass, weights);
      conv->inputs = {conv->inputs[0], add(weights, "_scaled", std::move(scaled)),
                      add(weights, "_bias", std::move(bias))};
      return conv;
    }
    return std::nullopt;
  });
  return bytes;
}

}  // namespace autopar::runtime::passes
