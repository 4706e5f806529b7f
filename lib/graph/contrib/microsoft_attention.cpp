// The attention operators of com.microsoft in terms of ONNX's Attention, RotaryEmbedding and
// TensorScatter, which have kernels and sharding rules: so caches, projections and heads split as
// in any model.

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "graph/contrib/microsoft_bodies.h"
#include "graph/contrib/microsoft_caches.h"

namespace autopar::graph::microsoft {
namespace {

using Names = std::vector<std::string>;

/// Queries, keys and values on their way to an Attention. Either all have three dimensions, heads
/// within the last, or all have four, [batch, heads, sequence, elements].
struct Heads {
  std::string q = "q";
  std::string k = "k";
  std::string v = "v";
  std::string mask;  ///< added to scores, or boolean; may be empty
  std::string past_k;
  std::string past_v;
  std::string lengths;  ///< of each batch's keys
  std::int64_t batch = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;  ///< with those of the past
  std::int64_t heads = 1;
  std::int64_t key_heads = 1;
  std::int64_t depth = 0;
  std::int64_t value_depth = 0;
  bool four_dimensions = false;
  bool causal = false;
  std::int64_t left_window = -1;
  float softcap = 0;
};

void refuse_input(const BodyBuilder& body, std::string_view input) {
  if (body.has(input)) fail("its input '{}' is not supported", input);
}

void refuse_attribute(const BodyBuilder& body, std::string_view name, std::int64_t usual) {
  if (body.int_attribute(name, usual) != usual)
    fail("its attribute '{}' is {}, which is not supported", name, body.int_attribute(name, usual));
}

/// `to`, of [batch, heads, sequence, elements], from `from`, of [batch, sequence, heads x
/// elements].
void split_heads(BodyBuilder& body, const std::string& from, const std::string& to, Shape split) {
  body.add(
      fmt::format("{0}_split = Reshape ({1}, {2}) {0} = Transpose <perm = [0, 2, 1, 3]> "
                  "({0}_split)",
                  to, from, body.ints(split)));
}

/// `output`, of [batch, sequence, heads x elements].
void attend(BodyBuilder& body, const Heads& of, const Names& presents) {
  Names inputs{of.q, of.k, of.v, of.mask, of.past_k, of.past_v, of.lengths};
  while (inputs.back().empty()) inputs.pop_back();
  Names outputs{of.four_dimensions ? "attended" : "output"};
  outputs.insert(outputs.end(), presents.begin(), presents.end());
  body.add("Attention", inputs, outputs);
  if (!of.four_dimensions) {
    body.set("q_num_heads", of.heads);
    body.set("kv_num_heads", of.key_heads);
  }
  // A scale of 0 is ONNX Runtime's default.
  if (body.float_attribute("scale", 0) != 0) body.pass_attributes({"scale"});
  if (of.causal) body.set("is_causal", std::int64_t{1});
  if (of.softcap != 0) body.set("softcap", of.softcap);
  if (of.left_window >= 0) body.set("left_window_size", of.left_window);
  if (of.four_dimensions)
    body.add(
        fmt::format("rows = Transpose <perm = [0, 2, 1, 3]> (attended) "
                    "output = Reshape (rows, {})",
                    body.ints({of.batch, of.queries, of.heads * of.value_depth})));
}

/// What a mask of 0 and 1 adds to scores, as ONNX Runtime has it: of [batch, keys] or
/// [batch, queries, keys], lengths of [batch], or ends and then begins of [2 x batch].
/// `attention_bias` is added. Empty where there is neither.
std::string added_mask(BodyBuilder& body, const Heads& of, const std::string& mask) {
  std::string added;
  if (body.has(mask)) {
    const Shape& shape = body.shape(mask);
    std::string keeps;
    if (shape.size() == 1 && (shape[0] == of.batch || shape[0] == 2 * of.batch)) {
      std::vector<std::int64_t> places(static_cast<std::size_t>(of.keys));
      std::iota(places.begin(), places.end(), 0);
      body.add(fmt::format("lengths_64 = Cast <to = 7> ({})", mask));
      const bool has_begins = shape[0] != of.batch;
      const std::string columns = body.ints({has_begins ? 2 : 1, of.batch, 1, 1, 1});
      body.add(fmt::format("length_columns = Reshape (lengths_64, {})", columns));
      const std::string keys = body.ints(places);
      if (has_begins)
        body.add(
            fmt::format("ends, begins = Split <axis = 0, num_outputs = 2> (length_columns) "
                        "before_end = Less ({0}, ends) from_begin = GreaterOrEqual ({0}, begins) "
                        "kept_5 = And (before_end, from_begin)",
                        keys));
      else
        body.add(fmt::format("kept_5 = Less ({}, length_columns)", keys));
      body.add(fmt::format("keeps = Squeeze (kept_5, {})", body.ints({0})));
    } else if (shape.size() == 2 || shape.size() == 3) {
      Shape wide{shape[0], 1, shape.size() == 3 ? shape[1] : 1, shape.back()};
      if (shape.back() != of.keys)
        fail("its mask {} is not of all {} keys", to_string(shape), of.keys);
      body.add(fmt::format("wide_mask = Reshape ({}, {}) keeps = Cast <to = 9> (wide_mask)", mask,
                           body.ints(wide)));
    } else if (shape.size() == 4) {  // of the longest sequence there may be
      body.add(fmt::format("cut_mask = Slice ({}, {}, {}, {}) keeps = Cast <to = 9> (cut_mask)",
                           mask, body.ints({of.keys - of.queries, 0}),
                           body.ints({of.keys, of.keys}), body.ints({2, 3})));
    } else {
      fail("its mask {} is not supported", to_string(shape));
    }
    const DataType type = body.type(mask == "mask_index" ? "input" : "query");
    const float filter = body.float_attribute("mask_filter_value", -10000);
    body.add(fmt::format("added_mask = Where (keeps, {}, {})", body.number(0, type),
                         body.number(filter, type)));
    added = "added_mask";
  }
  if (!body.has("attention_bias")) return added;
  if (added.empty()) return "attention_bias";
  body.add(fmt::format("added_both = Add ({}, attention_bias)", added));
  return "added_both";
}

/// Splits what lies side by side along the last dimension into outputs of these sizes.
void split_last(BodyBuilder& body, const std::string& from, const Names& to,
                const std::vector<std::int64_t>& sizes) {
  body.add("Split", {from, body.ints(sizes)}, to);
  body.set("axis", std::int64_t{-1});
}

/// "present_key" and "present_value" of keys and values that have no past.
void add_presents(BodyBuilder& body, const Heads& of) {
  const auto present = [&](const std::string& name, const std::string& from, std::int64_t depth) {
    if (!body.wants(name)) return;
    if (of.four_dimensions)
      body.add(fmt::format("{} = Identity ({})", name, from));
    else
      split_heads(body, from, name, {of.batch, of.keys, of.key_heads, depth});
  };
  present("present_key", of.k, of.depth);
  present("present_value", of.v, of.value_depth);
}

}  // namespace

void rotary_embedding(BodyBuilder& body) {
  refuse_attribute(body, "is_packed_batching", 0);
  if (body.float_attribute("scale", 1) != 1) fail("its attribute 'scale' is not supported");
  const Shape& input = body.shape("input");
  const Shape& table = body.shape("cos_cache");
  if ((input.size() != 3 && input.size() != 4) || table.size() != 2)
    fail("input {} and tables of {} are not supported", to_string(input), to_string(table));
  const std::int64_t sequence = input.size() == 3 ? input[1] : input[2];
  std::string positions = "position_ids";
  if (body.shape("position_ids").size() == 1) {  // of the first place alone
    std::vector<std::int64_t> places(static_cast<std::size_t>(sequence));
    std::iota(places.begin(), places.end(), 0);
    body.add(fmt::format("row = Add (position_ids, {}) positions = Expand (row, {})",
                         body.ints(places), body.ints({input[0], sequence})));
    positions = "positions";
  }
  body.add(fmt::format("output = RotaryEmbedding (input, cos_cache, sin_cache, {})", positions));
  body.pass_attributes({"interleaved", "rotary_embedding_dim"});
  if (input.size() == 4) return;
  const std::int64_t turned = 2 * table[1];
  const std::int64_t given = body.int_attribute("num_heads", 0);
  body.set("num_heads", given > 0 ? given : input[2] / std::max<std::int64_t>(1, turned));
}

/// Projection by one packed matrix of weights, then attention.
void attention(BodyBuilder& body) {
  refuse_attribute(body, "do_rotary", 0);
  refuse_attribute(body, "past_present_share_buffer", 0);
  refuse_input(body, "past_sequence_length");
  const Shape& input = body.shape("input");
  const Shape& weights = body.shape("weights");
  Heads of;
  of.heads = of.key_heads = body.int_attribute("num_heads", 0);
  std::vector<std::int64_t> sizes = body.ints_attribute("qkv_hidden_sizes");
  if (sizes.empty() && weights.size() == 2) sizes.assign(3, weights[1] / 3);
  if (input.size() != 3 || weights.size() != 2 || sizes.size() != 3 || of.heads <= 0 ||
      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) != weights[1] ||
      sizes[0] != sizes[1] || sizes[0] % of.heads != 0 || sizes[2] % of.heads != 0)
    fail("input {} and weights {} of {} heads do not fit together", to_string(input),
         to_string(weights), of.heads);
  of.batch = input[0];
  of.queries = of.keys = input[1];
  of.depth = sizes[0] / of.heads;
  of.value_depth = sizes[2] / of.heads;
  of.causal = body.int_attribute("unidirectional", 0) != 0;
  body.add(body.has("bias") ? "product = MatMul (input, weights) qkv = Add (product, bias)"
                            : "qkv = MatMul (input, weights)");
  split_last(body, "qkv", {"q", "k", "v"}, sizes);
  Names presents;
  if (body.has("past")) {
    const Shape& past = body.shape("past");
    if (past != Shape{2, of.batch, of.heads, past.size() == 5 ? past[3] : 0, of.depth} ||
        of.value_depth != of.depth)
      fail("its past {} does not fit", to_string(past));
    of.keys += past[3];
    const std::string first = body.ints({0});
    body.add(
        fmt::format("past_k5, past_v5 = Split <axis = 0, num_outputs = 2> (past) "
                    "past_k = Squeeze (past_k5, {0}) past_v = Squeeze (past_v5, {0})",
                    first));
    of.past_k = "past_k";
    of.past_v = "past_v";
    presents = {"present_k", "present_v"};
  }
  of.mask = added_mask(body, of, "mask_index");
  attend(body, of, presents);
  if (!body.wants("present")) return;
  if (!body.has("past")) {
    split_heads(body, "k", "present_k", {of.batch, of.keys, of.heads, of.depth});
    split_heads(body, "v", "present_v", {of.batch, of.keys, of.heads, of.value_depth});
  }
  const std::string first = body.ints({0});
  body.add(
      fmt::format("present_k5 = Unsqueeze (present_k, {0}) present_v5 = Unsqueeze (present_v, "
                  "{0}) present = Concat <axis = 0> (present_k5, present_v5)",
                  first));
}

