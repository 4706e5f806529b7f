// Parts of models that ONNX Runtime's quantiser makes: embeddings, attention, recurrent networks.

#include <array>

#include "base/error.h"
#include "graph/contrib/microsoft_bodies.h"
#include "graph/contrib/operator_table.h"

namespace autopar::graph::microsoft {
namespace {

/// The name of a scale or zero point of one number, which may stand in a vector.
std::string one_number(BodyBuilder& body, const std::string& name) {
  if (!body.has(name)) return "";
  if (num_elements(body.shape(name)) != 1)
    fail("its input '{}' is {}, not one number", name, to_string(body.shape(name)));
  body.write("{0}_number = Reshape ({0}, {1})", name, body.ints({}));
  return name + "_number";
}

/// `to`: `from`, bytes of the tensor of that name, as numbers.
void dequantize_part(BodyBuilder& body, const std::string& from, const std::string& tensor,
                     const std::string& to) {
  body.add("DequantizeLinear",
           {from, one_number(body, tensor + "_scale"), one_number(body, tensor + "_zero_point")},
           {to});
}

}  // namespace

/// Only the rows that are looked up become numbers.
void qembed_layer_normalization(BodyBuilder& body) {
  const Shape& ids = body.shape("input_ids");
  if (ids.size() != 2) fail("its input_ids are {}, not of two dimensions", to_string(ids));
  const auto add_rows = [&](const std::string& tensor, const std::string& table,
                            const std::string& rows, const std::string& to) {
    body.write("{}_bytes = Gather ({}, {})", to, table, rows);
    dequantize_part(body, to + "_bytes", tensor, to);
  };
  add_rows("word_embedding", "word_embedding_quant", "input_ids", "words");
  body.write("position_bytes = Slice (position_embedding_quant, {}, {}, {})", body.ints({0}),
             body.ints({ids[1]}), body.ints({0}));
  dequantize_part(body, "position_bytes", "position_embedding", "positions");
  body.add("embedded = Add (words, positions)");
  if (body.has("segment_ids")) {
    add_rows("segment_embedding", "segment_embedding", "segment_ids", "segments");
    body.add("sum = Add (embedded, segments)");
  } else {
    body.add("sum = Identity (embedded)");
  }
  dequantize_part(body, "gamma_quant", "gamma", "gamma_numbers");
  dequantize_part(body, "beta_quant", "beta", "beta_numbers");
  body.write(
      "layernorm_out = LayerNormalization <axis = -1, epsilon = {:e}> (sum, gamma_numbers, "
      "beta_numbers)",
      body.float_attribute("epsilon", 1e-12F));
  if (!body.wants("mask_index_out")) return;
  if (body.has("mask"))
    body.write(
        "is_word = Equal (mask, {}) word = Cast <to = 6> (is_word) "
        "mask_index_out = ReduceSum <keepdims = 0> (word, {})",
        body.constant(
            Tensor::of<std::int32_t>(DataType::int32, {}, std::array<std::int32_t, 1>{1})),
        body.ints({1}));
  else
    body.write("no_words = ConstantOfShape ({}) mask_index_out = Cast <to = 6> (no_words)",
               body.ints({ids[0]}));
}

/// An Attention, which has a body of its own, of dequantised tokens and weights: products of bytes
/// once they are fused.
void qattention(BodyBuilder& body) {
  dequantize_part(body, "input", "input", "tokens");
  const bool is_per_column = num_elements(body.shape("weight_scale")) != 1;
  if (is_per_column) {
    body.add("DequantizeLinear",
             {"weight", "weight_scale", body.has("weight_zero_point") ? "weight_zero_point" : ""},
             {"weights"});
    body.set("axis", std::int64_t{1});
  } else {
    dequantize_part(body, "weight", "weight", "weights");
  }
  body.add_in(microsoft_domain, "Attention",
              {"tokens", "weights", "bias", body.has("mask_index") ? "mask_index" : "",
               body.has("past") ? "past" : ""},
              {"output", body.wants("present") ? "present" : ""});
  body.pass_attributes({"do_rotary", "mask_filter_value", "num_heads", "past_present_share_buffer",
                        "scale", "unidirectional"});
}

namespace {

/// One direction of a DynamicQuantizeLSTM on its way through the steps.
class QuantisedLstm {
 public:
  explicit QuantisedLstm(BodyBuilder& body) : body_(body) {
    const Shape& x = body.shape("X");
    const Shape& recurrent = body.shape("R");
    direction_ = body.string_attribute("direction", "forward");
    if (x.size() != 3 || recurrent.size() != 3 || body.shape("W").size() != 3)
      fail("X {}, W {} and R {} are not supported", to_string(x), to_string(body.shape("W")),
           to_string(recurrent));
    steps_ = x[0];
    batch_ = x[1];
    features_ = x[2];
    directions_ = recurrent[0];
    hidden_ = recurrent[1];
    if (body.shape("W") != Shape{directions_, features_, 4 * hidden_} ||
        recurrent[2] != 4 * hidden_ || directions_ != (direction_ == "bidirectional" ? 2 : 1))
      fail("X {}, W {} and R {} do not fit together", to_string(x), to_string(body.shape("W")),
           to_string(recurrent));
    refuse_other_cells();
  }

