#include <algorithm>
#include <cmath>
#include <limits>

#include "unit/graph/contrib/operator_call.h"

using namespace autopar::graph;

namespace {

const char* const ms = "com.microsoft";
constexpr double hidden = -std::numeric_limits<double>::infinity();

/// [batch, heads, sequence, elements] of [batch, sequence, heads x elements], and back.
Array split_heads(const Array& x, std::int64_t heads) {
  const std::int64_t depth = x.extent(2) / heads;
  Array y({x.extent(0), heads, x.extent(1), depth});
  for (std::int64_t b = 0; b < x.extent(0); ++b)
    for (std::int64_t s = 0; s < x.extent(1); ++s)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t d = 0; d < depth; ++d) y(b, h, s, d) = x(b, s, h * depth + d);
  return y;
}

Array merge_heads(const Array& x) {
  const std::int64_t depth = x.extent(3);
  Array y({x.extent(0), x.extent(2), x.extent(1) * depth});
  for (std::int64_t b = 0; b < x.extent(0); ++b)
    for (std::int64_t h = 0; h < x.extent(1); ++h)
      for (std::int64_t s = 0; s < x.extent(2); ++s)
        for (std::int64_t d = 0; d < depth; ++d) y(b, s, h * depth + d) = x(b, h, s, d);
  return y;
}

/// Joins [batch, heads, rows, elements] along the rows.
Array joined(const Array& a, const Array& b) {
  Array y({a.extent(0), a.extent(1), a.extent(2) + b.extent(2), a.extent(3)});
  for (std::int64_t n = 0; n < y.extent(0); ++n)
    for (std::int64_t h = 0; h < y.extent(1); ++h)
      for (std::int64_t s = 0; s < y.extent(2); ++s)
        for (std::int64_t d = 0; d < y.extent(3); ++d)
          y(n, h, s, d) = s < a.extent(2) ? a(n, h, s, d) : b(n, h, s - a.extent(2), d);
  return y;
}

/// Columns of a matrix, or elements of the last dimension.
Array columns(const Array& x, std::int64_t begin, std::int64_t end) {
  Shape shape = x.shape;
  shape.back() = end - begin;
  Array y(shape);
  const std::int64_t width = x.shape.back();
  for (std::int64_t row = 0; row < num_elements(x.shape) / width; ++row)
    for (std::int64_t c = begin; c < end; ++c)
      y.values[static_cast<std::size_t>(row * (end - begin) + c - begin)] =
          x.values[static_cast<std::size_t>(row * width + c)];
  return y;
}

/// The number that is added to a score, by batch, head, query and key.
using Bias = std::function<double(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j)>;

double no_bias(std::int64_t, std::int64_t, std::int64_t, std::int64_t) { return 0; }

/// softmax(scale q k' + bias) v; a head of keys serves as many heads of queries as there are more.
Array attend(const Array& q, const Array& k, const Array& v, const Bias& bias, double scale = 0,
             double softcap = 0) {
  const std::int64_t shared = q.extent(1) / k.extent(1);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(q.extent(3)));
  Array y({q.extent(0), q.extent(1), q.extent(2), v.extent(3)});
  for (std::int64_t b = 0; b < q.extent(0); ++b)
    for (std::int64_t h = 0; h < q.extent(1); ++h)
      for (std::int64_t i = 0; i < q.extent(2); ++i) {
        Array scores({1, k.extent(2)});
        for (std::int64_t j = 0; j < k.extent(2); ++j) {
          for (std::int64_t d = 0; d < q.extent(3); ++d)
            scores(0, j) += scale * q(b, h, i, d) * k(b, h / shared, j, d);
          if (softcap > 0) scores(0, j) = softcap * std::tanh(scores(0, j) / softcap);
          scores(0, j) += bias(b, h, i, j);
        }
        const Array shares = softmax(scores);
        for (std::int64_t j = 0; j < k.extent(2); ++j)
          for (std::int64_t e = 0; e < v.extent(3); ++e)
            y(b, h, i, e) += shares(0, j) * v(b, h / shared, j, e);
      }
  return y;
}

