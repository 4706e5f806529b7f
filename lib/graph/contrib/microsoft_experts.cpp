// Mixtures of experts of com.microsoft: each token goes through the few experts that its router
// prefers. Experts' matrices are gathered by token, which the runtime fuses with their product
// (passes/fuse_gathered_product), or, where they are packed, named to ExpertMatMulNBits: none is
// copied, and each is read once.

#include <algorithm>

#include "base/error.h"
#include "graph/contrib/microsoft_bodies.h"
#include "graph/contrib/packed_numbers.h"
#include "graph/own_operators.h"

namespace autopar::graph::microsoft {
namespace {

/// What both operators have: tokens of `hidden` numbers, each through `chosen` of `experts`.
struct Mixture {
  std::int64_t tokens = 0;
  std::int64_t hidden = 0;
  std::int64_t experts = 0;
  std::int64_t chosen = 1;
  std::int64_t rows() const { return tokens * chosen; }
  std::string activation = "relu";
  std::int64_t fusion = 0;
  bool is_gated() const { return activation == "swiglu"; }
  /// Whether one product makes both halves of a gated activation.
  bool is_fused() const { return is_gated() && fusion != 0; }
};

Mixture mixture_of(const BodyBuilder& body) {
  if (body.int_attribute("use_sparse_mixer", 0) != 0)
    fail("its attribute 'use_sparse_mixer' is not supported");
  const Shape& input = body.shape("input");
  const Shape& router = body.shape("router_probs");
  Mixture of;
  if (input.size() < 2 || input.size() > 3 || router.size() != 2)
    fail("input {} and router_probs {} are not supported", to_string(input), to_string(router));
  of.hidden = input.back();
  of.tokens = router[0];
  of.experts = router[1];
  of.chosen = body.int_attribute("k", 1);
  of.activation = body.string_attribute("activation_type", "relu");
  of.fusion = body.int_attribute("swiglu_fusion", 0);
  if (num_elements(input) != of.tokens * of.hidden || of.chosen < 1 || of.chosen > of.experts)
    fail("input {} and router_probs {} do not fit together, or not {} experts a token",
         to_string(input), to_string(router), of.chosen);
  return of;
}

/// "expert", [rows]: which one; "share", [tokens, chosen, 1]: how much of it counts; "x", [rows,
/// hidden], each token once for each of its experts. `shares` has what counts of each expert where
/// that is not what they are chosen by; `normalizes`: shares of a token sum to 1.
void add_routes(BodyBuilder& body, const Mixture& of, const std::string& shares, bool normalizes) {
  const std::string last = body.ints({-1});
  body.write(
      "probabilities = Softmax <axis = 1> (router_probs) "
      "best, place = TopK <axis = 1> (probabilities, {}) "
      "expert = Reshape (place, {})",
      body.ints({of.chosen}), body.ints({of.rows()}));
  body.add(shares.empty()
               ? "own_share = Identity (best)"
               : fmt::format("own_share = GatherElements <axis = 1> ({}, place)", shares));
  if (normalizes)
    body.write(
        "all_shares = ReduceSum <keepdims = 1> (own_share, {}) "
        "token_share = Div (own_share, all_shares)",
        last);
  else
    body.add("token_share = Identity (own_share)");
  body.write(
      "share = Unsqueeze (token_share, {}) once = Reshape (input, {}) "
      "each = Expand (once, {}) x = Reshape (each, {})",
      last, body.ints({of.tokens, 1, of.hidden}), body.ints({of.tokens, of.chosen, of.hidden}),
      body.ints({of.rows(), of.hidden}));
}

/// "active", [rows, inner], of "first", [rows, inner or its double], and, where there is a third
/// product, "third".
void add_activation(BodyBuilder& body, const Mixture& of, std::int64_t inner, bool has_third) {
  const auto number = [&](float value) { return body.number(value, body.type("input")); };
  std::string gate = "first";
  std::string linear = has_third ? "third" : "";
  if (of.is_fused() && of.fusion == 1) {  // side by side, element by element
    body.write(
        "pairs = Reshape (first, {0}) "
        "gate_column, linear_column = Split <axis = 2, num_outputs = 2> (pairs) "
        "gate = Squeeze (gate_column, {1}) linear = Squeeze (linear_column, {1})",
        body.ints({of.rows(), inner, 2}), body.ints({2}));
  } else if (of.is_fused()) {
    body.add("gate, linear = Split <axis = 1, num_outputs = 2> (first)");
  }
  if (of.is_fused()) {
    gate = "gate";
    linear = "linear";
  }
  if (of.is_gated()) {
    if (body.has_attribute("swiglu_limit")) {
      const float limit = body.float_attribute("swiglu_limit", 0);
      body.write("gate_below = Min ({}, {}) linear_within = Clip ({}, {}, {})", gate, number(limit),
                 linear, number(-limit), number(limit));
      gate = "gate_below";
      linear = "linear_within";
    }
    body.write(
        "steep = Mul ({0}, {1}) sigmoid = Sigmoid (steep) "
        "swish = Mul ({0}, sigmoid) moved = Add ({2}, {3}) "
        "active = Mul (swish, moved)",
        gate, number(body.float_attribute("activation_alpha", 1)), linear,
        number(body.float_attribute("activation_beta", 0)));
    return;
  }
  if (of.activation == "relu")
    body.add("activated = Relu (first)");
  else if (of.activation == "gelu")
    body.add("activated = Gelu <approximate = \"tanh\"> (first)");
  else if (of.activation == "silu")
    body.add("sigmoid = Sigmoid (first) activated = Mul (first, sigmoid)");
  else if (of.activation == "identity")
    body.add("activated = Identity (first)");
  else
    fail("its attribute 'activation_type' is '{}', which is not known", of.activation);
  body.add(has_third ? "active = Mul (activated, third)" : "active = Identity (activated)");
}

/// "output" of "second", [rows, hidden]: tokens' experts, weighted.
void add_mixture(BodyBuilder& body, const Mixture& of) {
  body.write(
      "by_token = Reshape (second, {}) weighted = Mul (by_token, share) "
      "mixed = ReduceSum <keepdims = 0> (weighted, {}) "
      "output = Reshape (mixed, {})",
      body.ints({of.tokens, of.chosen, of.hidden}), body.ints({1}), body.ints(body.shape("input")));
}

/// The width between both products, and whether shapes fit that.
std::int64_t inner_width(const BodyBuilder& body, const Mixture& of, const char* first,
                         std::int64_t bits_of_first, const char* second,
                         std::int64_t bits_of_second) {
  const Shape& one = body.shape(first);
  const Shape& two = body.shape(second);
  if (one.size() != 3 || two.size() != 3 || one[0] != of.experts || two[0] != of.experts)
    fail("experts' weights {} and {} are not of {} experts", to_string(one), to_string(two),
         of.experts);
  const std::int64_t inner =
      num_elements(two) * bits_of_second / (of.experts * std::max<std::int64_t>(1, of.hidden));
  const std::int64_t width = of.is_fused() ? 2 * inner : inner;
  if (num_elements(one) * bits_of_first != of.experts * width * of.hidden ||
      num_elements(two) * bits_of_second != of.experts * inner * of.hidden)
    fail("experts' weights {} and {} do not fit tokens of {}", to_string(one), to_string(two),
         of.hidden);
  return inner;
}

/// A gated activation takes its two halves from one product or from two.
void check_gate(const Mixture& of, bool has_third) {
  if (of.fusion < 0 || of.fusion > 2)
    fail("its attribute 'swiglu_fusion' is {}, which is not known", of.fusion);
  if (of.is_gated() && of.is_fused() == has_third)
    fail("swiglu with swiglu_fusion {} {} the input 'fc3_experts_weights'", of.fusion,
         has_third ? "does not go together with" : "needs");
}

/// `to`, [rows, columns]: rows of `x`, [rows, depth], each times its expert's matrix, [columns,
/// depth], and its expert's bias.
struct ExpertProduct {
  std::string x;
  std::string weights;
  std::string bias;
  std::string to;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
};

void add_product(BodyBuilder& body, const Mixture& of, const ExpertProduct& product) {
  std::string table = product.weights;
  // Older files call rows what are columns; where they lie is the same.
  if (body.shape(table) != Shape{of.experts, product.columns, product.depth}) {
    body.write("{0}_table = Reshape ({0}, {1})", table,
               body.ints({of.experts, product.columns, product.depth}));
    table += "_table";
  }
  body.write(
      "{0}_own = Gather <axis = 0> ({1}, expert) "
      "{0}_in = Reshape ({2}, {3}) {0}_out = MatMul ({0}_own, {0}_in) "
      "{0}_rows = Reshape ({0}_out, {4})",
      product.to, table, product.x, body.ints({of.rows(), product.depth, 1}),
      body.ints({of.rows(), product.columns}));
  body.add(body.has(product.bias) ? fmt::format("{0}_bias = Gather <axis = 0> ({1}, expert) "
                                                "{0} = Add ({0}_rows, {0}_bias)",
                                                product.to, product.bias)
                                  : fmt::format("{0} = Identity ({0}_rows)", product.to));
}

/// The numbers of one of QMoE's products: `fc1` and so on.
struct Packing {
  std::string name;
  std::int64_t bits = 4;
  std::int64_t block = 0;
  std::string weights() const { return name + "_experts_weights"; }
};

Packing packing_of(const BodyBuilder& body, const std::string& name) {
  const std::int64_t bits =
      body.int_attribute(name + "_expert_weight_bits", body.int_attribute("expert_weight_bits", 4));
  if (bits != 2 && bits != 4 && bits != 8) fail("{} bits are not supported", bits);
  return {name, bits, std::max<std::int64_t>(0, body.int_attribute("block_size", 0))};
}

void add_packed_product(BodyBuilder& body, const Mixture& of, const Packing& packing,
                        const ExpertProduct& product) {
  const std::string scales = packing.name + "_scales";
  const std::string zeros = packing.name + "_zero_points";
  const std::int64_t blocks =
      packing.block > 0 ? (product.depth + packing.block - 1) / packing.block : 1;
  const Shape scale_shape{of.experts, product.columns, blocks};
  const std::int64_t bytes = product.depth * packing.bits / 8;
  if (body.type(product.weights) != DataType::uint8 || !body.has(scales) ||
      num_elements(body.shape(scales)) != num_elements(scale_shape))
    fail("weights {} of {} need scales of {}", to_string(body.shape(product.weights)),
         name_of(body.type(product.weights)), to_string(scale_shape));
  const auto shaped = [&](const std::string& name, const Shape& shape) {
    if (body.shape(name) == shape) return name;
    body.write("{0}_table = Reshape ({0}, {1})", name, body.ints(shape));
    return name + "_table";
  };
  std::string zero_points;
  if (body.has(zeros) && packing.block > 0) {
    zero_points = shaped(zeros, {of.experts, product.columns, (blocks * packing.bits + 7) / 8});
  } else if (body.has(zeros)) {  // one a column, packed along the columns
    unpack_numbers(body, zeros, zeros + "_flat", {of.experts, product.columns}, packing.bits);
    zero_points = zeros + "_each";
    body.write("{} = Reshape ({}_flat, {})", zero_points, zeros,
               body.ints({of.experts, product.columns, 1}));
  }
  std::vector<std::string> inputs{product.x,
                                  "expert",
                                  shaped(product.weights, {of.experts, product.columns, bytes}),
                                  shaped(scales, scale_shape),
                                  zero_points,
                                  body.has(product.bias) ? product.bias : ""};
  while (inputs.back().empty()) inputs.pop_back();
  body.add_in(own_domain, "ExpertMatMulNBits", inputs, {product.to});
  body.set("bits", packing.bits);
  body.set("block_size", packing.block);
}

}  // namespace

void mixture_of_experts(BodyBuilder& body) {
  const Mixture of = mixture_of(body);
  const bool has_third = body.has("fc3_experts_weights");
  check_gate(of, has_third);
  const std::int64_t inner =
      inner_width(body, of, "fc1_experts_weights", 1, "fc2_experts_weights", 1);
  const std::int64_t width = of.is_fused() ? 2 * inner : inner;
  add_routes(body, of, "", body.int_attribute("normalize_routing_weights", 0) != 0);
  add_product(body, of,
              {"x", "fc1_experts_weights", "fc1_experts_bias", "first", width, of.hidden});
  if (has_third)
    add_product(body, of,
                {"x", "fc3_experts_weights", "fc3_experts_bias", "third", inner, of.hidden});
  add_activation(body, of, inner, has_third);
  add_product(body, of,
              {"active", "fc2_experts_weights", "fc2_experts_bias", "second", of.hidden, inner});
  add_mixture(body, of);
}

/// ONNX Runtime's CPU has shares that sum to 1 whatever 'normalize_routing_weights' says, but for
/// those of router_weights.
void quantized_mixture_of_experts(BodyBuilder& body) {
  const Mixture of = mixture_of(body);
  if (body.string_attribute("quant_type", "int") != "int")
    fail("its attribute 'quant_type' is '{}', which is not supported",
         body.string_attribute("quant_type", "int"));
  if (body.int_attribute("weights_prepacked", -1) > 0)
    fail(
        "its weights are packed for one device, which is not supported: export them with "
        "weights_prepacked = 0");
  const bool has_third = body.has("fc3_experts_weights");
  check_gate(of, has_third);
  const Packing one = packing_of(body, "fc1");
  const Packing two = packing_of(body, "fc2");
  const std::int64_t inner = inner_width(body, of, "fc1_experts_weights", 8 / one.bits,
                                         "fc2_experts_weights", 8 / two.bits);
  const std::int64_t width = of.is_fused() ? 2 * inner : inner;
  const std::string shares = body.has("router_weights") ? "router_weights" : "";
  add_routes(body, of, shares,
             shares.empty() || body.int_attribute("normalize_routing_weights", 0) != 0);
  add_packed_product(body, of, one,
                     {"x", one.weights(), "fc1_experts_bias", "first", width, of.hidden});
  if (has_third) {
    const Packing three = packing_of(body, "fc3");
    add_packed_product(body, of, three,
                       {"x", three.weights(), "fc3_experts_bias", "third", inner, of.hidden});
  }
  add_activation(body, of, inner, has_third);
  add_packed_product(body, of, two,
                     {"active", two.weights(), "fc2_experts_bias", "second", of.hidden, inner});
  add_mixture(body, of);
}

}  // namespace autopar::graph::microsoft
