#include <algorithm>
#include <cmath>

#include "unit/graph/contrib/operator_call.h"

using namespace autopar::graph;

namespace {

const char* const ms = "com.microsoft";
constexpr DataType bytes = DataType::uint8;

/// A tensor of bytes, its scale and its zero point, and the numbers that it stands for.
struct Quantised {
  Array stored;
  double scale = 1;
  double zero = 0;

  Array numbers() const {
    return map(stored, [this](double value) { return (value - zero) * scale; });
  }
  Call& give(Call& call) const {
    return call.in(stored, bytes).in(Array({}, scale)).in(Array({}, zero), bytes);
  }
};

Quantised drawn(Draw& draw, const Shape& shape, double scale, double zero) {
  return {draw.integers(shape, 0, 255), scale, zero};
}

/// Rounded half to even, within a byte.
double quantised(double value, double scale, double zero) {
  return std::clamp(std::nearbyint(value / scale) + zero, 0.0, 255.0);
}

Array quantised(const Array& x, double scale, double zero) {
  return map(x, [=](double value) { return quantised(value, scale, zero); });
}

Call& give_result(Call& call, double scale, double zero) {
  return call.in(Array({}, scale)).in(Array({}, zero), bytes);
}

/// What DynamicQuantizeLinear makes of floats: bytes for the range that they and 0 take.
Quantised dynamically(const Array& x) {
  const double low = std::min(0.0, std::ranges::min(x.values));
  const double high = std::max(0.0, std::ranges::max(x.values));
  const auto scale = static_cast<double>(static_cast<float>((high - low) / 255));
  const double zero = std::clamp(std::nearbyint(-low / scale), 0.0, 255.0);
  return {quantised(x, scale, zero), scale, zero};
}

}  // namespace

OPERATOR_TEST("com.microsoft", "QuantizeLinear", "one scale for all, or one along an axis") {
  Draw draw;
  const Array x = draw.numbers({3, 4}, -8, 8);
  check(Call(ms, "QuantizeLinear").in(x).in(Array({}, 0.125)).in(Array({}, 7), bytes).result(),
        quantised(x, 0.125, 7));
  const Array scales({3}, std::vector<double>{0.125, 0.25, 0.0625});
  const Array zeros({3}, std::vector<double>{0, 100, 20});
  Array expected({3, 4});
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t j = 0; j < 4; ++j) expected(i, j) = quantised(x(i, j), scales(i), zeros(i));
  check(Call(ms, "QuantizeLinear")
            .in(x)
            .in(scales)
            .in(zeros, bytes)
            .set("axis", std::int64_t{0})
            .result(),
        expected);
}

OPERATOR_TEST("com.microsoft", "DequantizeLinear", "one scale for all, or one along an axis") {
  Draw draw;
  const Quantised x = drawn(draw, {3, 4}, 0.125, 7);
  Call call(ms, "DequantizeLinear");
  check(x.give(call).result(), x.numbers());
  const Array scales({4}, std::vector<double>{0.125, 0.25, 0.0625, 2});
  const Array zeros({4}, std::vector<double>{0, 100, 20, 1});
  Array expected({3, 4});
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t j = 0; j < 4; ++j) expected(i, j) = (x.stored(i, j) - zeros(j)) * scales(j);
  check(Call(ms, "DequantizeLinear")
            .in(x.stored, bytes)
            .in(scales)
            .in(zeros, bytes)
            .set("axis", std::int64_t{1})
            .result(),
        expected);
}

OPERATOR_TEST("com.microsoft", "QLinearAdd", "the sum of what both stand for") {
  Draw draw;
  const Quantised a = drawn(draw, {3, 4}, 0.125, 7);
  const Quantised b = drawn(draw, {4}, 0.0625, 100);
  Call call(ms, "QLinearAdd");
  check(give_result(b.give(a.give(call)), 0.25, 30).result(),
        quantised(sum(a.numbers(), b.numbers()), 0.25, 30));
}

OPERATOR_TEST("com.microsoft", "QLinearMul", "the product of what both stand for") {
  Draw draw;
  const Quantised a = drawn(draw, {3, 4}, 0.125, 7);
  const Quantised b = drawn(draw, {4}, 0.0625, 100);
  Call call(ms, "QLinearMul");
  check(give_result(b.give(a.give(call)), 1.5, 90).result(),
        quantised(product(a.numbers(), b.numbers()), 1.5, 90));
}