  void add() {
    body_.write(
        "x_rows = Reshape (X, {}) "
        "x_bytes, x_scale, x_zero = DynamicQuantizeLinear (x_rows)",
        body_.ints({steps_ * batch_, features_}));
    std::vector<std::string> all;
    std::vector<std::string> last;
    std::vector<std::string> cells;
    for (std::int64_t d = 0; d < directions_; ++d) {
      all.push_back(add_direction(d));
      last.push_back(fmt::format("last_{}", d));
      cells.push_back(fmt::format("cell_{}", d));
    }
    join(all, "Y", 1);
    join(last, "Y_h", 0);
    join(cells, "Y_c", 0);
  }

 private:
  void refuse_other_cells() const {
    if (body_.has("sequence_lens")) fail("its input 'sequence_lens' is not supported");
    if (body_.int_attribute("input_forget", 0) != 0 || body_.float_attribute("clip", 0) != 0)
      fail("its attributes 'input_forget' and 'clip' are not supported");
    const auto activations = body_.strings_attribute("activations");
    constexpr std::array<const char*, 3> usual = {"Sigmoid", "Tanh", "Tanh"};
    for (std::size_t a = 0; a < activations.size(); ++a)
      if (activations[a] != usual[a % usual.size()])
        fail("its activation '{}' is not supported", activations[a]);
  }

  /// `to`, of the dimensions behind the first one of `tensor`, at direction `d`.
  std::string own(const std::string& tensor, std::int64_t d) {
    if (directions_ == 1) return squeezed(tensor, fmt::format("{}_{}", tensor, d));
    body_.write("{0}_{1}_one = Slice ({0}, {2}, {3}, {4})", tensor, d, body_.ints({d}),
                body_.ints({d + 1}), body_.ints({0}));
    return squeezed(fmt::format("{}_{}_one", tensor, d), fmt::format("{}_{}", tensor, d));
  }
  std::string squeezed(const std::string& from, const std::string& to) {
    body_.write("{} = Squeeze ({}, {})", to, from, body_.ints({0}));
    return to;
  }

  /// `to`, [rows, 4 hidden], of `from`'s bytes and the weights of that name.
  void add_product(const std::string& from, const std::string& weights, std::int64_t d,
                   const std::string& to) {
    body_.add("MatMulInteger",
              {from + "_bytes", fmt::format("{}_{}", weights, d), from + "_zero",
               fmt::format("{}_zero_point_{}", weights, d)},
              {to + "_sums"});
    body_.write(
        "{0}_numbers = Cast <to = 1> ({0}_sums) "
        "{0}_scale = Mul ({1}_scale, {2}_scale_{3}) "
        "{0} = Mul ({0}_numbers, {0}_scale)",
        to, from, weights, d);
  }