namespace {

/// Queries, keys and values, or the last two, side by side in `packed`, [batch, sequence, heads,
/// parts, elements]: each as [batch, sequence, heads x elements].
void unpack(BodyBuilder& body, const std::string& packed, const Names& to, Heads& of) {
  const Shape& shape = body.shape(packed);
  if (shape.size() != 5 || shape[2] != of.heads || shape[3] != static_cast<std::int64_t>(to.size()))
    fail("its packed {} is {}", packed, to_string(shape));
  Names parts;
  for (const std::string& name : to) parts.push_back(name + "_5");
  body.add("Split", {packed}, parts);
  body.set("axis", std::int64_t{3});
  body.set("num_outputs", static_cast<std::int64_t>(to.size()));
  const std::string rows = body.ints({shape[0], shape[1], shape[2] * shape[4]});
  for (const std::string& name : to)
    body.add(fmt::format("{0} = Reshape ({0}_5, {1})", name, rows));
  of.keys = shape[1];
  of.depth = of.value_depth = shape[4];
}

/// "k_" and "v_" of the inputs key and value. Keys and values may have their heads apart.
void add_keys_and_values(BodyBuilder& body, Heads& of) {
  const Shape& key = body.shape("key");
  if (key.size() == 5) return unpack(body, "key", {"k_", "v_"}, of);
  const Shape& value = body.shape("value");
  if (key.size() != value.size() || (key.size() != 3 && key.size() != 4))
    fail("its key {} and value {} are not supported", to_string(key), to_string(value));
  of.four_dimensions = key.size() == 4;
  of.keys = of.four_dimensions ? key[2] : key[1];
  of.value_depth = of.four_dimensions ? value[3] : value[2] / of.heads;
  body.add("k_ = Identity (key) v_ = Identity (value)");
}

/// Adds the bias of queries, and of keys and values unless their heads are apart.
void add_projection_bias(BodyBuilder& body, Heads& of) {
  if (!body.has("bias")) return;
  split_last(body, "bias", {"q_bias", "k_bias", "v_bias"},
             {of.heads * of.depth, of.heads * of.depth, of.heads * of.value_depth});
  body.add("q = Add (q_, q_bias)");
  of.q = "q";
  if (of.four_dimensions) return;
  body.add("k = Add (k_, k_bias) v = Add (v_, v_bias)");
  of.k = "k";
  of.v = "v";
}

/// What a MultiHeadAttention attends to, but for its past.
Heads multi_heads(BodyBuilder& body) {
  const Shape& query = body.shape("query");
  Heads of;
  of.heads = of.key_heads = body.int_attribute("num_heads", 0);
  of.causal = body.int_attribute("unidirectional", 0) != 0;
  if (of.heads <= 0 || query.size() < 3) fail("its query {} is not supported", to_string(query));
  of.batch = query[0];
  of.queries = of.keys = query[1];
  if (query.size() == 5) {
    unpack(body, "query", {"q_", "k_", "v_"}, of);
  } else {
    of.depth = query[2] / of.heads;
    body.add("q_ = Identity (query)");
    add_keys_and_values(body, of);
  }
  of.q = "q_";
  of.k = "k_";
  of.v = "v_";
  add_projection_bias(body, of);
  if (of.four_dimensions) {
    split_heads(body, of.q, "q_heads", {of.batch, of.queries, of.heads, of.depth});
    of.q = "q_heads";
  }
  return of;
}

}  // namespace