OPERATOR_TEST("com.microsoft", "QLinearSigmoid", "of what the bytes stand for") {
  Draw draw;
  const Quantised x = drawn(draw, {3, 4}, 0.03, 128);
  Call call(ms, "QLinearSigmoid");
  check(give_result(x.give(call), 0.00390625, 0).result(),
        quantised(map(x.numbers(), sigmoid), 0.00390625, 0));
}

OPERATOR_TEST("com.microsoft", "QLinearLeakyRelu", "of what the bytes stand for") {
  Draw draw;
  const Quantised x = drawn(draw, {3, 4}, 0.03, 128);
  Call call(ms, "QLinearLeakyRelu");
  check(give_result(x.give(call), 0.017, 50).set("alpha", 0.2F).result(),
        quantised(map(x.numbers(), [](double value) { return value < 0 ? 0.2 * value : value; }),
                  0.017, 50));
}

OPERATOR_TEST("com.microsoft", "QLinearSoftmax", "of what the bytes stand for, row by row") {
  Draw draw;
  const Quantised x = drawn(draw, {3, 4}, 0.03, 128);
  Call call(ms, "QLinearSoftmax");
  check(give_result(x.give(call), 0.00390625, 0)
            .set("axis", std::int64_t{-1})
            .set("opset", std::int64_t{13})
            .result(),
        quantised(softmax(x.numbers()), 0.00390625, 0));
}

OPERATOR_TEST("com.microsoft", "QLinearGlobalAveragePool", "each channel's mean") {
  Draw draw;
  const Quantised x = drawn(draw, {2, 3, 4, 5}, 0.03, 128);
  const Array numbers = x.numbers();
  Array mean({2, 3, 1, 1});
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t c = 0; c < 3; ++c)
      for (std::int64_t i = 0; i < 4; ++i)
        for (std::int64_t j = 0; j < 5; ++j) mean(b, c, 0, 0) += numbers(b, c, i, j) / 20;
  Call call(ms, "QLinearGlobalAveragePool");
  check(give_result(x.give(call), 0.011, 120).result(), quantised(mean, 0.011, 120));
}

OPERATOR_TEST("com.microsoft", "QLinearAveragePool", "each window's mean") {
  Draw draw;
  const Quantised x = drawn(draw, {1, 2, 4, 6}, 0.03, 128);
  const Array numbers = x.numbers();
  Array mean({1, 2, 2, 3});
  for (std::int64_t c = 0; c < 2; ++c)
    for (std::int64_t i = 0; i < 4; ++i)
      for (std::int64_t j = 0; j < 6; ++j) mean(0, c, i / 2, j / 2) += numbers(0, c, i, j) / 4;
  Call call(ms, "QLinearAveragePool");
  check(give_result(x.give(call), 0.011, 120)
            .set("kernel_shape", std::vector<std::int64_t>{2, 2})
            .set("strides", std::vector<std::int64_t>{2, 2})
            .result(),
        quantised(mean, 0.011, 120));
}

OPERATOR_TEST("com.microsoft", "QLinearConcat", "of tensors with scales of their own") {
  Draw draw;
  const Quantised a = drawn(draw, {3, 2}, 0.03, 128);
  const Quantised b = drawn(draw, {3, 3}, 0.05, 10);
  Array all({3, 5});
  for (std::int64_t i = 0; i < 3; ++i)
    for (std::int64_t j = 0; j < 5; ++j)
      all(i, j) = j < 2 ? a.numbers()(i, j) : b.numbers()(i, j - 2);
  Call call(ms, "QLinearConcat");
  check(b.give(a.give(give_result(call, 0.07, 60))).set("axis", std::int64_t{1}).result(),
        quantised(all, 0.07, 60));
}

OPERATOR_TEST("com.microsoft", "QGemm", "alpha A B and C in units of both scales") {
  Draw draw;
  const Quantised a = drawn(draw, {3, 4}, 0.03125, 128);
  const Quantised b = drawn(draw, {4, 5}, 0.0625, 100);
  const Array c = draw.integers({5}, -1000, 1000);
  const Array whole = map(sum(matmul(a.numbers(), b.numbers()),
                              map(c, [](double value) { return value * 0.03125 * 0.0625; })),
                          [](double value) { return 0.5 * value; });
  const auto call = [&] {
    Call made(ms, "QGemm");
    a.give(made);
    made.in(transposed(b.stored), bytes).in(Array({}, b.scale)).in(Array({}, b.zero), bytes);
    made.in(c, DataType::int32);
    return made.set("alpha", 0.5F).set("transB", std::int64_t{1});
  };
  check(call().result(), whole);
  Call with_scale = call();
  check(give_result(with_scale, 0.4, 110).result(), quantised(whole, 0.4, 110));
}

