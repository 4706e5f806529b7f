// The attention operators of com.microsoft in terms of ONNX's Attention, RotaryEmbedding and
// TensorScatter, which have kernels and sharding rules: so caches, projections and heads split as
// in any model.

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "graph/contrib/microsoft_bodies.h"
#include "graph/contrib/microsoft_heads.h"

namespace autopar::graph::microsoft {
namespace {

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
      body.write("lengths_64 = Cast <to = 7> ({})", mask);
      const bool has_begins = shape[0] != of.batch;
      const std::string columns = body.ints({has_begins ? 2 : 1, of.batch, 1, 1, 1});
      body.write("length_columns = Reshape (lengths_64, {})", columns);
      const std::string keys = body.ints(places);
      if (has_begins)
        body.write(
            "ends, begins = Split <axis = 0, num_outputs = 2> (length_columns) "
            "before_end = Less ({0}, ends) from_begin = GreaterOrEqual ({0}, begins) "
            "kept_5 = And (before_end, from_begin)",
            keys);
      else
        body.write("kept_5 = Less ({}, length_columns)", keys);
      body.write("keeps = Squeeze (kept_5, {})", body.ints({0}));
    } else if (shape.size() == 2 || shape.size() == 3) {
      Shape wide{shape[0], 1, shape.size() == 3 ? shape[1] : 1, shape.back()};
      if (shape.back() != of.keys)
        fail("its mask {} is not of all {} keys", to_string(shape), of.keys);
      body.write("wide_mask = Reshape ({}, {}) keeps = Cast <to = 9> (wide_mask)", mask,
                 body.ints(wide));
    } else if (shape.size() == 4) {  // of the longest sequence there may be
      body.write("cut_mask = Slice ({}, {}, {}, {}) keeps = Cast <to = 9> (cut_mask)", mask,
                 body.ints({of.keys - of.queries, 0}), body.ints({of.keys, of.keys}),
                 body.ints({2, 3}));
    } else {
      fail("its mask {} is not supported", to_string(shape));
    }
    const DataType type = body.type(mask == "mask_index" ? "input" : "query");
    const float filter = body.float_attribute("mask_filter_value", -10000);
    body.write("added_mask = Where (keeps, {}, {})", body.number(0, type),
               body.number(filter, type));
    added = "added_mask";
  }
  if (!body.has("attention_bias")) return added;
  if (added.empty()) return "attention_bias";
  body.write("added_both = Add ({}, attention_bias)", added);
  return "added_both";
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
    body.write("row = Add (position_ids, {}) positions = Expand (row, {})", body.ints(places),
               body.ints({input[0], sequence}));
    positions = "positions";
  }
  body.write("output = RotaryEmbedding (input, cos_cache, sin_cache, {})", positions);
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
    body.write(
        "past_k5, past_v5 = Split <axis = 0, num_outputs = 2> (past) "
        "past_k = Squeeze (past_k5, {0}) past_v = Squeeze (past_v5, {0})",
        first);
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
  body.write(
      "present_k5 = Unsqueeze (present_k, {0}) present_v5 = Unsqueeze (present_v, "
      "{0}) present = Concat <axis = 0> (present_k5, present_v5)",
      first);
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
  for (const std::string& name : to) body.write("{0} = Reshape ({0}_5, {1})", name, rows);
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

}  // namespace autopar::graph::microsoft