void multi_head_attention(BodyBuilder& body) {
  refuse_input(body, "past_sequence_length");
  refuse_input(body, "cache_indirection");
  if (body.wants("qk")) fail("its output 'qk' is not supported");
  Heads of = multi_heads(body);
  if (body.has("past_key") != body.has("past_value"))
    fail("it has one of past_key and past_value alone");
  if (!body.has("past_key")) {
    of.mask = added_mask(body, of, "key_padding_mask");
    attend(body, of, {});
    return add_presents(body, of);
  }
  if (body.shape("past_key").size() != 4)
    fail("its past_key is {}", to_string(body.shape("past_key")));
  of.keys += body.shape("past_key")[2];
  of.past_k = "past_key";
  of.past_v = "past_value";
  of.mask = added_mask(body, of, "key_padding_mask");
  attend(body, of, {"present_key", "present_value"});
}

namespace {

/// Query, key and value of a GroupQueryAttention, "q", "k" and "v", normalised by head where asked.
Heads grouped_heads(BodyBuilder& body) {
  const Shape& query = body.shape("query");
  Heads of;
  of.heads = body.int_attribute("num_heads", 0);
  of.key_heads = body.int_attribute("kv_num_heads", 0);
  const bool is_packed = !body.has("key");
  const std::int64_t parts = is_packed ? of.heads + 2 * of.key_heads : of.heads;
  if (query.size() != 3 || of.key_heads <= 0 || of.heads % of.key_heads != 0 ||
      query[2] % parts != 0)
    fail("its query {} of {} heads, {} of keys, is not supported", to_string(query), of.heads,
         of.key_heads);
  of.batch = query[0];
  of.queries = query[1];
  of.depth = of.value_depth = query[2] / parts;
  if (is_packed)
    split_last(body, "query", {"q", "k", "v"},
               {of.heads * of.depth, of.key_heads * of.depth, of.key_heads * of.depth});
  else
    body.add("q = Identity (query) k = Identity (key) v = Identity (value)");
  if (!is_packed && body.shape("key") != Shape{of.batch, of.queries, of.key_heads * of.depth})
    fail("its key {} is not as long as its query {}", to_string(body.shape("key")),
         to_string(query));
  const auto normalize = [&](std::string& x, std::int64_t heads, const std::string& weight) {
    if (!body.has(weight)) return;
    body.add(
        fmt::format("{0}_heads = Reshape ({0}, {1}) {0}_scaled = RMSNormalization <axis = -1, "
                    "epsilon = {2:.8e}> "
                    "({0}_heads, {3}) {0}_normal = Reshape ({0}_scaled, {4})",
                    x, body.ints({of.batch, of.queries, heads, of.depth}),
                    body.float_attribute("qk_norm_epsilon", 1e-6F), weight,
                    body.ints({of.batch, of.queries, heads * of.depth})));
    x += "_normal";
  };
  normalize(of.q, of.heads, "q_norm_weight");
  normalize(of.k, of.key_heads, "k_norm_weight");
  return of;
}

/// The positions of a GroupQueryAttention's new tokens.
struct Placement {
  std::optional<std::int64_t> total;                 ///< the longest sequence with its new tokens
  std::optional<std::vector<std::int64_t>> lengths;  ///< of each batch with its new tokens
  bool is_first = false;     ///< known to be the first prompt, which ONNX Runtime places at 0
  std::string may_be_first;  ///< a truth that only the run tells; empty where it is known
  std::string begin;         ///< of [batch]: the position of the first new token
  std::optional<std::vector<std::int64_t>> known_begin;
};

std::vector<std::int64_t> counted(std::int64_t count) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  return places;
}

