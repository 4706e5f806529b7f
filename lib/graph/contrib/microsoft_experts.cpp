// Mixtures of experts of com.microsoft: each token goes through the few experts that its router
// prefers. Experts' matrices are gathered by token, which the runtime fuses with their product
// (passes/fuse_gathered_product), or, where they are packed, named to ExpertMatMulNBits: none is
// copied, and each is read once.

#include <algorithm>

#include "base/checked.h"
#include "graph/contrib/families.h"
#include "graph/own_operators.h"

namespace autopar::graph {
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
  /// Columns of the first product, where experts have `inner` numbers inside.
  std::int64_t first_width(std::int64_t inner) const { return is_fused() ? 2 * inner : inner; }
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
  if (num_elements(input) != checked_multiply(of.tokens, of.hidden, "the numbers of its tokens") ||
      of.chosen < 1 || of.chosen > of.experts)
    fail("input {} and router_probs {} do not fit together, or not {} experts a token",
         to_string(input), to_string(router), of.chosen);
  return of;
}

/// Where tokens go.
struct Routes {
  Operand expert;  ///< [rows]: which one
  Operand share;   ///< [tokens, chosen, 1]: how much of it counts
  Operand x;       ///< [rows, hidden]: each token once for each of its experts
};

/// `shares` has what counts of each expert where that is not what they are chosen by; `normalizes`:
/// shares of a token sum to 1.
Routes routes(BodyBuilder& body, const Mixture& of, const Operand& shares, bool normalizes) {
  const Operand probabilities = body.op("Softmax", {body["router_probs"]}, {{"axis", 1}});
  const Operands best = body.ops("TopK", {probabilities, Ints{of.chosen}}, 2, {{"axis", 1}});
  Routes made;
  made.expert = body.reshape(best[1], {of.rows()});
  Operand share = shares ? body.op("GatherElements", {shares, best[1]}, {{"axis", 1}}) : best[0];
  if (normalizes) share = share / body.op("ReduceSum", {share, Ints{-1}}, {{"keepdims", 1}});
  made.share = body.op("Unsqueeze", {share, Ints{-1}});
  const Operand once = body.reshape(body["input"], {of.tokens, 1, of.hidden});
  const Operand each = body.op("Expand", {once, Ints{of.tokens, of.chosen, of.hidden}});
  made.x = body.reshape(each, {of.rows(), of.hidden});
  return made;
}

/// The two halves of a gated activation, [rows, inner] each, which one product makes: side by side,
/// or element by element.
Operands gate_halves(BodyBuilder& body, const Mixture& of, std::int64_t inner, const Operand& x) {
  if (of.fusion != 1) return body.split(x, 2, 1);
  Operands halves = body.split(body.reshape(x, {of.rows(), inner, 2}), 2, 2);
  for (Operand& half : halves) half = body.op("Squeeze", {half, Ints{2}});
  return halves;
}

Operand swiglu(BodyBuilder& body, Operand gate, Operand linear) {
  const auto number = [&](float value) { return body.number(value, body.type("input")); };
  if (body.has_attribute("swiglu_limit")) {
    const float limit = body.float_attribute("swiglu_limit", 0);
    gate = body.op("Min", {gate, number(limit)});
    linear = body.op("Clip", {linear, number(-limit), number(limit)});
  }
  const Operand steep = gate * number(body.float_attribute("activation_alpha", 1));
  const Operand swish = gate * body.op("Sigmoid", {steep});
  return swish * (linear + number(body.float_attribute("activation_beta", 0)));
}

/// [rows, inner] of the first product, [rows, inner or its double], and of the third, if there is
/// one.
Operand activated(BodyBuilder& body, const Mixture& of, std::int64_t inner, const Operand& first,
                  const Operand& third) {
  if (of.is_fused()) {
    const Operands halves = gate_halves(body, of, inner, first);
    return swiglu(body, halves[0], halves[1]);
  }
  if (of.is_gated()) return swiglu(body, first, third);
  Operand active = first;
  if (of.activation == "relu")
    active = body.op("Relu", {first});
  else if (of.activation == "gelu")
    active = body.op("Gelu", {first}, {{"approximate", "tanh"}});
  else if (of.activation == "silu")
    active = first * body.op("Sigmoid", {first});
  else if (of.activation != "identity")
    fail("its attribute 'activation_type' is '{}', which is not known", of.activation);
  return third ? active * third : active;
}

