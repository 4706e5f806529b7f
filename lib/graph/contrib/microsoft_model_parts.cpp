// Parts of models: embeddings, plain and quantised, and what else ONNX Runtime's quantiser makes,
// attention and recurrent networks.

#include <array>

#include "graph/contrib/families.h"
#include "graph/contrib/microsoft_heads.h"

namespace autopar::graph {
namespace {

using microsoft::quantisation_parameter;

/// The numbers that bytes of the tensor of that name stand for; one scale and zero point for all.
Operand numbers_of(BodyBuilder& body, const Operand& bytes, const std::string& tensor) {
  Operands parameters;
  for (const std::string& name : {tensor + "_scale", tensor + "_zero_point"}) {
    if (body.has(name) && num_elements(body.shape(name)) != 1)
      fail("its input '{}' is {}, not one number", name, to_string(body.shape(name)));
    parameters.push_back(quantisation_parameter(body, name));
  }
  return body.op("DequantizeLinear", {bytes, parameters[0], parameters[1]});
}

/// How many words of each sequence the mask has.
void add_mask_index(BodyBuilder& body, const char* output) {
  if (!body.wants(output)) return;
  if (!body.has("mask")) {
    const Operand none = body.op("ConstantOfShape", {Ints{body.shape("input_ids")[0]}});
    return body.output(output, body.cast(none, DataType::int32));
  }
  const Operand is_word =
      body.op("Equal", {body.cast(body["mask"], DataType::int64), body.integer(1)});
  body.output(output, body.op("ReduceSum", {body.cast(is_word, DataType::int32), Ints{1}},
                              {{"keepdims", 0}}));
}

/// The sum of words, positions and segments; where it is quantised, only the rows that are looked
/// up become numbers.
Operand embedded(BodyBuilder& body, bool is_quantised) {
  const Shape& ids = body.shape("input_ids");
  if (ids.size() != 2) fail("its input_ids are {}, not of two dimensions", to_string(ids));
  const std::string suffix = is_quantised ? "_quant" : "";
  const auto numbers = [&](const Operand& rows, const char* tensor) {
    return is_quantised ? numbers_of(body, rows, tensor) : rows;
  };
  const auto gathered = [&](const Operand& table, const char* places) {
    return body.op("Gather", {table, body[places]});
  };
  Operand sum = numbers(gathered(body["word_embedding" + suffix], "input_ids"), "word_embedding");
  const Operand positions = body["position_embedding" + suffix];
  const bool has_places = !is_quantised && body.has("position_ids");
  sum = sum + numbers(has_places ? gathered(positions, "position_ids")
                                 : body.slice(positions, 0, ids[1], 0),
                      "position_embedding");
  if (!body.has("segment_ids")) return sum;
  return sum + numbers(gathered(body["segment_embedding"], "segment_ids"), "segment_embedding");
}

Operand normalized(BodyBuilder& body, const Operand& x, const Operand& gamma, const Operand& beta) {
  return body.op("LayerNormalization", {x, gamma, beta},
                 {{"axis", -1}, {"epsilon", body.float_attribute("epsilon", 1e-12F)}});
}

void embed_layer_normalization(BodyBuilder& body) {
  const Operand sum = embedded(body, false);
  body.output("embedding_sum", sum);
  body.output("output", normalized(body, sum, body["gamma"], body["beta"]));
  add_mask_index(body, "mask_index");
}

void qembed_layer_normalization(BodyBuilder& body) {
  const Operand sum = embedded(body, true);
  const Operand gamma = numbers_of(body, body["gamma_quant"], "gamma");
  const Operand beta = numbers_of(body, body["beta_quant"], "beta");
  body.output("layernorm_out", normalized(body, sum, gamma, beta));
  add_mask_index(body, "mask_index_out");
}

bool has_several(const BodyBuilder& body, const char* parameter) {
  return body.has(parameter) && num_elements(body.shape(parameter)) != 1;
}

/// A scale or zero point of each column of a matrix: one number stands for all of them.
Operand of_each_column(BodyBuilder& body, const char* parameter, const char* matrix) {
  if (!body.has(parameter) || has_several(body, parameter)) return body[parameter];
  if (body.shape(matrix).empty()) fail("its input '{}' is no matrix", matrix);
  return body.op("Expand",
                 {quantisation_parameter(body, parameter), Ints{body.shape(matrix).back()}});
}

/// An Attention, which has a body of its own, of dequantised tokens and weights: products of bytes
/// once they are fused.
void qattention(BodyBuilder& body) {
  const Operand tokens = numbers_of(body, body["input"], "input");
  const bool is_per_column =
      has_several(body, "weight_scale") || has_several(body, "weight_zero_point");
  const Operand weights =
      is_per_column ? body.op("DequantizeLinear",
                              {body["weight"], of_each_column(body, "weight_scale", "weight"),
                               of_each_column(body, "weight_zero_point", "weight")},
                              {{"axis", 1}})
                    : numbers_of(body, body["weight"], "weight");
  const std::size_t outputs = body.wants("present") ? 2 : 1;
  const Operands made = body.ops(
      "Attention", {tokens, weights, body["bias"], body["mask_index"], body["past"]}, outputs);
  body.set_domain(microsoft_domain);
  body.pass_attributes({"do_rotary", "mask_filter_value", "num_heads", "past_present_share_buffer",
                        "scale", "unidirectional"});
  body.output("output", made[0]);
  if (outputs > 1) body.output("present", made[1]);
}

/// The sizes of a DynamicQuantizeLSTM.
struct Lstm {
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t features = 0;
  std::int64_t directions = 1;
  std::int64_t hidden = 0;
};

Lstm lstm_of(const BodyBuilder& body) {
  const Shape& x = body.shape("X");
  const Shape& w = body.shape("W");
  const Shape& r = body.shape("R");
  const std::int64_t expected =
      body.string_attribute("direction", "forward") == "bidirectional" ? 2 : 1;
  if (x.size() != 3 || r.size() != 3 || w.size() != 3)
    fail("X {}, W {} and R {} are not supported", to_string(x), to_string(w), to_string(r));
  const Lstm of{x[0], x[1], x[2], r[0], r[1]};
  if (w != Shape{of.directions, of.features, 4 * of.hidden} || r[2] != 4 * of.hidden ||
      of.directions != expected)
    fail("X {}, W {} and R {} do not fit together", to_string(x), to_string(w), to_string(r));
  return of;
}

void refuse_other_cells(const BodyBuilder& body) {
  body.refuse_input("sequence_lens");
  if (body.int_attribute("input_forget", 0) != 0 || body.float_attribute("clip", 0) != 0)
    fail("its attributes 'input_forget' and 'clip' are not supported");
  const auto activations = body.strings_attribute("activations");
  constexpr std::array<const char*, 3> usual = {"Sigmoid", "Tanh", "Tanh"};
  for (std::size_t a = 0; a < activations.size(); ++a)
    if (activations[a] != usual[a % usual.size()])
      fail("its activation '{}' is not supported", activations[a]);
}

/// Bytes of rows or weights.
struct Bytes {
  Operand bytes;
  Operand scale;
  Operand zero;
};

Bytes as_bytes(const Operand& rows) {
  const Operands made = rows.body->ops("DynamicQuantizeLinear", {rows}, 3);
  return {made[0], made[1], made[2]};
}

/// [rows, columns] of [rows, depth] and [depth, columns].
Operand product(BodyBuilder& body, const Bytes& x, const Bytes& weights) {
  const Operand sums = body.op("MatMulInteger", {x.bytes, weights.bytes, x.zero, weights.zero});
  return body.cast(sums, DataType::float32) * (x.scale * weights.scale);
}

/// One direction's part of the inputs; what the call leaves out is left out or empty.
struct Direction {
  Bytes input_weights;
  Bytes recurrent_weights;
  Operand bias = {};        ///< [4 hidden], of the input's and the state's
  Operands peepholes = {};  ///< of the gates i, o and f
};

/// Direction `d`'s part of an input, without the first dimension.
Operand own(BodyBuilder& body, const Lstm& of, const std::string& input, std::int64_t d) {
  const Operand all = body[input];
  return body.op("Squeeze", {of.directions == 1 ? all : body.slice(all, d, d + 1, 0), Ints{0}});
}

Direction direction_of(BodyBuilder& body, const Lstm& of, std::int64_t d) {
  const auto weights = [&](const std::string& name) -> Bytes {
    return {own(body, of, name, d), own(body, of, name + "_scale", d),
            own(body, of, name + "_zero_point", d)};
  };
  Direction direction{weights("W"), weights("R")};
  if (body.has("B")) {
    const Operands parts = body.split(own(body, of, "B", d), 2, 0);
    direction.bias = parts[0] + parts[1];
  }
  if (body.has("P")) direction.peepholes = body.split(own(body, of, "P", d), 3, 0);
  return direction;
}

/// [batch, hidden] each.
struct LstmState {
  Operand hidden;
  Operand cell;
};

/// The state behind a step; `input` has its gates, as far as the step's input makes them.
LstmState next_state(BodyBuilder& body, const Direction& direction, const Operand& input,
                     const LstmState& state) {
  Operand sums = input + product(body, as_bytes(state.hidden), direction.recurrent_weights);
  if (direction.bias) sums = sums + direction.bias;
  const Operands gates = body.split(sums, 4, 1);
  const auto gate = [&](std::size_t g, const Operand& cell) {
    const Operand seen =
        direction.peepholes.empty() ? gates[g] : gates[g] + cell * direction.peepholes[g];
    return body.op("Sigmoid", {seen});
  };
  const Operand added = gate(0, state.cell) * body.op("Tanh", {gates[3]});
  const Operand cell = gate(2, state.cell) * state.cell + added;
  return {gate(1, cell) * body.op("Tanh", {cell}), cell};
}

/// What a direction makes: [steps, 1, batch, hidden], and [1, batch, hidden] of the last state.
struct DirectionOutputs {
  Operand all;
  LstmState last;
};

DirectionOutputs run_direction(BodyBuilder& body, const Lstm& of, std::int64_t d, const Bytes& x) {
  const bool is_reverse = body.string_attribute("direction", "forward") == "reverse" || d == 1;
  const Direction direction = direction_of(body, of, d);
  Operands inputs;
  if (of.steps > 0)
    inputs = body.split(product(body, x, direction.input_weights),
                        static_cast<std::size_t>(of.steps), 0);
  const auto initial = [&](const char* input) {
    if (body.has(input)) return own(body, of, input, d);
    return body.op("Expand", {body.number(0), Ints{of.batch, of.hidden}});
  };
  LstmState state{initial("initial_h"), initial("initial_c")};
  Operands results(inputs.size());
  for (std::size_t s = 0; s < inputs.size(); ++s) {
    const std::size_t place = is_reverse ? inputs.size() - 1 - s : s;
    state = next_state(body, direction, inputs[place], state);
    results[place] = body.op("Unsqueeze", {state.hidden, Ints{0, 1}});
  }
  if (results.empty())
    results.push_back(body.floats(DataType::float32, {0, 1, of.batch, of.hidden}, {}));
  return {
      body.concat(results, 0),
      {body.op("Unsqueeze", {state.hidden, Ints{0}}), body.op("Unsqueeze", {state.cell, Ints{0}})}};
}

/// Step by step, since each step's state is quantised by its own scale.
void dynamic_quantize_lstm(BodyBuilder& body) {
  const Lstm of = lstm_of(body);
  refuse_other_cells(body);
  const Bytes x = as_bytes(body.reshape(body["X"], {of.steps * of.batch, of.features}));
  Operands all;
  Operands hidden;
  Operands cells;
  for (std::int64_t d = 0; d < of.directions; ++d) {
    const DirectionOutputs made = run_direction(body, of, d, x);
    all.push_back(made.all);
    hidden.push_back(made.last.hidden);
    cells.push_back(made.last.cell);
  }
  body.output("Y", body.concat(all, 1));
  body.output("Y_h", body.concat(hidden, 0));
  body.output("Y_c", body.concat(cells, 0));
}

constexpr ContribOperator operators[] = {
    {microsoft_domain, "EmbedLayerNormalization",
     "input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma beta mask? "
     "position_ids?",
     "output mask_index? embedding_sum?", "epsilon:f mask_index_type:i", embed_layer_normalization},
    {microsoft_domain, "QEmbedLayerNormalization",
     "input_ids segment_ids? word_embedding_quant position_embedding_quant segment_embedding? "
     "gamma_quant beta_quant mask? word_embedding_scale position_embedding_scale "
     "segment_embedding_scale? gamma_scale beta_scale word_embedding_zero_point "
     "position_embedding_zero_point segment_embedding_zero_point? gamma_zero_point "
     "beta_zero_point",
     "layernorm_out mask_index_out?", "epsilon:f", qembed_layer_normalization},
    {microsoft_domain, "QAttention",
     "input weight bias input_scale weight_scale mask_index? input_zero_point? "
     "weight_zero_point? past?",
     "output present?",
     "do_rotary:i mask_filter_value:f num_heads:i past_present_share_buffer:i scale:f "
     "unidirectional:i",
     qattention},
    {microsoft_domain, "DynamicQuantizeLSTM",
     "X W R B? sequence_lens? initial_h? initial_c? P? W_scale W_zero_point R_scale R_zero_point",
     "Y? Y_h? Y_c?",
     "activation_alpha:fs activation_beta:fs activations:ss clip:f direction:s hidden_size:i "
     "input_forget:i",
     dynamic_quantize_lstm},
};

}  // namespace

std::span<const ContribOperator> model_part_operators() { return operators; }

}  // namespace autopar::graph