/// Turns pairs of elements of [batch, heads, sequence, depth] by the angles of their positions: of
/// the two halves of what is turned, or side by side.
Array rotated(const Array& x, const Array& cosines, const Array& sines,
              const std::function<std::int64_t(std::int64_t b, std::int64_t s)>& position,
              bool interleaved) {
  Array y = x;
  const std::int64_t pairs = cosines.extent(1);
  for (std::int64_t b = 0; b < x.extent(0); ++b)
    for (std::int64_t h = 0; h < x.extent(1); ++h)
      for (std::int64_t s = 0; s < x.extent(2); ++s)
        for (std::int64_t p = 0; p < pairs; ++p) {
          const double c = cosines(position(b, s), p);
          const double n = sines(position(b, s), p);
          const std::int64_t first = interleaved ? 2 * p : p;
          const std::int64_t second = interleaved ? 2 * p + 1 : p + pairs;
          y(b, h, s, first) = x(b, h, s, first) * c - x(b, h, s, second) * n;
          y(b, h, s, second) = x(b, h, s, first) * n + x(b, h, s, second) * c;
        }
  return y;
}

/// Both halves of an Attention's past or present.
Array pair_of(const Array& k, const Array& v) {
  Shape shape = k.shape;
  shape.insert(shape.begin(), 2);
  Array both(shape);
  std::ranges::copy(k.values, both.values.begin());
  std::ranges::copy(v.values, both.values.begin() + std::ssize(k.values));
  return both;
}

/// input [2, 3, 8], whose projection has 2 heads.
struct Projected {
  Draw draw;
  Array input = draw.numbers({2, 3, 8});
  Array weights = draw.numbers({8, 18}, -0.5, 0.5);
  Array bias = draw.numbers({18});
  Array q;
  Array k;
  Array v;

  Projected() {
    Array rows = input;
    rows.shape = {6, 8};
    Array all = sum(matmul(rows, weights), bias);
    all.shape = {2, 3, 18};
    q = split_heads(columns(all, 0, 6), 2);
    k = split_heads(columns(all, 6, 12), 2);
    v = split_heads(columns(all, 12, 18), 2);
  }
  Call call() const {
    Call made(ms, "Attention");
    return made.in(input).in(weights).in(bias).set("num_heads", std::int64_t{2});
  }
};

}  // namespace

OPERATOR_TEST("com.microsoft", "RotaryEmbedding", "pairs turn by the angles of their positions") {
  Draw draw;
  const Array x = draw.numbers({2, 3, 12});
  const Array cosines = draw.numbers({6, 3}, -1, 1);
  const Array sines = draw.numbers({6, 3}, -1, 1);
  const Array each({2, 3}, std::vector<double>{0, 2, 1, 5, 3, 4});
  const Array first({1}, 2);
  for (const bool interleaved : {false, true}) {
    const auto call = [&](const Array& given, const Array& positions) {
      return Call(ms, "RotaryEmbedding")
          .in(given)
          .in(positions, DataType::int64)
          .in(cosines)
          .in(sines)
          .set("interleaved", std::int64_t{interleaved})
          .result();
    };
    const Array by_each = rotated(
        split_heads(x, 2), cosines, sines,
        [&](std::int64_t b, std::int64_t s) { return static_cast<std::int64_t>(each(b, s)); },
        interleaved);
    check(call(x, each), merge_heads(by_each));
    check(call(split_heads(x, 2), each), by_each);
    for (const Array& offset : {first, Array({}, 2)})
      check(call(x, offset), merge_heads(rotated(
                                 split_heads(x, 2), cosines, sines,
                                 [](std::int64_t, std::int64_t s) { return 2 + s; }, interleaved)));
  }
}

OPERATOR_TEST("com.microsoft", "Attention", "of a projection, all keys or those before") {
  const Projected p;
  const auto outputs = p.call().run(2);
  check(outputs[0], merge_heads(attend(p.q, p.k, p.v, no_bias)));
  check(outputs[1], pair_of(p.k, p.v));
  check(p.call().set("unidirectional", std::int64_t{1}).set("scale", 0.25F).result(),
        merge_heads(attend(
            p.q, p.k, p.v,
            [](std::int64_t, std::int64_t, std::int64_t i, std::int64_t j) {
              return j > i ? hidden : 0;
            },
            0.25)));
}

OPERATOR_TEST("com.microsoft", "Attention", "values may have another width than queries and keys") {
  Draw draw;
  const Array input = draw.numbers({2, 3, 8});
  const Array weights = draw.numbers({8, 16}, -0.5, 0.5);
  Array rows = input;
  rows.shape = {6, 8};
  Array all = matmul(rows, weights);
  all.shape = {2, 3, 16};
  check(Call(ms, "Attention")
            .in(input)
            .in(weights)
            .set("num_heads", std::int64_t{2})
            .set("qkv_hidden_sizes", std::vector<std::int64_t>{4, 4, 8})
            .result(),
        merge_heads(attend(split_heads(columns(all, 0, 4), 2), split_heads(columns(all, 4, 8), 2),
                           split_heads(columns(all, 8, 16), 2), no_bias)));
}