/// The width between both products. Throws Error where shapes do not fit it; their weights hold so
/// many numbers in an element.
std::int64_t inner_width(const BodyBuilder& body, const Mixture& of, std::int64_t first_numbers,
                         std::int64_t second_numbers) {
  const Shape& one = body.shape("fc1_experts_weights");
  const Shape& two = body.shape("fc2_experts_weights");
  if (one.size() != 3 || two.size() != 3 || one[0] != of.experts || two[0] != of.experts)
    fail("experts' weights {} and {} are not of {} experts", to_string(one), to_string(two),
         of.experts);
  const auto times = [](std::int64_t a, std::int64_t b) {
    return checked_multiply(a, b, "the numbers of its experts");
  };
  const std::int64_t all_first = times(num_elements(one), first_numbers);
  const std::int64_t all_second = times(num_elements(two), second_numbers);
  const std::int64_t inner = all_second / times(of.experts, std::max<std::int64_t>(1, of.hidden));
  const auto of_width = [&](std::int64_t width) {
    return times(times(of.experts, width), of.hidden);
  };
  if (of.hidden < 1 || inner < 1 || all_first != of_width(of.first_width(inner)) ||
      all_second != of_width(inner))
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

/// What the matrices of a product are called, "fc1" and so on, and their form: [columns, depth] for
/// each expert.
struct Matrices {
  std::string name;
  std::int64_t columns = 0;
  std::int64_t depth = 0;

  std::string weights() const { return name + "_experts_weights"; }
  std::string bias() const { return name + "_experts_bias"; }
};

/// The input in this shape.
Operand shaped(BodyBuilder& body, const std::string& input, const Shape& shape) {
  return body.shape(input) == shape ? body[input] : body.reshape(body[input], shape);
}

/// [rows, columns] of rows of `x`, [rows, depth]: each times its expert's matrix, with its expert's
/// bias.
Operand product(BodyBuilder& body, const Mixture& of, const Operand& x, const Operand& expert,
                const Matrices& matrices) {
  const auto& [name, columns, depth] = matrices;
  const auto own = [&](const Operand& table) {
    return body.op("Gather", {table, expert}, {{"axis", 0}});
  };
  // Older files call rows what are columns; where they lie is the same.
  const Operand matrix = own(shaped(body, matrices.weights(), {of.experts, columns, depth}));
  const Operand column = body.reshape(x, {of.rows(), depth, 1});
  const Operand rows = body.reshape(body.op("MatMul", {matrix, column}), {of.rows(), columns});
  return body.has(matrices.bias()) ? rows + own(body[matrices.bias()]) : rows;
}

std::int64_t bits_of(const BodyBuilder& body, const std::string& name) {
  const std::int64_t bits =
      body.int_attribute(name + "_expert_weight_bits", body.int_attribute("expert_weight_bits", 4));
  if (bits != 2 && bits != 4 && bits != 8) fail("{} bits are not supported", bits);
  return bits;
}

/// As `product`, of packed numbers.
Operand packed_product(BodyBuilder& body, const Mixture& of, const Operand& x,
                       const Operand& expert, const Matrices& matrices) {
  const auto& [name, columns, depth] = matrices;
  const std::int64_t bits = bits_of(body, name);
  const std::int64_t block = std::max<std::int64_t>(0, body.int_attribute("block_size", 0));
  const std::string weights = matrices.weights();
  const std::string scales = name + "_scales";
  const std::string zeros = name + "_zero_points";
  if (block > largest_block) fail("its attribute 'block_size' is {}", block);
  const std::int64_t blocks = block > 0 ? (depth + block - 1) / block : 1;
  const Shape scale_shape{of.experts, columns, blocks};
  if (body.type(weights) != DataType::uint8 || !body.has(scales) ||
      num_elements(body.shape(scales)) != num_elements(scale_shape))
    fail("weights {} of {} need scales of {}", to_string(body.shape(weights)),
         name_of(body.type(weights)), to_string(scale_shape));
  Operand zero_points;
  if (body.has(zeros) && block > 0)
    zero_points = shaped(body, zeros, {of.experts, columns, (blocks * bits + 7) / 8});
  else if (body.has(zeros))  // one a column, packed along the columns
    zero_points = body.reshape(unpack_numbers(body, body[zeros], {of.experts, columns}, bits),
                               {of.experts, columns, 1});
  Operand made = body.op("ExpertMatMulNBits",
                         {x, expert, shaped(body, weights, {of.experts, columns, depth * bits / 8}),
                          shaped(body, scales, scale_shape), zero_points, body[matrices.bias()]},
                         {{"bits", bits}, {"block_size", block}});
  body.set_domain(own_domain);
  return made;
}

/// Everything behind the routes, with products of one kind or the other.
void add_experts(BodyBuilder& body, const Mixture& of, std::int64_t inner, const Routes& to,
                 decltype(product)* multiply) {
  const bool has_third = body.has("fc3_experts_weights");
  const auto times = [&](const Operand& x, const char* name, std::int64_t columns,
                         std::int64_t depth) {
    return multiply(body, of, x, to.expert, {name, columns, depth});
  };
  const Operand first = times(to.x, "fc1", of.first_width(inner), of.hidden);
  const Operand third = has_third ? times(to.x, "fc3", inner, of.hidden) : Operand();
  const Operand active = activated(body, of, inner, first, third);
  const Operand rows = times(active, "fc2", of.hidden, inner);
  const Operand by_token = body.reshape(rows, {of.tokens, of.chosen, of.hidden});
  const Operand mixed = body.op("ReduceSum", {by_token * to.share, Ints{1}}, {{"keepdims", 0}});
  body.output("output", body.reshape(mixed, body.shape("input")));
}

void mixture_of_experts(BodyBuilder& body) {
  const Mixture of = mixture_of(body);
  check_gate(of, body.has("fc3_experts_weights"));
  const std::int64_t inner = inner_width(body, of, 1, 1);
  const bool normalizes = body.int_attribute("normalize_routing_weights", 0) != 0;
  add_experts(body, of, inner, routes(body, of, {}, normalizes), product);
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
  check_gate(of, body.has("fc3_experts_weights"));
  const std::int64_t inner =
      inner_width(body, of, 8 / bits_of(body, "fc1"), 8 / bits_of(body, "fc2"));
  const Operand shares = body["router_weights"];
  const bool normalizes = !shares || body.int_attribute("normalize_routing_weights", 0) != 0;
  add_experts(body, of, inner, routes(body, of, shares, normalizes), packed_product);
}

constexpr ContribOperator operators[] = {
    {microsoft_domain, "MoE",
     "input router_probs fc1_experts_weights fc1_experts_bias? fc2_experts_weights "
     "fc2_experts_bias? fc3_experts_weights? fc3_experts_bias?",
     "output",
     "activation_alpha:f activation_beta:f activation_type:s k:i normalize_routing_weights:i "
     "swiglu_fusion:i swiglu_limit:f use_sparse_mixer:i",
     mixture_of_experts},
    {microsoft_domain, "QMoE",
     "input router_probs fc1_experts_weights fc1_scales? fc1_experts_bias? fc2_experts_weights "
     "fc2_scales? fc2_experts_bias? fc3_experts_weights? fc3_scales? fc3_experts_bias? "
     "fc1_zero_points? fc2_zero_points? fc3_zero_points? router_weights? fc1_global_scale? "
     "fc2_global_scale? fc1_act_scale? fc2_act_scale? fc1_act_block_scale? fc2_act_block_scale?",
     "output",
     "accuracy_level:i activation_alpha:f activation_beta:f activation_type:s block_size:i "
     "expert_weight_bits:i fc1_expert_weight_bits:i fc2_expert_weight_bits:i "
     "fc3_expert_weight_bits:i k:i normalize_routing_weights:i quant_type:s swiglu_fusion:i "
     "swiglu_limit:f use_sparse_mixer:i weights_prepacked:i",
     quantized_mixture_of_experts},
};

}  // namespace

std::span<const ContribOperator> expert_operators() { return operators; }

}  // namespace autopar::graph