OPERATOR_TEST("com.microsoft", "MatMulIntegerToFloat", "a product of bytes, scaled, and a bias") {
  Draw draw;
  const Quantised a = drawn(draw, {3, 4}, 0.03125, 128);
  const Quantised b = drawn(draw, {4, 5}, 0.0625, 100);
  const Array bias = draw.numbers({5});
  check(Call(ms, "MatMulIntegerToFloat")
            .in(a.stored, bytes)
            .in(b.stored, bytes)
            .in(Array({}, a.scale))
            .in(Array({}, b.scale))
            .in(Array({}, a.zero), bytes)
            .in(Array({}, b.zero), bytes)
            .in(bias)
            .result(),
        sum(matmul(a.numbers(), b.numbers()), bias));
}

OPERATOR_TEST("com.microsoft", "DynamicQuantizeMatMul", "A is quantised as it comes") {
  Draw draw;
  const Array a = draw.numbers({3, 4});
  const Quantised b = drawn(draw, {4, 5}, 0.0625, 100);
  const Array bias = draw.numbers({5});
  check(Call(ms, "DynamicQuantizeMatMul")
            .in(a)
            .in(b.stored, bytes)
            .in(Array({}, b.scale))
            .in(Array({}, b.zero), bytes)
            .in(bias)
            .result(),
        sum(matmul(dynamically(a).numbers(), b.numbers()), bias));
}

OPERATOR_TEST("com.microsoft", "GatherBlockQuantized", "rows of packed numbers, scaled by blocks") {
  Draw draw;
  // 6 rows of 32 numbers of 4 bits in blocks of 16, the first of two in a byte's low bits.
  const Array numbers = draw.integers({6, 32}, 0, 15);
  const Array scales = draw.numbers({6, 2}, 0.1, 1);
  const Array zeros = draw.integers({6, 2}, 0, 15);
  const Array ids({2, 2}, std::vector<double>{5, 0, 3, 3});
  const auto packed = [](const Array& x) {
    Array y({x.extent(0), x.extent(1) / 2});
    for (std::int64_t i = 0; i < y.extent(0); ++i)
      for (std::int64_t j = 0; j < y.extent(1); ++j) y(i, j) = x(i, 2 * j) + 16 * x(i, 2 * j + 1);
    return y;
  };
  for (const bool has_zeros : {false, true}) {
    Array expected({2, 2, 32});
    for (std::int64_t i = 0; i < 2; ++i)
      for (std::int64_t j = 0; j < 2; ++j)
        for (std::int64_t c = 0; c < 32; ++c) {
          const auto row = static_cast<std::int64_t>(ids(i, j));
          expected(i, j, c) =
              (numbers(row, c) - (has_zeros ? zeros(row, c / 16) : 8)) * scales(row, c / 16);
        }
    Call call(ms, "GatherBlockQuantized");
    call.in(packed(numbers), bytes).in(ids, DataType::int64).in(scales);
    if (has_zeros) call.in(packed(zeros), bytes);
    check(call.set("bits", std::int64_t{4})
              .set("block_size", std::int64_t{16})
              .set("gather_axis", std::int64_t{0})
              .set("quantize_axis", std::int64_t{1})
              .result(),
          expected);
    Call none(ms, "GatherBlockQuantized");
    none.in(packed(numbers), bytes).in(Array({0, 2}), DataType::int64).in(scales);
    if (has_zeros) none.in(packed(zeros), bytes);
    check(none.set("bits", std::int64_t{4}).set("block_size", std::int64_t{16}).result(),
          Array({0, 2, 32}));
  }
}

