// GroupQueryAttention, whose new tokens go to places in a cache.

#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "graph/contrib/families.h"
#include "graph/contrib/microsoft_heads.h"

namespace autopar::graph {
namespace {

using namespace microsoft;

/// The keys or the values of a GroupQueryAttention as they stand in its cache, [batch, heads, rows,
/// width].
struct CacheForm {
  std::string part;  ///< "k" or "v", as the names of its attributes and inputs begin
  std::int64_t heads = 1;
  std::int64_t depth = 0;
  DataType computed = DataType::float32;  ///< of what the attention reads
  /// Bits of a number in the cache: 8, as int8; 4, two to a byte, the first one low, 0 for -8; or 0
  /// where the cache is not quantised.
  std::int64_t bits = 0;
  bool by_channel = false;  ///< each element of each head has a scale of its own

  bool is_quantised() const { return bits != 0; }
  std::int64_t width() const { return bits == 4 ? depth / 2 : depth; }
};

constexpr std::uint8_t zero_of_4_bits = 8;

std::string quant_type_of(const BodyBuilder& body, const std::string& part) {
  return body.string_attribute(part + "_quant_type", "NONE");
}

void check_cache(const BodyBuilder& body, const CacheForm& form) {
  const std::string past = form.part == "k" ? "past_key" : "past_value";
  if (!body.has(past)) return;
  const DataType stored = form.bits == 4 ? DataType::uint8 : DataType::int8;
  if (body.type(past) != stored)
    fail("its {} is {}, which is not supported: numbers of {} bits are {}", past,
         name_of(body.type(past)), form.bits, name_of(stored));
  if (body.shape(past).size() != 4 || body.shape(past)[3] != form.width())
    fail("its {} {} does not hold {} numbers of {} bits a head", past, to_string(body.shape(past)),
         form.depth, form.bits);
}

void check_scale(const BodyBuilder& body, const CacheForm& form) {
  const std::string scale = form.part + "_scale";
  if (!body.has(scale)) fail("its cache is quantised, but it has no input '{}'", scale);
  const std::int64_t expected = form.by_channel ? form.heads * form.depth : 1;
  if (num_elements(body.shape(scale)) != expected)
    fail("its {} {} does not have {} numbers, which its {}_quant_type asks for", scale,
         to_string(body.shape(scale)), expected, form.part);
}

Operand as_type(const Operand& x, DataType is, DataType to) {
  return is == to ? x : x.body->cast(x, to);
}

/// Bytes of two numbers that stand side by side along the last of these dimensions.
Operand packed_pairs(BodyBuilder& body, const Operand& x, const Shape& pairs) {
  const Operands parts = body.split(body.reshape(x, pairs), 2, -1);
  const Operand high = body.op("BitShift", {parts[1], body.bytes(4)}, {{"direction", "LEFT"}});
  return body.reshape(body.op("BitwiseOr", {parts[0], high}),
                      Shape(pairs.begin(), pairs.end() - 1));
}

/// What the node says of its `part`. Throws Error for a form that is not served.
CacheForm cache_form(const BodyBuilder& body, const std::string& part, std::int64_t heads,
                     std::int64_t depth) {
  const char* const other = part == "k" ? "v" : "k";
  const std::string quantised = quant_type_of(body, part);
  CacheForm form{part, heads, depth, body.type("query")};
  if (quantised == "NONE") {
    if (quant_type_of(body, other) != "NONE")
      fail(
          "its attribute '{0}_quant_type' is {1}, but '{2}_quant_type' is not: both caches are "
          "quantised or none",
          part, quantised, other);
    return form;
  }
  if (quantised != "PER_TENSOR" && quantised != "PER_CHANNEL")
    fail("its attribute '{}_quant_type' is {}, which is not supported", part, quantised);
  form.by_channel = quantised == "PER_CHANNEL";
  form.bits = body.int_attribute("kv_cache_bit_width", 0);
  if (form.bits != 8 && form.bits != 4)
    fail(
        "its attribute 'kv_cache_bit_width' is {}, which is not supported: quantised caches have "
        "8 or 4 bits",
        form.bits);
  if (form.bits == 4 && depth % 2 != 0)
    fail("its heads of {} elements do not fill bytes of two numbers", depth);
  check_cache(body, form);
  check_scale(body, form);
  return form;
}

/// New rows as the cache has them, [batch, rows, heads x width], of `x`, [batch, rows, heads x
/// depth].
Operand stored_rows(const CacheForm& form, const Operand& x, std::int64_t batch,
                    std::int64_t rows) {
  if (!form.is_quantised()) return x;
  BodyBuilder& body = *x.body;
  const Shape shape = form.by_channel ? Shape{form.heads * form.depth} : Shape{};
  const Operand scales = body.reshape(body[form.part + "_scale"], shape);
  const Operand numbers = as_type(x, form.computed, DataType::float32);
  if (form.bits == 8)
    return body.op("QuantizeLinear", {numbers, scales},
                   {{"axis", 2}, {"output_dtype", static_cast<std::int64_t>(DataType::int8)}});
  const Operand rounded = body.op(
      "QuantizeLinear", {numbers, scales, body.bytes(zero_of_4_bits, shape)}, {{"axis", 2}});
  const std::int64_t bytes = form.heads * form.width();
  return packed_pairs(body, body.op("Min", {rounded, body.bytes(15)}), {batch, rows, bytes, 2});
}

/// The numbers, [batch, heads, rows, depth], that a cache stands for.
Operand numbers_in(const CacheForm& form, const Operand& cache, std::int64_t batch,
                   std::int64_t rows) {
  if (!form.is_quantised()) return cache;
  BodyBuilder& body = *cache.body;
  Operand steps = cache;
  if (form.bits == 4) steps = unpack_numbers(body, cache, {batch, form.heads, rows, form.depth}, 4);
  steps = body.cast(steps, DataType::float32);
  if (form.bits == 4) steps = steps - body.number(zero_of_4_bits);
  const Shape scales = form.by_channel ? Shape{1, form.heads, 1, form.depth} : Shape{};
  const Operand numbers = steps * body.reshape(body[form.part + "_scale"], scales);
  return as_type(numbers, DataType::float32, form.computed);
}

/// Query, key and value of a GroupQueryAttention, normalised by head where asked.
Heads grouped_heads(BodyBuilder& body) {
  const Shape& query = body.shape("query");
  Heads of;
  of.heads = body.int_attribute("num_heads", 0);
  of.key_heads = body.int_attribute("kv_num_heads", 0);
  const bool is_packed = !body.has("key");
  const std::int64_t packed_keys = is_packed ? saturated_multiply(2, of.key_heads) : 0;
  const std::int64_t parts = saturated_add(of.heads, packed_keys);
  if (query.size() != 3 || of.key_heads <= 0 || of.heads < of.key_heads || of.heads > query[2] ||
      of.heads % of.key_heads != 0 || query[2] % parts != 0)
    fail("its query {} of {} heads, {} of keys, is not supported", to_string(query), of.heads,
         of.key_heads);
  of.batch = query[0];
  of.queries = query[1];
  of.depth = of.value_depth = query[2] / parts;
  const std::int64_t width = of.key_heads * of.depth;
  const Operands qkv = is_packed
                           ? body.split(body["query"], {of.heads * of.depth, width, width}, -1)
                           : Operands{body["query"], body["key"], body["value"]};
  if (!is_packed && body.shape("key") != Shape{of.batch, of.queries, width})
    fail("its key {} is not as long as its query {}", to_string(body.shape("key")),
         to_string(query));
  const auto normalized = [&](const Operand& x, std::int64_t heads, const char* weight) {
    if (!body.has(weight)) return x;
    const Operand by_head = body.reshape(x, {of.batch, of.queries, heads, of.depth});
    const Operand normal =
        body.op("RMSNormalization", {by_head, body[weight]},
                {{"axis", -1}, {"epsilon", body.float_attribute("qk_norm_epsilon", 1e-6F)}});
    return body.reshape(normal, {of.batch, of.queries, heads * of.depth});
  };
  of.q = normalized(qkv[0], of.heads, "q_norm_weight");
  of.k = normalized(qkv[1], of.key_heads, "k_norm_weight");
  of.v = qkv[2];
  return of;
}

/// The positions of a GroupQueryAttention's new tokens.
struct Placement {
  std::optional<std::int64_t> total;  ///< the longest sequence with its new tokens
  std::optional<Ints> known_lengths;  ///< of each batch with its new tokens
  Operand lengths;                    ///< the same, [batch]
  bool is_first = false;  ///< known to be the first prompt, which ONNX Runtime places at 0
  Operand may_be_first;   ///< a truth that only the run tells; left out where it is known
  Operand begin;          ///< of [batch]: the position of the first new token
  std::optional<Ints> known_begin;
};

/// A sequence ends where `seqlens_k` says, in a first prompt, too: there it begins at 0, and what
/// is behind its length is padding. Of constants the numbers are known at once.
Placement place_new_tokens(BodyBuilder& body, const Heads& of, std::int64_t past) {
  Placement placed;
  if (const auto total = body.integers("total_sequence_length")) placed.total = total->at(0);
  placed.known_lengths = body.integers("seqlens_k");
  if (placed.known_lengths)
    for (std::int64_t& length : *placed.known_lengths) length = saturated_add(length, 1);
  placed.is_first = past == 0 || placed.total == of.queries;
  placed.lengths =
      body.reshape(body.cast(body["seqlens_k"], DataType::int64), {of.batch}) + Ints{1};
  if (placed.is_first) {
    body.take_constant(of.batch, DataType::int64);
    placed.known_begin.emplace(static_cast<std::size_t>(of.batch), 0);
  } else if (placed.known_lengths && placed.total) {
    placed.known_begin = placed.known_lengths;
    for (std::int64_t& begin : *placed.known_begin) begin = saturated_subtract(begin, of.queries);
  }
  if (placed.known_begin) {
    placed.begin = body.constant(Tensor::of_int64({of.batch}, *placed.known_begin));
    return placed;
  }
  placed.begin = placed.lengths - Ints{of.queries};
  if (placed.total) return placed;
  const Operand total = body.cast(body["total_sequence_length"], DataType::int64);
  placed.may_be_first = body.op("Equal", {total, Ints{of.queries}});
  placed.begin = body.where(placed.may_be_first, Ints{0}, placed.begin);
  return placed;
}

/// Turns queries and keys by their positions. Of the `position_ids` of a first prompt ONNX Runtime
/// reads the first alone, from which all sequences count.
void turn_heads(BodyBuilder& body, Heads& of, const Placement& placed) {
  const Ints steps = body.counted(of.queries);
  Operand positions = body["position_ids"];
  if (!positions) {
    positions = body.reshape(placed.begin, {of.batch, 1}) + steps;
  } else if (placed.is_first || placed.may_be_first) {
    const Operand first = body.op("Gather", {body.reshape(positions, {-1}), Ints{0}});
    const Operand from_first = body.op("Expand", {first + steps, Ints{of.batch, of.queries}});
    positions =
        placed.is_first ? from_first : body.where(placed.may_be_first, from_first, positions);
  }
  const std::int64_t turned = 2 * body.shape("cos_cache").at(1);
  const auto turn = [&](Operand& x, std::int64_t heads) {
    Attributes attributes{{"num_heads", heads},
                          {"interleaved", body.int_attribute("rotary_interleaved", 0)}};
    if (turned != of.depth) attributes["rotary_embedding_dim"] = turned;
    x = body.op("RotaryEmbedding", {x, body["cos_cache"], body["sin_cache"], positions},
                attributes);
  };
  turn(of.q, of.heads);
  turn(of.k, of.key_heads);
}

/// A mask and the shape, which broadcasts to that of the scores; left out where there is nothing.
struct ScoreMask {
  Operand mask = {};
  Shape shape = {};
  bool is_truth = false;  ///< as against what is added
};

/// `attention_bias`, and for each sequence which keys are no padding (a truth): one of them, or the
/// bias with infinity where there is padding.
ScoreMask score_mask(BodyBuilder& body, const Heads& of, const Operand& lengths,
                     bool hides_padding) {
  ScoreMask mask;
  if (body.has("attention_bias")) mask = {body["attention_bias"], body.shape("attention_bias")};
  if (mask.mask && (mask.shape.size() != 4 || mask.shape[3] > of.keys))
    fail("its attention_bias {} does not fit {} keys", to_string(mask.shape), of.keys);
  if (!hides_padding) return mask;
  const std::int64_t keys = mask.mask ? mask.shape[3] : of.keys;
  const Operand keeps =
      body.op("Less", {body.counted(keys), body.reshape(lengths, {of.batch, 1, 1, 1})});
  if (!mask.mask) return {keeps, {of.batch, 1, 1, keys}, true};
  mask.mask =
      body.where(keeps, mask.mask,
                 body.number(-std::numeric_limits<float>::infinity(), body.type("attention_bias")));
  mask.shape[0] = std::max(mask.shape[0], of.batch);
  return mask;
}

/// What is added to the scores of all keys, of [1 or batch, heads, 1 or queries, keys]: the mask
/// and the window.
ScoreMask score_bias(BodyBuilder& body, const Heads& of, const ScoreMask& mask,
                     const Operand& first) {
  const DataType type = body.type("query");
  const Operand hidden = body.number(-std::numeric_limits<float>::infinity(), type);
  const Operand zero = body.number(0, type);
  ScoreMask bias{zero, {1, of.heads, 1, of.keys}};
  if (mask.mask) {
    bias.shape = {mask.shape[0], of.heads, mask.shape[2], of.keys};
    bias.mask = mask.is_truth ? body.where(mask.mask, zero, hidden) : mask.mask;
    const std::int64_t missing = of.keys - mask.shape[3];  // keys that no sequence has
    if (missing > 0) bias.mask = body.op("Pad", {bias.mask, Ints{0, 0, 0, 0, 0, 0, 0, missing}});
  }
  bias.mask = body.op("Expand", {bias.mask, bias.shape});
  if (of.left_window < 0) return bias;
  const Operand place = body.reshape(first, {of.batch, 1, 1, 1}) +
                        body.reshape(body.counted(of.queries), {1, 1, of.queries, 1});
  const Operand is_seen =
      body.op("GreaterOrEqual", {body.counted(of.keys), place - Ints{of.left_window}});
  return {body.where(is_seen, bias.mask, hidden), {of.batch, of.heads, of.queries, of.keys}};
}

/// A key of zeros before all others, whose value is zeros: to its score, which is 0, `head_sink` is
/// added. It is always visible, so a window becomes a mask.
void add_sink(BodyBuilder& body, Heads& of, const ScoreMask& mask, const Operand& first) {
  const Operand zero = body.number(0, body.type("query"));
  const Operand sink = body.op("Expand", {zero, Ints{of.batch, of.key_heads, 1, of.depth}});
  of.k = body.concat({sink, of.k}, 2);
  of.v = body.concat({sink, of.v}, 2);
  of.lengths = of.lengths + Ints{1};
  const ScoreMask bias = score_bias(body, of, mask, first);
  of.left_window = -1;
  Shape column = bias.shape;
  column[3] = 1;
  const Operand added =
      body.has("head_sink") ? body.reshape(body["head_sink"], {1, of.heads, 1, 1}) : zero;
  of.mask = body.concat({body.op("Expand", {added, column}), bias.mask}, 3);
}

/// Throws Error where the known numbers of new tokens do not fit the cache.
void check_places(const Heads& of, const Placement& placed, std::int64_t past) {
  if (placed.total && (*placed.total < of.queries || *placed.total > past + of.queries))
    fail("its total_sequence_length is {} for {} new tokens and a past of {}", *placed.total,
         of.queries, past);
  if (!placed.known_begin) return;
  for (const std::int64_t place : *placed.known_begin)
    if (place < 0 || place > of.keys - of.queries)
      fail("its seqlens_k places {} new tokens at {} of {}", of.queries, place, of.keys);
}

/// Whether there may be padding behind a sequence: behind the length of one that begins at 0.
bool may_have_padding(const Heads& of, const Placement& placed) {
  return of.queries > 1 && (placed.is_first || placed.may_be_first) &&
         !(placed.known_lengths &&
           std::ranges::all_of(*placed.known_lengths,
                               [&](std::int64_t length) { return length >= of.queries; }));
}

/// Whether the new tokens of all sequences stand right behind the past.
bool joins_past(const Heads& of, const Placement& placed, std::int64_t past) {
  const auto is_behind_past = [past](std::int64_t place) { return place == past; };
  return placed.known_begin && std::ranges::all_of(*placed.known_begin, is_behind_past) &&
         of.keys == past + of.queries;
}

/// The buffer `past`, of so many rows, with the new rows of `x` at their places.
Operand extended(BodyBuilder& body, const Heads& of, const Placement& placed, std::int64_t rows,
                 const CacheForm& form, const Operand& past, const Operand& x) {
  Operand added = split_heads(stored_rows(form, x, of.batch, of.queries),
                              {of.batch, of.queries, of.key_heads, form.width()});
  if (rows == 0) return added;
  if (joins_past(of, placed, rows)) return body.concat({past, added}, 2);
  const Operand buffer =
      rows < of.keys ? body.op("Pad", {past, Ints{0, 0, 0, 0, 0, 0, of.keys - rows, 0}}) : past;
  return body.op("TensorScatter", {buffer, added, placed.begin}, {{"axis", 2}});
}

/// `seqlens_k` tells where a sequence's new tokens stand in its cache, and how long it is;
/// `total_sequence_length` and the past tell how long the cache is.
void group_query_attention(BodyBuilder& body) {
  body.refuse_attribute("sliding_window_cache", 0);
  body.refuse_attribute("qk_output", 0);
  const bool has_sink = body.has("head_sink") || body.int_attribute("smooth_softmax", 0) > 0;
  Heads of = grouped_heads(body);
  const CacheForm key_form = cache_form(body, "k", of.key_heads, of.depth);
  const CacheForm value_form = cache_form(body, "v", of.key_heads, of.depth);
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
  const ScoreMask mask = score_mask(body, of, placed.lengths, may_have_padding(of, placed));
  of.mask = mask.mask;

  const bool is_plain = !has_sink && !key_form.is_quantised();
  if (past == 0 && is_plain) {
    attend(body, of);
    return add_presents(body, of);
  }
  Operands presents;
  if (joins_past(of, placed, past) && is_plain) {
    of.past_k = body["past_key"];
    of.past_v = body["past_value"];
    presents = attend(body, of);
  } else {
    presents = {extended(body, of, placed, past, key_form, body["past_key"], of.k),
                extended(body, of, placed, past, value_form, body["past_value"], of.v)};
    of.q = split_heads(of.q, {of.batch, of.queries, of.heads, of.depth});
    of.k = numbers_in(key_form, presents[0], of.batch, of.keys);
    of.v = numbers_in(value_form, presents[1], of.batch, of.keys);
    of.four_dimensions = true;
    of.lengths = placed.begin + Ints{of.queries};
    if (has_sink) add_sink(body, of, mask, placed.begin);
    attend(body, of);
  }
  body.output("present_key", presents[0]);
  body.output("present_value", presents[1]);
}

constexpr ContribOperator operators[] = {
    {microsoft_domain, "GroupQueryAttention",
     "query key? value? past_key? past_value? seqlens_k total_sequence_length cos_cache? "
     "sin_cache? position_ids? attention_bias? head_sink? k_scale? v_scale? q_norm_weight? "
     "k_norm_weight?",
     "output present_key? present_value? output_qk?",
     "causal:i do_rotary:i k_quant_type:s kv_cache_bit_width:i kv_num_heads:i local_window_size:i "
     "num_heads:i qk_norm_epsilon:f qk_output:i rotary_interleaved:i scale:f "
     "sliding_window_cache:i "
     "smooth_softmax:i softcap:f v_quant_type:s",
     group_query_attention},
};

}  // namespace

std::span<const ContribOperator> grouped_attention_operators() { return operators; }

}  // namespace autopar::graph