OPERATOR_TEST("com.microsoft", "Attention", "masks add their filter to the scores") {
  const Projected p;
  const double filter = -10000;
  const auto expected = [&](const Bias& bias) { return merge_heads(attend(p.q, p.k, p.v, bias)); };
  const Array keys({2, 3}, std::vector<double>{1, 1, 0, 1, 0, 1});
  check(p.call().in(keys, DataType::int32).result(),
        expected([&](std::int64_t b, std::int64_t, std::int64_t, std::int64_t j) {
          return keys(b, j) == 0 ? filter : 0;
        }));
  const Array by_query({2, 3, 3},
                       std::vector<double>{1, 0, 0, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 0, 1});
  check(p.call().in(by_query, DataType::int32).result(),
        expected([&](std::int64_t b, std::int64_t, std::int64_t i, std::int64_t j) {
          return by_query(b, i, j) == 0 ? filter : 0;
        }));
  const Array lengths({2}, std::vector<double>{2, 3});
  check(p.call().in(lengths, DataType::int32).result(),
        expected([&](std::int64_t b, std::int64_t, std::int64_t, std::int64_t j) {
          return static_cast<double>(j) >= lengths(b) ? filter : 0;
        }));
  const Array ends_and_begins({4}, std::vector<double>{3, 2, 1, 0});
  check(p.call().in(ends_and_begins, DataType::int32).result(),
        expected([&](std::int64_t b, std::int64_t, std::int64_t, std::int64_t j) {
          const auto place = static_cast<double>(j);
          return place >= ends_and_begins(b) || place < ends_and_begins(b + 2) ? filter : 0;
        }));
}

OPERATOR_TEST("com.microsoft", "Attention", "a past stands before, a bias is added") {
  Projected p;
  const Array past_k = p.draw.numbers({2, 2, 2, 3});
  const Array past_v = p.draw.numbers({2, 2, 2, 3});
  const Array bias = p.draw.numbers({2, 2, 3, 5});
  const auto outputs = p.call().left_out().in(pair_of(past_k, past_v)).in(bias).run(2);
  const Array keys = joined(past_k, p.k);
  const Array values = joined(past_v, p.v);
  check(outputs[0], merge_heads(attend(p.q, keys, values,
                                       [&](std::int64_t b, std::int64_t h, std::int64_t i,
                                           std::int64_t j) { return bias(b, h, i, j); })));
  check(outputs[1], pair_of(keys, values));
}

OPERATOR_TEST("com.microsoft", "MultiHeadAttention", "of queries, keys and values with a bias") {
  Draw draw;
  const Array q = draw.numbers({2, 3, 8});
  const Array k = draw.numbers({2, 4, 8});
  const Array v = draw.numbers({2, 4, 6});
  const Array bias = draw.numbers({22});
  const Array mask({2, 4}, std::vector<double>{1, 1, 1, 0, 1, 0, 1, 1});
  const Array added = draw.numbers({1, 2, 3, 4});
  const auto call = [&] {
    return Call(ms, "MultiHeadAttention").in(q).in(k).in(v).set("num_heads", std::int64_t{2});
  };
  check(call().result(),
        merge_heads(attend(split_heads(q, 2), split_heads(k, 2), split_heads(v, 2), no_bias)));
  check(call().in(bias).in(mask, DataType::int32).in(added).result(),
        merge_heads(attend(split_heads(sum(q, columns(bias, 0, 8)), 2),
                           split_heads(sum(k, columns(bias, 8, 16)), 2),
                           split_heads(sum(v, columns(bias, 16, 22)), 2),
                           [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
                             return added(0, h, i, j) + (mask(b, j) == 0 ? -10000 : 0);
                           })));
}