OPERATOR_TEST("com.microsoft", "QEmbedLayerNormalization", "of tables of bytes") {
  Draw draw;
  const Array ids = draw.integers({2, 3}, 0, 9);
  const Array segments = draw.integers({2, 3}, 0, 1);
  const Array mask({2, 3}, std::vector<double>{1, 1, 0, 1, 1, 1});
  const Quantised words = drawn(draw, {10, 4}, 0.01, 120);
  const Quantised positions = drawn(draw, {5, 4}, 0.02, 130);
  const Quantised kinds = drawn(draw, {2, 4}, 0.03, 90);
  const Quantised gamma = drawn(draw, {4}, 0.01, 100);
  const Quantised beta = drawn(draw, {4}, 0.02, 110);
  Array expected({2, 3, 4});
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t s = 0; s < 3; ++s) {
      std::vector<double> row(4);
      double mean = 0;
      double variance = 0;
      for (std::int64_t h = 0; h < 4; ++h) {
        row[static_cast<std::size_t>(h)] =
            words.numbers()(static_cast<std::int64_t>(ids(b, s)), h) + positions.numbers()(s, h) +
            kinds.numbers()(static_cast<std::int64_t>(segments(b, s)), h);
        mean += row[static_cast<std::size_t>(h)] / 4;
      }
      for (const double value : row) variance += (value - mean) * (value - mean) / 4;
      for (std::int64_t h = 0; h < 4; ++h)
        expected(b, s, h) = (row[static_cast<std::size_t>(h)] - mean) /
                                std::sqrt(variance + 0.001) * gamma.numbers()(h) +
                            beta.numbers()(h);
    }
  Call call(ms, "QEmbedLayerNormalization");
  call.in(ids, DataType::int32).in(segments, DataType::int32);
  const std::vector<Quantised> tables{words, positions, kinds, gamma, beta};
  for (const Quantised& table : tables) call.in(table.stored, bytes);
  call.in(mask, DataType::int32);
  for (const Quantised& table : tables) call.in(Array({}, table.scale));
  for (const Quantised& table : tables) call.in(Array({}, table.zero), bytes);
  const auto outputs = call.set("epsilon", 0.001F).run(2);
  check(outputs[0], expected);
  check(outputs[1], Array({2}, std::vector<double>{2, 3}));
}

OPERATOR_TEST("com.microsoft", "QAttention", "an Attention of what tokens and weights stand for") {
  Draw draw;
  const Quantised tokens = drawn(draw, {2, 3, 8}, 0.01, 128);
  const Quantised weights = drawn(draw, {8, 12}, 0.005, 100);
  const Array bias = draw.numbers({12});
  const Array mask({2, 3}, std::vector<double>{1, 1, 0, 1, 1, 1});
  const Array expected = Call(ms, "Attention")
                             .in(tokens.numbers())
                             .in(weights.numbers())
                             .in(bias)
                             .in(mask, DataType::int32)
                             .set("num_heads", std::int64_t{2})
                             .result();
  check(Call(ms, "QAttention")
            .in(tokens.stored, bytes)
            .in(weights.stored, bytes)
            .in(bias)
            .in(Array({}, tokens.scale))
            .in(Array({}, weights.scale))
            .in(mask, DataType::int32)
            .in(Array({}, tokens.zero), bytes)
            .in(Array({}, weights.zero), bytes)
            .set("num_heads", std::int64_t{2})
            .result(),
        expected, 1e-4);
}

OPERATOR_TEST("com.microsoft", "QAttention", "weights have a scale or zero point for each column") {
  Draw draw;
  const Quantised tokens = drawn(draw, {2, 3, 8}, 0.01, 128);
  const Array weights = draw.integers({8, 12}, 0, 255);
  const Array bias = draw.numbers({12});
  const Array one_scale({1}, 0.005);
  const Array one_zero(Shape{}, 100);
  const Array scales = draw.numbers({12}, 0.002, 0.008);
  const Array zeros = draw.integers({12}, 80, 120);
  for (const auto& [scale, zero] :
       {std::pair(scales, zeros), std::pair(scales, one_zero), std::pair(one_scale, zeros)}) {
    const Array numbers = product(sum(weights, map(zero, [](double z) { return -z; })), scale);
    check(Call(ms, "QAttention")
              .in(tokens.stored, bytes)
              .in(weights, bytes)
              .in(bias)
              .in(Array({}, tokens.scale))
              .in(scale)
              .left_out()
              .in(Array({}, tokens.zero), bytes)
              .in(zero, bytes)
              .set("num_heads", std::int64_t{2})
              .result(),
          Call(ms, "Attention")
              .in(tokens.numbers())
              .in(numbers)
              .in(bias)
              .set("num_heads", std::int64_t{2})
              .result(),
          1e-4);
  }
}

