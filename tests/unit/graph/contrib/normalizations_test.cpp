#include <algorithm>
#include <cmath>

#include "unit/graph/contrib/operator_call.h"

using namespace autopar::graph;

namespace {

/// (x - mean) / sqrt(variance + epsilon) of each row, by which scale and shift are multiplied and
/// added.
Array layer_norm(const Array& x, const Array& scale, const Array& shift, double epsilon) {
  const Array normal = by_row(x, [epsilon](std::vector<double>& row) {
    double mean = 0;
    double variance = 0;
    for (const double value : row) mean += value / static_cast<double>(row.size());
    for (const double value : row)
      variance += (value - mean) * (value - mean) / static_cast<double>(row.size());
    for (double& value : row) value = (value - mean) / std::sqrt(variance + epsilon);
  });
  return sum(product(normal, scale), shift);
}

Array rms_norm(const Array& x, const Array& scale, double epsilon) {
  const Array normal = by_row(x, [epsilon](std::vector<double>& row) {
    double square = 0;
    for (const double value : row) square += value * value / static_cast<double>(row.size());
    for (double& value : row) value /= std::sqrt(square + epsilon);
  });
  return product(normal, scale);
}

/// Rows of a table.
Array rows_of(const Array& table, const Array& ids) {
  Array rows({ids.extent(0), ids.extent(1), table.extent(1)});
  for (std::int64_t b = 0; b < rows.extent(0); ++b)
    for (std::int64_t s = 0; s < rows.extent(1); ++s)
      for (std::int64_t h = 0; h < rows.extent(2); ++h)
        rows(b, s, h) = table(static_cast<std::int64_t>(ids(b, s)), h);
  return rows;
}

/// GroupNorm of [batch, height, width, channels], with the activation x sigmoid(x) where asked.
Array group_norm(const Array& x, const Array& gamma, const Array& beta, std::int64_t groups,
                 double epsilon, bool activates) {
  Array y = x;
  const std::int64_t width = x.extent(3) / groups;
  const auto for_each_of = [&](std::int64_t b, std::int64_t g, const auto& visit) {
    for (std::int64_t i = 0; i < x.extent(1); ++i)
      for (std::int64_t j = 0; j < x.extent(2); ++j)
        for (std::int64_t c = g * width; c < (g + 1) * width; ++c) visit(y(b, i, j, c), c);
  };
  for (std::int64_t b = 0; b < x.extent(0); ++b)
    for (std::int64_t g = 0; g < groups; ++g) {
      const auto count = static_cast<double>(x.extent(1) * x.extent(2) * width);
      double mean = 0;
      double variance = 0;
      for_each_of(b, g, [&](double value, std::int64_t) { mean += value / count; });
      for_each_of(b, g, [&](double value, std::int64_t) {
        variance += (value - mean) * (value - mean) / count;
      });
      for_each_of(b, g, [&](double& value, std::int64_t c) {
        value = (value - mean) / std::sqrt(variance + epsilon) * gamma(c) + beta(c);
        if (activates) value *= sigmoid(value);
      });
    }
  return y;
}

Array channels_first(const Array& x) {
  Array y({x.extent(0), x.extent(3), x.extent(1), x.extent(2)});
  for (std::int64_t b = 0; b < x.extent(0); ++b)
    for (std::int64_t i = 0; i < x.extent(1); ++i)
      for (std::int64_t j = 0; j < x.extent(2); ++j)
        for (std::int64_t c = 0; c < x.extent(3); ++c) y(b, c, i, j) = x(b, i, j, c);
  return y;
}

}  // namespace

OPERATOR_TEST("", "SimplifiedLayerNormalization", "rows over their root mean square, scaled") {
  Draw draw;
  const Array x = draw.numbers({2, 3, 8});
  const Array scale = draw.numbers({8});
  check(Call("", "SimplifiedLayerNormalization")
            .in(x)
            .in(scale)
            .set("axis", std::int64_t{-1})
            .set("epsilon", 0.01F)
            .result(),
        rms_norm(x, scale, 0.01));
  check(Call("", "SimplifiedLayerNormalization").in(x).in(scale).result(),
        rms_norm(x, scale, 1e-5));
}

OPERATOR_TEST("com.microsoft", "SkipLayerNormalization", "of the sum of input, skip and bias") {
  Draw draw;
  const Array x = draw.numbers({2, 3, 8});
  const Array skip = draw.numbers({2, 3, 8});
  const Array gamma = draw.numbers({8});
  const Array beta = draw.numbers({8});
  const Array bias = draw.numbers({8});
  const auto outputs = Call("com.microsoft", "SkipLayerNormalization")
                           .in(x)
                           .in(skip)
                           .in(gamma)
                           .in(beta)
                           .in(bias)
                           .set("epsilon", 0.01F)
                           .run(4);
  const Array all = sum(sum(x, skip), bias);
  check(outputs[0], layer_norm(all, gamma, beta, 0.01));
  check(outputs[3], all);
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t s = 0; s < 3; ++s) {
      double mean = 0;
      double variance = 0;
      for (std::int64_t h = 0; h < 8; ++h) mean += all(b, s, h) / 8;
      for (std::int64_t h = 0; h < 8; ++h) variance += std::pow(all(b, s, h) - mean, 2) / 8;
      CHECK(outputs[1](b, s, 0) == Approx(mean).margin(1e-5));
      CHECK(outputs[2](b, s, 0) == Approx(1 / std::sqrt(variance + 0.01)).epsilon(1e-4));
    }
  check(Call("com.microsoft", "SkipLayerNormalization").in(x).in(skip).in(gamma).result(),
        layer_norm(sum(x, skip), gamma, Array({8}), 1e-12));
}

