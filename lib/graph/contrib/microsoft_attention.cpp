// The attention operators of com.microsoft in terms of ONNX's Attention, RotaryEmbedding and
// TensorScatter, which have kernels and sharding rules: so caches, projections and heads split as
// in any model.

#include <algorithm>
#include <numeric>

#include "base/checked.h"
#include "graph/contrib/families.h"
#include "graph/contrib/microsoft_heads.h"

namespace autopar::graph {
namespace {

using namespace microsoft;

/// Which keys are to be seen, as ONNX Runtime reads a mask: of [batch, keys] or [batch, queries,
/// keys], lengths of [batch], or ends and then begins of [2 x batch].
Operand seen_keys(BodyBuilder& body, const Heads& of, const std::string& mask) {
  const Shape& shape = body.shape(mask);
  if (shape.size() == 1 && (shape[0] == of.batch || shape[0] == 2 * of.batch)) {
    const bool has_begins = shape[0] != of.batch;
    const Operand lengths = body.reshape(body.cast(body[mask], DataType::int64),
                                         {has_begins ? 2 : 1, of.batch, 1, 1, 1});
    const Ints keys = body.counted(of.keys);
    Operand kept;
    if (has_begins) {
      const Operands ends_and_begins = body.split(lengths, 2, 0);
      kept = body.op("And", {body.op("Less", {keys, ends_and_begins[0]}),
                             body.op("GreaterOrEqual", {keys, ends_and_begins[1]})});
    } else {
      kept = body.op("Less", {keys, lengths});
    }
    return body.op("Squeeze", {kept, Ints{0}});
  }
  if (shape.size() == 2 || shape.size() == 3) {
    if (shape.back() != of.keys)
      fail("its mask {} is not of all {} keys", to_string(shape), of.keys);
    const Shape wide{shape[0], 1, shape.size() == 3 ? shape[1] : 1, shape.back()};
    return body.cast(body.reshape(body[mask], wide), DataType::boolean);
  }
  if (shape.size() != 4) fail("its mask {} is not supported", to_string(shape));
  // The mask is as large as the longest sequence there may be.
  return body.cast(body.op("Slice", {body[mask], Ints{of.keys - of.queries, 0},
                                     Ints{of.keys, of.keys}, Ints{2, 3}}),
                   DataType::boolean);
}

/// What a mask of 0 and 1 adds to scores, and `attention_bias`. Left out where there is neither.
Operand added_mask(BodyBuilder& body, const Heads& of, const std::string& mask) {
  if (!body.has(mask)) return body["attention_bias"];
  const Operand seen = seen_keys(body, of, mask);
  const DataType type = body.type(mask == "mask_index" ? "input" : "query");
  const Operand added =
      body.where(seen, body.number(0, type),
                 body.number(body.float_attribute("mask_filter_value", -10000), type));
  return body.has("attention_bias") ? added + body["attention_bias"] : added;
}

void rotary_embedding(BodyBuilder& body) {
  body.refuse_attribute("is_packed_batching", 0);
  if (body.float_attribute("scale", 1) != 1) fail("its attribute 'scale' is not supported");
  const Shape& input = body.shape("input");
  const Shape& table = body.shape("cos_cache");
  if ((input.size() != 3 && input.size() != 4) || table.size() != 2)
    fail("input {} and tables of {} are not supported", to_string(input), to_string(table));
  const std::int64_t sequence = input.size() == 3 ? input[1] : input[2];
  Operand positions = body["position_ids"];
  if (body.shape("position_ids").size() < 2)  // of the first place alone
    positions = body.op("Expand", {positions + body.counted(sequence), Ints{input[0], sequence}});
  Attributes attributes;
  const std::int64_t turned = 2 * table[1];
  const std::int64_t given = body.int_attribute("num_heads", 0);
  if (given <= 0 && input.size() == 3 && turned > 0 && input[2] % turned != 0)
    fail("its input {} has no whole heads of {}, as its tables of {} turn", to_string(input),
         turned, to_string(table));
  if (input.size() == 3)
    attributes["num_heads"] = given > 0 ? given : input[2] / std::max<std::int64_t>(1, turned);
  body.output("output", body.op("RotaryEmbedding",
                                {body["input"], body["cos_cache"], body["sin_cache"], positions},
                                attributes));
  body.pass_attributes({"interleaved", "rotary_embedding_dim"});
}

/// Projection by one packed matrix of weights, then attention.
void attention(BodyBuilder& body) {
  body.refuse_attribute("do_rotary", 0);
  body.refuse_attribute("past_present_share_buffer", 0);
  body.refuse_input("past_sequence_length");
  const Shape& input = body.shape("input");
  const Shape& weights = body.shape("weights");
  Heads of;
  of.heads = of.key_heads = body.int_attribute("num_heads", 0);
  Ints sizes = body.ints_attribute("qkv_hidden_sizes");
  if (sizes.empty() && weights.size() == 2) sizes.assign(3, weights[1] / 3);
  const auto is_width = [&](std::int64_t size) { return size >= 0 && size <= weights[1]; };
  if (input.size() != 3 || weights.size() != 2 || sizes.size() != 3 || of.heads <= 0 ||
      !std::ranges::all_of(sizes, is_width) ||
      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) != weights[1] ||
      sizes[0] != sizes[1] || sizes[0] % of.heads != 0 || sizes[2] % of.heads != 0)
    fail("input {} and weights {} of {} heads do not fit together", to_string(input),
         to_string(weights), of.heads);
  of.batch = input[0];
  of.queries = of.keys = input[1];
  of.depth = sizes[0] / of.heads;
  of.value_depth = sizes[2] / of.heads;
  of.causal = body.int_attribute("unidirectional", 0) != 0;
  const Operand product = body.op("MatMul", {body["input"], body["weights"]});
  const Operands qkv = body.split(body.has("bias") ? product + body["bias"] : product, sizes, -1);
  of.q = qkv[0];
  of.k = qkv[1];
  of.v = qkv[2];
  if (body.has("past")) {
    const Shape& past = body.shape("past");
    if (past != Shape{2, of.batch, of.heads, past.size() == 5 ? past[3] : 0, of.depth} ||
        of.value_depth != of.depth)
      fail("its past {} does not fit", to_string(past));
    of.keys += past[3];
    const Operands parts = body.split(body["past"], 2, 0);
    of.past_k = body.op("Squeeze", {parts[0], Ints{0}});
    of.past_v = body.op("Squeeze", {parts[1], Ints{0}});
  }
  of.mask = added_mask(body, of, "mask_index");
  Operands presents = attend(body, of);
  if (!body.wants("present")) return;
  if (presents.empty())
    presents = {split_heads(of.k, {of.batch, of.keys, of.heads, of.depth}),
                split_heads(of.v, {of.batch, of.keys, of.heads, of.value_depth})};
  for (Operand& present : presents) present = body.op("Unsqueeze", {present, Ints{0}});
  body.output("present", body.concat(presents, 0));
}

/// Queries, keys and values, or the last two, side by side in `packed`, [batch, sequence, heads,
/// parts, elements]: each as [batch, sequence, heads x elements].
Operands unpacked(BodyBuilder& body, const std::string& packed, std::size_t parts, Heads& of) {
  const Shape& shape = body.shape(packed);
  if (shape.size() != 5 || shape[2] != of.heads || shape[3] != static_cast<std::int64_t>(parts))
    fail("its packed {} is {}", packed, to_string(shape));
  Operands made = body.split(body[packed], parts, 3);
  for (Operand& part : made) part = body.reshape(part, {shape[0], shape[1], shape[2] * shape[4]});
  of.keys = shape[1];
  of.depth = of.value_depth = shape[4];
  return made;
}

/// Keys and values, which may have their heads apart.
void take_keys_and_values(BodyBuilder& body, Heads& of) {
  const Shape& key = body.shape("key");
  if (key.size() == 5) {
    const Operands parts = unpacked(body, "key", 2, of);
    of.k = parts[0];
    of.v = parts[1];
    return;
  }
  const Shape& value = body.shape("value");
  if (key.size() != value.size() || (key.size() != 3 && key.size() != 4))
    fail("its key {} and value {} are not supported", to_string(key), to_string(value));
  of.four_dimensions = key.size() == 4;
  of.keys = of.four_dimensions ? key[2] : key[1];
  of.value_depth = of.four_dimensions ? value[3] : value[2] / of.heads;
  of.k = body["key"];
  of.v = body["value"];
}

/// Adds the bias of queries, and of keys and values unless their heads are apart.
void add_projection_bias(BodyBuilder& body, Heads& of) {
  if (!body.has("bias")) return;
  const std::int64_t width = checked_multiply(of.heads, of.depth, "the width of its heads");
  const std::int64_t value_width =
      checked_multiply(of.heads, of.value_depth, "the width of its heads");
  const Operands bias = body.split(body["bias"], {width, width, value_width}, -1);
  of.q = of.q + bias[0];
  if (of.four_dimensions) return;
  of.k = of.k + bias[1];
  of.v = of.v + bias[2];
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
    const Operands parts = unpacked(body, "query", 3, of);
    of.q = parts[0];
    of.k = parts[1];
    of.v = parts[2];
  } else {
    of.depth = query[2] / of.heads;
    of.q = body["query"];
    take_keys_and_values(body, of);
  }
  add_projection_bias(body, of);
  if (of.four_dimensions) of.q = split_heads(of.q, {of.batch, of.queries, of.heads, of.depth});
  return of;
}