/// "lengths_k", of [batch]: how many keys each sequence has, with the new tokens.
void add_lengths(BodyBuilder& body, const Heads& of) {
  body.add(
      fmt::format("lengths_64 = Cast <to = 7> (seqlens_k) lengths_row = Reshape (lengths_64, {}) "
                  "lengths_k = Add (lengths_row, {})",
                  body.ints({of.batch}), body.ints({1})));
}

/// A sequence ends where `seqlens_k` says, in a first prompt, too: there it begins at 0, and what
/// is behind its length is padding. Of constants the numbers are known at once.
Placement place_new_tokens(BodyBuilder& body, const Heads& of, std::int64_t past) {
  Placement placed;
  if (const auto total = body.integers("total_sequence_length")) placed.total = total->at(0);
  if (auto lengths = body.integers("seqlens_k")) {
    for (std::int64_t& length : *lengths) ++length;
    placed.lengths = std::move(lengths);
  }
  placed.is_first = past == 0 || placed.total == of.queries;
  add_lengths(body, of);
  if (placed.is_first) {
    placed.known_begin.emplace(static_cast<std::size_t>(of.batch), 0);
  } else if (placed.lengths && placed.total) {
    placed.known_begin = placed.lengths;
    for (std::int64_t& begin : *placed.known_begin) begin -= of.queries;
  }
  if (placed.known_begin) {
    placed.begin = body.ints(*placed.known_begin);
    return placed;
  }
  body.add(fmt::format("later_begin = Sub (lengths_k, {})", body.ints({of.queries})));
  placed.begin = "later_begin";
  if (placed.total) return placed;
  body.add(
      fmt::format("total_64 = Cast <to = 7> (total_sequence_length) "
                  "is_first = Equal (total_64, {}) begin = Where (is_first, {}, later_begin)",
                  body.ints({of.queries}), body.ints({0})));
  placed.may_be_first = "is_first";
  placed.begin = "begin";
  return placed;
}