  /// [steps, 1, batch, hidden] of one direction; `last_d` and `cell_d`, [1, batch, hidden].
  std::string add_direction(std::int64_t d) {
    const bool is_reverse = direction_ == "reverse" || d == 1;
    for (const char* tensor : {"W", "R", "W_scale", "R_scale", "W_zero_point", "R_zero_point"})
      own(tensor, d);
    const std::string inputs = fmt::format("inputs_{}", d);
    add_product("x", "W", d, inputs);
    add_bias(d);
    std::vector<std::string> parts;
    for (std::int64_t s = 0; s < steps_; ++s) parts.push_back(fmt::format("{}_{}", inputs, s));
    body_.add("Split", {inputs}, parts);
    body_.set("axis", std::int64_t{0});
    body_.set("num_outputs", steps_);
    std::string hidden = initial("initial_h", d);
    std::string cell = initial("initial_c", d);
    std::vector<std::string> results(static_cast<std::size_t>(steps_));
    for (std::int64_t s = 0; s < steps_; ++s) {
      const std::int64_t place = is_reverse ? steps_ - 1 - s : s;
      const std::string step = fmt::format("d{}_s{}", d, s);
      add_step(step, parts[static_cast<std::size_t>(place)], d, hidden, cell);
      hidden = step + "_h";
      cell = step + "_c";
      body_.write("{0}_y = Unsqueeze ({0}_h, {1})", step, body_.ints({0, 1}));
      results[static_cast<std::size_t>(place)] = step + "_y";
    }
    body_.write("last_{0} = Unsqueeze ({1}, {3}) cell_{0} = Unsqueeze ({2}, {3})", d, hidden, cell,
                body_.ints({0}));
    join(results, fmt::format("all_{}", d), 0);
    return fmt::format("all_{}", d);
  }

  /// `bias_d`, [4 hidden], of the input's and the state's.
  void add_bias(std::int64_t d) {
    if (body_.has("B"))
      body_.write(
          "{0}_w, {0}_r = Split <axis = 0, num_outputs = 2> ({0}) "
          "bias_{1} = Add ({0}_w, {0}_r)",
          own("B", d), d);
    if (body_.has("P"))
      body_.write(
          "peep_i_{1}, peep_o_{1}, peep_f_{1} = Split <axis = 0, num_outputs = 3> "
          "({0})",
          own("P", d), d);
  }

  std::string initial(const std::string& input, std::int64_t d) {
    if (body_.has(input)) return own(input, d);
    const std::string zeros = fmt::format("{}_zeros_{}", input, d);
    body_.write("{} = Expand ({}, {})", zeros, body_.number(0, DataType::float32),
                body_.ints({batch_, hidden_}));
    return zeros;
  }

  /// `step`_h and `step`_c, [batch, hidden].
  void add_step(const std::string& step, const std::string& input, std::int64_t d,
                const std::string& hidden, const std::string& cell) {
    body_.write("{0}_bytes, {0}_scale, {0}_zero = DynamicQuantizeLinear ({1})", step, hidden);
    add_product(step, "R", d, step + "_state");
    body_.write("{0}_gates = Add ({1}, {0}_state)", step, input);
    std::string gates = step + "_gates";
    if (body_.has("B")) {
      body_.write("{0}_biased = Add ({0}_gates, bias_{1})", step, d);
      gates = step + "_biased";
    }
    body_.write("{0}_i, {0}_o, {0}_f, {0}_g = Split <axis = 1, num_outputs = 4> ({1})", step,
                gates);
    std::string i = step + "_i";
    std::string o = step + "_o";
    std::string f = step + "_f";
    peep(i, cell, "i", d);
    peep(f, cell, "f", d);
    body_.write(
        "{0}_in = Sigmoid ({1}) {0}_keep = Sigmoid ({2}) {0}_new = Tanh ({0}_g) "
        "{0}_added = Mul ({0}_in, {0}_new) {0}_kept = Mul ({0}_keep, {3}) "
        "{0}_c = Add ({0}_kept, {0}_added)",
        step, i, f, cell);
    peep(o, step + "_c", "o", d);
    body_.write(
        "{0}_out = Sigmoid ({1}) {0}_shown = Tanh ({0}_c) "
        "{0}_h = Mul ({0}_out, {0}_shown)",
        step, o);
  }

  /// A gate that also sees the cell.
  void peep(std::string& gate, const std::string& cell, const char* name, std::int64_t d) {
    if (!body_.has("P")) return;
    body_.write("{0}_seen = Mul ({1}, peep_{2}_{3}) {0}_all = Add ({0}, {0}_seen)", gate, cell,
                name, d);
    gate += "_all";
  }

  void join(const std::vector<std::string>& parts, const std::string& to, std::int64_t axis) {
    body_.add("Concat", parts, {to});
    body_.set("axis", axis);
  }

  BodyBuilder& body_;
  std::string direction_;
  std::int64_t steps_ = 0;
  std::int64_t batch_ = 0;
  std::int64_t features_ = 0;
  std::int64_t directions_ = 1;
  std::int64_t hidden_ = 0;
};

}  // namespace

/// Step by step, since each step's state is quantised by its own scale.
void dynamic_quantize_lstm(BodyBuilder& body) { QuantisedLstm(body).add(); }

}  // namespace autopar::graph::microsoft
