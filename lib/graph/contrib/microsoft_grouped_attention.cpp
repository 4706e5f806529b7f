// GroupQueryAttention, whose new tokens go to places in a cache.

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "graph/contrib/microsoft_bodies.h"
#include "graph/contrib/microsoft_caches.h"
#include "graph/contrib/microsoft_heads.h"

namespace autopar::graph::microsoft {
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
    body.write(
        "{0}_heads = Reshape ({0}, {1}) {0}_scaled = RMSNormalization <axis = -1, "
        "epsilon = {2:.8e}> "
        "({0}_heads, {3}) {0}_normal = Reshape ({0}_scaled, {4})",
        x, body.ints({of.batch, of.queries, heads, of.depth}),
        body.float_attribute("qk_norm_epsilon", 1e-6F), weight,
        body.ints({of.batch, of.queries, heads * of.depth}));
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
  body.write(
      "lengths_64 = Cast <to = 7> (seqlens_k) lengths_row = Reshape (lengths_64, {}) "
      "lengths_k = Add (lengths_row, {})",
      body.ints({of.batch}), body.ints({1}));
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
  body.write("later_begin = Sub (lengths_k, {})", body.ints({of.queries}));
  placed.begin = "later_begin";
  if (placed.total) return placed;
  body.write(
      "total_64 = Cast <to = 7> (total_sequence_length) "
      "is_first = Equal (total_64, {}) begin = Where (is_first, {}, later_begin)",
      body.ints({of.queries}), body.ints({0}));
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
    body.write("begin_column = Reshape ({}, {}) positions = Add (begin_column, {})", placed.begin,
               body.ints({of.batch, 1}), steps);
    positions = "positions";
  } else if (placed.is_first || !placed.may_be_first.empty()) {
    body.write(
        "ids_row = Reshape (position_ids, {}) first_id = Gather (ids_row, {}) "
        "from_first = Add (first_id, {}) first_positions = Expand (from_first, {})",
        body.ints({-1}), body.ints({0}), steps, all);
    positions = "first_positions";
    if (!placed.is_first) {
      body.write("positions = Where ({}, first_positions, position_ids)", placed.may_be_first);
      positions = "positions";
    }
  }
  const std::int64_t turned = 2 * body.shape("cos_cache").at(1);
  const auto turn = [&](std::string& x, std::int64_t heads) {
    body.write("{0}_turned = RotaryEmbedding ({0}, cos_cache, sin_cache, {1})", x, positions);
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
  body.write("length_column = Reshape (lengths_k, {}) keeps = Less ({}, length_column)",
             body.ints({of.batch, 1, 1, 1}), body.ints(counted(keys)));
  if (mask.name.empty()) return {"keeps", {of.batch, 1, 1, keys}};
  body.write("bias_kept = Where (keeps, attention_bias, {})",
             body.number(-std::numeric_limits<float>::infinity(), body.type("attention_bias")));
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
    body.write("zero_bias = Expand ({}, {})", zero, body.ints(bias.shape));
  } else {
    bias.shape = {mask.shape[0], of.heads, mask.shape[2], of.keys};
    std::string numbers = mask.name;
    if (mask.name == "keeps") {
      body.write("kept_bias = Where (keeps, {}, {})", zero, hidden);
      numbers = "kept_bias";
    }
    if (mask.shape[3] < of.keys) {  // keys that no sequence has
      body.write("longer_bias = Pad ({}, {})", numbers,
                 body.ints({0, 0, 0, 0, 0, 0, 0, of.keys - mask.shape[3]}));
      numbers = "longer_bias";
    }
    body.write("zero_bias = Expand ({}, {})", numbers, body.ints(bias.shape));
  }
  if (of.left_window < 0) return bias;
  body.write(
      "first_4 = Reshape ({}, {}) query_column = Reshape ({}, {}) "
      "query_place = Add (first_4, query_column) window_begin = Sub (query_place, {}) "
      "is_seen = GreaterOrEqual ({}, window_begin) "
      "window_bias = Where (is_seen, zero_bias, {})",
      first, body.ints({of.batch, 1, 1, 1}), body.ints(counted(of.queries)),
      body.ints({1, 1, of.queries, 1}), body.ints({of.left_window}), body.ints(counted(of.keys)),
      hidden);
  return {"window_bias", {of.batch, of.heads, of.queries, of.keys}};
}

/// A key of zeros before all others, whose value is zeros: to its score, which is 0, `head_sink` is
/// added. It is always visible, so a window becomes a mask.
void add_sink(BodyBuilder& body, Heads& of, const ScoreMask& mask, const std::string& first) {
  const DataType type = body.type("query");
  const std::string zeros = body.ints({of.batch, of.key_heads, 1, of.depth});
  body.write(
      "sink = Expand ({}, {}) keys_and_sink = Concat <axis = 2> (sink, {}) "
      "values_and_sink = Concat <axis = 2> (sink, {})",
      body.number(0, type), zeros, of.k, of.v);
  of.k = "keys_and_sink";
  of.v = "values_and_sink";
  body.write("valid_and_sink = Add (valid, {})", body.ints({1}));
  of.lengths = "valid_and_sink";

  const ScoreMask bias = score_bias(body, of, mask, first);
  of.left_window = -1;
  Shape column = bias.shape;
  column[3] = 1;
  if (body.has("head_sink"))
    body.write("sink_row = Reshape (head_sink, {}) sink_bias = Expand (sink_row, {})",
               body.ints({1, of.heads, 1, 1}), body.ints(column));
  else
    body.write("sink_bias = Expand ({}, {})", body.number(0, type), body.ints(column));
  body.write("bias_and_sink = Concat <axis = 3> (sink_bias, {})", bias.name);
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
    return body.write("{} = Concat <axis = 2> ({}, {}_new)", cache.present, cache.past, from);
  std::string buffer = cache.past;
  if (past < of.keys) {
    body.write("{0}_longer = Pad ({0}, {1})", cache.past,
               body.ints({0, 0, 0, 0, 0, 0, of.keys - past, 0}));
    buffer += "_longer";
  }
  body.write("{} = TensorScatter <axis = 2> ({}, {}_new, {})", cache.present, buffer, from,
             placed.begin);
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
  body.write("valid = Add ({}, {})", placed.begin, body.ints({of.queries}));
  of.lengths = "valid";
  if (has_sink) add_sink(body, of, mask, placed.begin);
  attend(body, of, {});
}

}  // namespace autopar::graph::microsoft