/// Turns "q" and "k" by their positions; returns their new names. Of the `position_ids` of a first
/// prompt ONNX Runtime reads the first alone, from which all sequences count.
void turn_heads(BodyBuilder& body, Heads& of, const Placement& placed) {
  const std::string steps = body.ints(counted(of.queries));
  const std::string all = body.ints({of.batch, of.queries});
  std::string positions = "position_ids";
  if (!body.has("position_ids")) {
    body.add(fmt::format("begin_column = Reshape ({}, {}) positions = Add (begin_column, {})",
                         placed.begin, body.ints({of.batch, 1}), steps));
    positions = "positions";
  } else if (placed.is_first || !placed.may_be_first.empty()) {
    body.add(
        fmt::format("ids_row = Reshape (position_ids, {}) first_id = Gather (ids_row, {}) "
                    "from_first = Add (first_id, {}) first_positions = Expand (from_first, {})",
                    body.ints({-1}), body.ints({0}), steps, all));
    positions = "first_positions";
    if (!placed.is_first) {
      body.add(fmt::format("positions = Where ({}, first_positions, position_ids)",
                           placed.may_be_first));
      positions = "positions";
    }
  }
  const std::int64_t turned = 2 * body.shape("cos_cache").at(1);
  const auto turn = [&](std::string& x, std::int64_t heads) {
    body.add(
        fmt::format("{0}_turned = RotaryEmbedding ({0}, cos_cache, sin_cache, {1})", x, positions));
    body.set("num_heads", heads);
    body.set("interleaved", body.int_attribute("rotary_interleaved", 0));
    if (turned != of.depth) body.set("rotary_embedding_dim", turned);
    x += "_turned";
  };
  turn(of.q, of.heads);
  turn(of.k, of.key_heads);
}