OPERATOR_TEST("com.microsoft", "SkipSimplifiedLayerNormalization",
              "of the sum of input, skip and bias") {
  Draw draw;
  const Array x = draw.numbers({2, 3, 8});
  const Array skip = draw.numbers({2, 3, 8});
  const Array gamma = draw.numbers({8});
  const Array bias = draw.numbers({8});
  check(Call("com.microsoft", "SkipSimplifiedLayerNormalization")
            .in(x)
            .in(skip)
            .in(gamma)
            .in(bias)
            .set("epsilon", 0.01F)
            .result(),
        rms_norm(sum(sum(x, skip), bias), gamma, 0.01));
  check(Call("com.microsoft", "SkipSimplifiedLayerNormalization").in(x).in(skip).in(gamma).result(),
        rms_norm(sum(x, skip), gamma, 1e-12));
}

OPERATOR_TEST("com.microsoft", "EmbedLayerNormalization",
              "of words, positions and segments, with each mask's length") {
  Draw draw;
  const Array ids = draw.integers({2, 3}, 0, 9);
  const Array segments = draw.integers({2, 3}, 0, 1);
  const Array words = draw.numbers({10, 4});
  const Array positions = draw.numbers({5, 4});
  const Array kinds = draw.numbers({2, 4});
  const Array gamma = draw.numbers({4});
  const Array beta = draw.numbers({4});
  const Array mask({2, 3}, std::vector<double>{1, 1, 0, 1, 1, 1});
  const Array places({2, 3}, std::vector<double>{0, 1, 2, 0, 1, 2});
  const auto call = [&](bool has_segments) {
    Call made("com.microsoft", "EmbedLayerNormalization");
    made.in(ids, DataType::int32);
    if (has_segments) made.in(segments, DataType::int32).in(words).in(positions).in(kinds);
    if (!has_segments) made.left_out().in(words).in(positions).left_out();
    return made.in(gamma).in(beta);
  };
  const Array embedded =
      sum(sum(rows_of(words, ids), rows_of(positions, places)), rows_of(kinds, segments));
  const auto outputs = call(true).in(mask, DataType::int32).run(3);
  check(outputs[0], layer_norm(embedded, gamma, beta, 1e-12));
  check(outputs[1], Array({2}, std::vector<double>{2, 3}));
  check(outputs[2], embedded);

  const Array other({2, 3}, std::vector<double>{4, 0, 1, 2, 3, 1});
  check(call(false).left_out().in(other, DataType::int32).result(),
        layer_norm(sum(rows_of(words, ids), rows_of(positions, other)), gamma, beta, 1e-12));
}

OPERATOR_TEST("com.microsoft", "GroupNorm", "groups of channels, which come last or first") {
  Draw draw;
  const Array x = draw.numbers({2, 3, 2, 6});
  const Array gamma = draw.numbers({6});
  const Array beta = draw.numbers({6});
  for (const bool activates : {false, true}) {
    const auto call = [&](const Array& given, std::int64_t is_last) {
      return Call("com.microsoft", "GroupNorm")
          .in(given)
          .in(gamma)
          .in(beta)
          .set("activation", std::int64_t{activates})
          .set("channels_last", is_last)
          .set("epsilon", 0.01F)
          .set("groups", std::int64_t{3})
          .result();
    };
    const Array expected = group_norm(x, gamma, beta, 3, 0.01, activates);
    check(call(x, 1), expected);
    check(call(channels_first(x), 0), channels_first(expected));
  }
}

OPERATOR_TEST("com.microsoft", "SkipGroupNorm", "of the sum of input, skip and bias") {
  Draw draw;
  const Array x = draw.numbers({2, 3, 2, 6});
  const Array gamma = draw.numbers({6});
  const Array beta = draw.numbers({6});
  const Array bias = draw.numbers({6});
  const Array whole = draw.numbers({2, 3, 2, 6});
  const Array by_channel = draw.numbers({2, 6});
  Array wide = by_channel;
  wide.shape = {2, 1, 1, 6};
  const std::vector<std::pair<Array, Array>> skips{{whole, whole}, {by_channel, wide}};
  for (const auto& [skip, as_added] : skips) {
    const auto outputs = Call("com.microsoft", "SkipGroupNorm")
                             .in(x)
                             .in(gamma)
                             .in(beta)
                             .in(skip)
                             .in(bias)
                             .set("activation", std::int64_t{1})
                             .set("groups", std::int64_t{2})
                             .run(2);
    const Array all = sum(sum(x, as_added), bias);
    check(outputs[0], group_norm(all, gamma, beta, 2, 1e-5, true));
    check(outputs[1], all);
  }
}