OPERATOR_TEST("com.microsoft", "MultiHeadAttention", "packed operands, heads apart and a past") {
  Draw draw;
  const Array q = draw.numbers({2, 3, 8});
  const Array k = draw.numbers({2, 2, 3, 4});
  const Array v = draw.numbers({2, 2, 3, 4});
  const Array past_k = draw.numbers({2, 2, 2, 4});
  const Array past_v = draw.numbers({2, 2, 2, 4});
  const Array expected = merge_heads(attend(split_heads(q, 2), k, v, no_bias));
  const auto call = [] { return Call(ms, "MultiHeadAttention").set("num_heads", std::int64_t{2}); };
  check(call().in(q).in(k).in(v).result(), expected);

  Array all({2, 3, 2, 3, 4});  // q, k and v of each head side by side
  Array both({2, 3, 2, 2, 4});
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t s = 0; s < 3; ++s)
      for (std::int64_t h = 0; h < 2; ++h)
        for (std::int64_t d = 0; d < 4; ++d) {
          all(b, s, h, 0, d) = q(b, s, 4 * h + d);
          all(b, s, h, 1, d) = both(b, s, h, 0, d) = k(b, h, s, d);
          all(b, s, h, 2, d) = both(b, s, h, 1, d) = v(b, h, s, d);
        }
  check(call().in(all).result(), expected);
  check(call().in(q).in(both).result(), expected);

  const auto outputs = call()
                           .in(q)
                           .in(merge_heads(k))
                           .in(merge_heads(v))
                           .left_out()
                           .left_out()
                           .left_out()
                           .in(past_k)
                           .in(past_v)
                           .set("unidirectional", std::int64_t{1})
                           .run(3);
  const Array keys = joined(past_k, k);
  const Array values = joined(past_v, v);
  check(outputs[0], merge_heads(attend(split_heads(q, 2), keys, values,
                                       [](std::int64_t, std::int64_t, std::int64_t i,
                                          std::int64_t j) { return j > i + 2 ? hidden : 0; })));
  check(outputs[1], keys);
  check(outputs[2], values);
}

namespace {

/// A step of 2 sequences with 4 heads of queries and 2 of keys, 4 elements each.
struct Grouped {
  std::int64_t tokens;
  std::int64_t past;
  Draw draw;
  Array q = draw.numbers({2, tokens, 16});
  Array k = draw.numbers({2, tokens, 8});
  Array v = draw.numbers({2, tokens, 8});
  Array past_k = draw.numbers({2, 2, past, 4});
  Array past_v = draw.numbers({2, 2, past, 4});

  Grouped(std::int64_t new_tokens, std::int64_t rows) : tokens(new_tokens), past(rows) {}

  /// `lengths`: of each sequence with its new tokens.
  Call call(const std::vector<double>& lengths, std::int64_t total) const {
    Call made(ms, "GroupQueryAttention");
    made.in(q).in(k).in(v);
    if (past == 0)
      made.left_out().left_out();
    else
      made.in(past_k).in(past_v);
    made.in(map(Array({2}, lengths), [](double length) { return length - 1; }), DataType::int32);
    made.constant(Array({1}, static_cast<double>(total)), DataType::int32);
    return made.set("num_heads", std::int64_t{4}).set("kv_num_heads", std::int64_t{2});
  }
};

/// New rows of [batch, heads, rows, elements] in the places of the cache from `begin` on.
Array placed(const Array& cache, const Array& rows, const std::vector<std::int64_t>& begin) {
  Array y = cache;
  for (std::int64_t b = 0; b < y.extent(0); ++b)
    for (std::int64_t h = 0; h < y.extent(1); ++h)
      for (std::int64_t s = 0; s < rows.extent(2); ++s)
        for (std::int64_t d = 0; d < y.extent(3); ++d)
          y(b, h, begin[static_cast<std::size_t>(b)] + s, d) = rows(b, h, s, d);
  return y;
}

}  // namespace

OPERATOR_TEST("com.microsoft", "GroupQueryAttention", "a first prompt") {
  const Grouped g(3, 0);
  const auto outputs = g.call({3, 3}, 3).run(3);
  check(outputs[0],
        merge_heads(attend(split_heads(g.q, 4), split_heads(g.k, 2), split_heads(g.v, 2),
                           [](std::int64_t, std::int64_t, std::int64_t i, std::int64_t j) {
                             return j > i ? hidden : 0;
                           })));
  check(outputs[1], split_heads(g.k, 2));
  check(outputs[2], split_heads(g.v, 2));
}