/// A name and a shape that broadcasts to that of the scores; no name where there is nothing.
struct ScoreMask {
  std::string name;
  Shape shape;
};

/// `attention_bias`, and for each sequence which keys are no padding (`keeps`, a truth): one of
/// them, or the bias with infinity where there is padding.
ScoreMask score_mask(BodyBuilder& body, const Heads& of, bool hides_padding) {
  ScoreMask mask;
  if (body.has("attention_bias")) mask = {"attention_bias", body.shape("attention_bias")};
  if (!mask.name.empty() && (mask.shape.size() != 4 || mask.shape[3] > of.keys))
    fail("its attention_bias {} does not fit {} keys", to_string(mask.shape), of.keys);
  if (!hides_padding) return mask;
  const std::int64_t keys = mask.name.empty() ? of.keys : mask.shape[3];
  body.add(fmt::format("length_column = Reshape (lengths_k, {}) keeps = Less ({}, length_column)",
                       body.ints({of.batch, 1, 1, 1}), body.ints(counted(keys))));
  if (mask.name.empty()) return {"keeps", {of.batch, 1, 1, keys}};
  body.add(fmt::format(
      "bias_kept = Where (keeps, attention_bias, {})",
      body.number(-std::numeric_limits<float>::infinity(), body.type("attention_bias"))));
  mask.name = "bias_kept";
  mask.shape[0] = std::max(mask.shape[0], of.batch);
  return mask;
}