OPERATOR_TEST("com.microsoft", "DynamicQuantizeLSTM", "each step quantises its input and state") {
  Draw draw;
  constexpr std::int64_t steps = 3;
  constexpr std::int64_t batch = 2;
  constexpr std::int64_t features = 4;
  constexpr std::int64_t hidden = 3;
  const Array x = draw.numbers({steps, batch, features});
  for (const std::string direction : {"forward", "reverse"}) {
    const Quantised w = drawn(draw, {features, 4 * hidden}, 0.004, 120);
    const Quantised r = drawn(draw, {hidden, 4 * hidden}, 0.005, 130);
    const Array bias = draw.numbers({1, 8 * hidden});
    // Gates stand in the order input, output, forget, cell.
    Array rows = x;
    rows.shape = {steps * batch, features};
    const Array inputs = matmul(dynamically(rows).numbers(), w.numbers());
    Array h({batch, hidden});
    Array c({batch, hidden});
    Array all({steps, 1, batch, hidden});
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t t = direction == "reverse" ? steps - 1 - step : step;
      Array state({batch, 4 * hidden});
      if (step > 0) state = matmul(dynamically(h).numbers(), r.numbers());
      for (std::int64_t b = 0; b < batch; ++b)
        for (std::int64_t e = 0; e < hidden; ++e) {
          const auto gate = [&](std::int64_t g) {
            const std::int64_t column = g * hidden + e;
            return inputs(t * batch + b, column) + state(b, column) + bias(0, column) +
                   bias(0, 4 * hidden + column);
          };
          c(b, e) = sigmoid(gate(2)) * c(b, e) + sigmoid(gate(0)) * std::tanh(gate(3));
          h(b, e) = sigmoid(gate(1)) * std::tanh(c(b, e));
          all(t, 0, b, e) = h(b, e);
        }
    }
    const auto in_one_direction = [](Array matrix) {
      matrix.shape.insert(matrix.shape.begin(), 1);
      return matrix;
    };
    const auto outputs = Call(ms, "DynamicQuantizeLSTM")
                             .in(x)
                             .in(in_one_direction(w.stored), bytes)
                             .in(in_one_direction(r.stored), bytes)
                             .in(bias)
                             .left_out()
                             .left_out()
                             .left_out()
                             .left_out()
                             .in(Array({1}, w.scale))
                             .in(Array({1}, w.zero), bytes)
                             .in(Array({1}, r.scale))
                             .in(Array({1}, r.zero), bytes)
                             .set("hidden_size", std::int64_t{hidden})
                             .set("direction", direction)
                             .run(3);
    check(outputs[0], all, 1e-4);
    check(outputs[1], in_one_direction(h), 1e-4);
    check(outputs[2], in_one_direction(c), 1e-4);
  }
}

OPERATOR_TEST("com.microsoft", "DynamicQuantizeLSTM", "no step leaves the state as it is") {
  Draw draw;
  const Quantised w = drawn(draw, {1, 4, 12}, 0.004, 120);
  const Quantised r = drawn(draw, {1, 3, 12}, 0.005, 130);
  const Array hidden = draw.numbers({1, 2, 3});
  const Array cell = draw.numbers({1, 2, 3});
  const auto outputs = Call(ms, "DynamicQuantizeLSTM")
                           .in(Array({0, 2, 4}))
                           .in(w.stored, bytes)
                           .in(r.stored, bytes)
                           .left_out()
                           .left_out()
                           .in(hidden)
                           .in(cell)
                           .left_out()
                           .in(Array({1}, w.scale))
                           .in(Array({1}, w.zero), bytes)
                           .in(Array({1}, r.scale))
                           .in(Array({1}, r.zero), bytes)
                           .set("hidden_size", std::int64_t{3})
                           .run(3);
  check(outputs[0], Array({0, 1, 2, 3}));
  check(outputs[1], hidden);
  check(outputs[2], cell);
}

OPERATOR_TEST("com.microsoft", "MatMulNBits", "A times numbers of 4 bits, scaled by blocks") {
  Draw draw;
  constexpr std::int64_t depth = 32;
  constexpr std::int64_t columns = 3;
  const Array a = draw.numbers({2, depth});
  const Array numbers = draw.integers({columns, depth}, 0, 15);
  const Array scales = draw.numbers({columns, 2}, 0.1, 1);
  Array packed({columns, 2, 8});
  Array b({depth, columns});
  for (std::int64_t n = 0; n < columns; ++n)
    for (std::int64_t k = 0; k < depth; ++k) {
      packed(n, k / 16, k % 16 / 2) += numbers(n, k) * (k % 2 == 0 ? 1 : 16);
      b(k, n) = (numbers(n, k) - 8) * scales(n, k / 16);
    }
  check(Call(ms, "MatMulNBits")
            .in(a)
            .in(packed, bytes)
            .in(scales)
            .set("K", depth)
            .set("N", columns)
            .set("bits", std::int64_t{4})
            .set("block_size", std::int64_t{16})
            .result(),
        matmul(a, b), 1e-4);
}