OPERATOR_TEST("com.microsoft", "GroupQueryAttention", "a step with softcap and a window") {
  const Grouped g(1, 4);
  // A cache of 4 rows, of which the sequences have 2 and 3.
  const auto outputs = g.call({3, 4}, 4)
                           .set("softcap", 2.0F)
                           .set("local_window_size", std::int64_t{2})
                           .set("scale", 0.75F)
                           .run(3);
  const Array keys = placed(g.past_k, split_heads(g.k, 2), {2, 3});
  const Array values = placed(g.past_v, split_heads(g.v, 2), {2, 3});
  const auto bias = [](std::int64_t b, std::int64_t, std::int64_t, std::int64_t j) {
    const std::int64_t place = b == 0 ? 2 : 3;
    return j > place || j <= place - 2 ? hidden : 0;
  };
  check(outputs[0], merge_heads(attend(split_heads(g.q, 4), keys, values, bias, 0.75, 2)));
  check(outputs[1], keys);
  check(outputs[2], values);
}

OPERATOR_TEST("com.microsoft", "GroupQueryAttention", "rotary positions and a head's sink") {
  Grouped g(1, 4);
  const Array cosines = g.draw.numbers({8, 2}, -1, 1);
  const Array sines = g.draw.numbers({8, 2}, -1, 1);
  const Array sinks = g.draw.numbers({4});
  const auto call = [&] {
    return g.call({3, 4}, 4).in(cosines).in(sines).set("do_rotary", std::int64_t{1});
  };
  const auto position = [](std::int64_t b, std::int64_t) { return b == 0 ? 2 : 3; };
  const Array q = rotated(split_heads(g.q, 4), cosines, sines, position, false);
  const Array k = rotated(split_heads(g.k, 2), cosines, sines, position, false);
  const Array keys = placed(g.past_k, k, {2, 3});
  const Array values = placed(g.past_v, split_heads(g.v, 2), {2, 3});
  const auto bias = [](std::int64_t b, std::int64_t, std::int64_t, std::int64_t j) {
    return j > (b == 0 ? 2 : 3) ? hidden : 0;
  };
  check(call().result(), merge_heads(attend(q, keys, values, bias)));

  // A sink is one more key, without a value, whose score is the head's number.
  const Array keys_and_sink = joined(keys, Array({2, 2, 1, 4}));
  const Array values_and_sink = joined(values, Array({2, 2, 1, 4}));
  check(call().left_out().left_out().in(sinks).result(),
        merge_heads(attend(q, keys_and_sink, values_and_sink,
                           [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
                             return j == 4 ? sinks(h) : bias(b, h, i, j);
                           })));
}

OPERATOR_TEST("com.microsoft", "GroupQueryAttention", "a packed query and a cache of 8 bits") {
  const Grouped g(1, 3);
  Array packed({2, 1, 32});
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t c = 0; c < 32; ++c)
      packed(b, 0, c) = c < 16 ? g.q(b, 0, c) : c < 24 ? g.k(b, 0, c - 16) : g.v(b, 0, c - 24);
  Draw draw;
  const Array past_k = draw.integers({2, 2, 3, 4}, -128, 127);
  const Array past_v = draw.integers({2, 2, 3, 4}, -128, 127);
  const double step = 0.03125;
  const auto stored = [&](const Array& x) {
    return map(split_heads(x, 2), [&](double value) {
      return std::clamp(std::nearbyint(value / step), -128.0, 127.0);
    });
  };
  const auto outputs = Call(ms, "GroupQueryAttention")
                           .in(packed)
                           .left_out()
                           .left_out()
                           .in(past_k, DataType::int8)
                           .in(past_v, DataType::int8)
                           .in(Array({2}, std::vector<double>{3, 3}), DataType::int32)
                           .constant(Array({1}, 4), DataType::int32)
                           .left_out()
                           .left_out()
                           .left_out()
                           .left_out()
                           .left_out()
                           .in(Array({1}, step))
                           .in(Array({1}, step))
                           .set("num_heads", std::int64_t{4})
                           .set("kv_num_heads", std::int64_t{2})
                           .set("k_quant_type", std::string("PER_TENSOR"))
                           .set("v_quant_type", std::string("PER_TENSOR"))
                           .set("kv_cache_bit_width", std::int64_t{8})
                           .run(3);
  const Array keys = joined(past_k, stored(g.k));
  const Array values = joined(past_v, stored(g.v));
  const auto number = [&](double value) { return value * step; };
  check(outputs[1], keys);
  check(outputs[2], values);
  check(outputs[0],
        merge_heads(attend(split_heads(g.q, 4), map(keys, number), map(values, number), no_bias)));
}