/// What is added to the scores of all keys, of [1 or batch, heads, 1 or queries, keys]: the mask
/// and the window.
ScoreMask score_bias(BodyBuilder& body, const Heads& of, const ScoreMask& mask,
                     const std::string& first) {
  const DataType type = body.type("query");
  const std::string hidden = body.number(-std::numeric_limits<float>::infinity(), type);
  const std::string zero = body.number(0, type);
  ScoreMask bias{"zero_bias", {1, of.heads, 1, of.keys}};
  if (mask.name.empty()) {
    body.add(fmt::format("zero_bias = Expand ({}, {})", zero, body.ints(bias.shape)));
  } else {
    bias.shape = {mask.shape[0], of.heads, mask.shape[2], of.keys};
    std::string numbers = mask.name;
    if (mask.name == "keeps") {
      body.add(fmt::format("kept_bias = Where (keeps, {}, {})", zero, hidden));
      numbers = "kept_bias";
    }
    if (mask.shape[3] < of.keys) {  // keys that no sequence has
      body.add(fmt::format("longer_bias = Pad ({}, {})", numbers,
                           body.ints({0, 0, 0, 0, 0, 0, 0, of.keys - mask.shape[3]})));
      numbers = "longer_bias";
    }
    body.add(fmt::format("zero_bias = Expand ({}, {})", numbers, body.ints(bias.shape)));
  }
  if (of.left_window < 0) return bias;
  body.add(
      fmt::format("first_4 = Reshape ({}, {}) query_column = Reshape ({}, {}) "
                  "query_place = Add (first_4, query_column) window_begin = Sub (query_place, {}) "
                  "is_seen = GreaterOrEqual ({}, window_begin) "
                  "window_bias = Where (is_seen, zero_bias, {})",
                  first, body.ints({of.batch, 1, 1, 1}), body.ints(counted(of.queries)),
                  body.ints({1, 1, of.queries, 1}), body.ints({of.left_window}),
                  body.ints(counted(of.keys)), hidden));
  return {"window_bias", {of.batch, of.heads, of.queries, of.keys}};
}

/// A key of zeros before all others, whose value is zeros: to its score, which is 0, `head_sink` is
/// added. It is always visible, so a window becomes a mask.
void add_sink(BodyBuilder& body, Heads& of, const ScoreMask& mask, const std::string& first) {
  const DataType type = body.type("query");
  const std::string zeros = body.ints({of.batch, of.key_heads, 1, of.depth});
  body.add(
      fmt::format("sink = Expand ({}, {}) keys_and_sink = Concat <axis = 2> (sink, {}) "
                  "values_and_sink = Concat <axis = 2> (sink, {})",
                  body.number(0, type), zeros, of.k, of.v));
  of.k = "keys_and_sink";
  of.v = "values_and_sink";
  body.add(fmt::format("valid_and_sink = Add (valid, {})", body.ints({1})));
  of.lengths = "valid_and_sink";

  const ScoreMask bias = score_bias(body, of, mask, first);
  of.left_window = -1;
  Shape column = bias.shape;
  column[3] = 1;
  if (body.has("head_sink"))
    body.add(fmt::format("sink_row = Reshape (head_sink, {}) sink_bias = Expand (sink_row, {})",
                         body.ints({1, of.heads, 1, 1}), body.ints(column)));
  else
    body.add(fmt::format("sink_bias = Expand ({}, {})", body.number(0, type), body.ints(column)));
  body.add(fmt::format("bias_and_sink = Concat <axis = 3> (sink_bias, {})", bias.name));
  of.mask = "bias_and_sink";
}

/// Throws Error where the known numbers of new tokens do not fit the cache.
void check_places(const Heads& of, const Placement& placed, std::int64_t past) {
  if (placed.total && (*placed.total < of.queries || *placed.total > past + of.queries))
    fail("its total_sequence_length is {} for {} new tokens and a past of {}", *placed.total,
         of.queries, past);
  if (!placed.known_begin) return;
  for (const std::int64_t place : *placed.known_begin)
    if (place < 0 || place + of.queries > of.keys)
      fail("its seqlens_k places {} new tokens at {} of {}", of.queries, place, of.keys);
}

/// Whether there may be padding behind a sequence: behind the length of one that begins at 0.
bool may_have_padding(const Heads& of, const Placement& placed) {
  return of.queries > 1 && (placed.is_first || !placed.may_be_first.empty()) &&
         !(placed.lengths && std::ranges::min(*placed.lengths) >= of.queries);
}

/// Whether the new tokens of all sequences stand right behind the past.
bool joins_past(const Heads& of, const Placement& placed, std::int64_t past) {
  const auto is_behind_past = [past](std::int64_t place) { return place == past; };
  return placed.known_begin && std::ranges::all_of(*placed.known_begin, is_behind_past) &&
         of.keys == past + of.queries;
}