void multi_head_attention(BodyBuilder& body) {
  body.refuse_input("past_sequence_length");
  body.refuse_input("cache_indirection");
  if (body.wants("qk")) fail("its output 'qk' is not supported");
  Heads of = multi_heads(body);
  if (body.has("past_key") != body.has("past_value"))
    fail("it has one of past_key and past_value alone");
  const bool has_past = body.has("past_key");
  if (has_past) {
    const Shape& past = body.shape("past_key");
    if (past.size() != 4) fail("its past_key is {}", to_string(past));
    of.keys += past[2];
    of.past_k = body["past_key"];
    of.past_v = body["past_value"];
  }
  of.mask = added_mask(body, of, "key_padding_mask");
  const Operands presents = attend(body, of);
  if (!has_past) return add_presents(body, of);
  body.output("present_key", presents[0]);
  body.output("present_value", presents[1]);
}

constexpr ContribOperator operators[] = {
    {microsoft_domain, "RotaryEmbedding", "input position_ids cos_cache sin_cache", "output",
     "interleaved:i is_packed_batching:i num_heads:i rotary_embedding_dim:i scale:f",
     rotary_embedding},
    {microsoft_domain, "Attention",
     "input weights bias? mask_index? past? attention_bias? past_sequence_length?",
     "output present?",
     "do_rotary:i mask_filter_value:f num_heads:i past_present_share_buffer:i qkv_hidden_sizes:is "
     "rotary_embedding_dim:i scale:f unidirectional:i",
     attention},
    {microsoft_domain, "MultiHeadAttention",
     "query key? value? bias? key_padding_mask? attention_bias? past_key? past_value? "
     "past_sequence_length? cache_indirection?",
     "output present_key? present_value? qk?",
     "mask_filter_value:f num_heads:i scale:f unidirectional:i", multi_head_attention},
};

}  // namespace

std::span<const ContribOperator> attention_operators() { return operators; }

}  // namespace autopar::graph