/// A buffer that new rows go to.
struct Cache {
  CacheForm form;
  std::string past;
  std::string present;
};

/// Puts the new rows of `from` to their places in the buffer.
void extend(BodyBuilder& body, const Heads& of, const Placement& placed, std::int64_t past,
            const Cache& cache, const std::string& from) {
  const std::string stored = stored_rows(body, cache.form, from, of.batch, of.queries);
  const Shape split{of.batch, of.queries, of.key_heads, cache.form.width()};
  if (past == 0) return split_heads(body, stored, cache.present, split);
  split_heads(body, stored, from + "_new", split);
  if (joins_past(of, placed, past))
    return body.add(
        fmt::format("{} = Concat <axis = 2> ({}, {}_new)", cache.present, cache.past, from));
  std::string buffer = cache.past;
  if (past < of.keys) {
    body.add(fmt::format("{0}_longer = Pad ({0}, {1})", cache.past,
                         body.ints({0, 0, 0, 0, 0, 0, of.keys - past, 0})));
    buffer += "_longer";
  }
  body.add(fmt::format("{} = TensorScatter <axis = 2> ({}, {}_new, {})", cache.present, buffer,
                       from, placed.begin));
}

}  // namespace

/// `seqlens_k` tells where a sequence's new tokens stand in its cache, and how long it is;
/// `total_sequence_length` and the past tell how long the cache is.
void group_query_attention(BodyBuilder& body) {
  refuse_attribute(body, "sliding_window_cache", 0);
  refuse_attribute(body, "qk_output", 0);
  const bool has_sink = body.has("head_sink") || body.int_attribute("smooth_softmax", 0) > 0;
  Heads of = grouped_heads(body);
  const Cache keys{cache_form(body, "k", of.key_heads, of.depth), "past_key", "present_key"};
  const Cache values{cache_form(body, "v", of.key_heads, of.depth), "past_value", "present_value"};
  of.causal = body.int_attribute("causal", 1) != 0;
  of.softcap = body.float_attribute("softcap", 0);
  // ONNX Runtime's window counts the query's own key.
  const std::int64_t window = body.int_attribute("local_window_size", -1);
  if (window > 0) of.left_window = window - 1;
  if (body.has("past_key") != body.has("past_value"))
    fail("it has one of past_key and past_value alone");
  const std::int64_t past = body.has("past_key") ? body.shape("past_key").at(2) : 0;
  const Placement placed = place_new_tokens(body, of, past);
  // A total that only the run tells fits into what was given: the buffer has room for what comes.
  of.keys = std::max(past, placed.total.value_or(of.queries));
  check_places(of, placed, past);
  if (body.int_attribute("do_rotary", 0) != 0) turn_heads(body, of, placed);
  const ScoreMask mask = score_mask(body, of, may_have_padding(of, placed));
  of.mask = mask.name;

  const bool is_plain = !has_sink && !keys.form.is_quantised();
  if (past == 0 && is_plain) {
    attend(body, of, {});
    return add_presents(body, of);
  }
  if (joins_past(of, placed, past) && is_plain) {
    of.past_k = keys.past;
    of.past_v = values.past;
    return attend(body, of, {keys.present, values.present});
  }
  extend(body, of, placed, past, keys, of.k);
  extend(body, of, placed, past, values, of.v);
  split_heads(body, of.q, "q_heads", {of.batch, of.queries, of.heads, of.depth});
  of.q = "q_heads";
  of.k = numbers_in(body, keys.form, keys.present, of.batch, of.keys);
  of.v = numbers_in(body, values.form, values.present, of.batch, of.keys);
  of.four_dimensions = true;
  body.add(fmt::format("valid = Add ({}, {})", placed.begin, body.ints({of.queries})));
  of.lengths = "valid";
  if (has_sink) add_sink(body, of, mask, placed.begin);
  attend(body, of, {});
}

}  // namespace autopar::graph::microsoft
