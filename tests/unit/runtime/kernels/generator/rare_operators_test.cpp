// Random numbers, sequences, determinants and Fourier transforms.

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

#include "runtime/passes/passes.h"
#include "unit/runtime/loops.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;

namespace {

using Complex = std::complex<double>;

Tensor integers(const Shape& shape, const std::vector<std::int64_t>& values) {
  return Tensor::of_int64(shape, values);
}

std::vector<double> draw(const std::string& op_type, std::map<std::string, Attribute> attributes,
                         DataType type = DataType::float32, const Shape& shape = {100, 200}) {
  attributes["shape"] = shape;
  return doubles(run_node({op_type, attributes, {}, {{type, shape}}}).front());
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("Uniform and normal numbers have their distributions, and the same for a seed") {
  for (const DataType type : float_types) {
    const auto uniform = draw("RandomUniform", {{"low", -1.0F}, {"high", 3.0F}}, type);
    CHECK(*std::ranges::min_element(uniform) >= -1);
    CHECK(*std::ranges::max_element(uniform) <= 3);
    CHECK(mean_of(uniform) == Approx(1).margin(0.05));
    // A quarter of them in each quarter of the range.
    for (int quarter = -1; quarter < 3; ++quarter)
      CHECK(std::ranges::count_if(uniform, [&](double x) {
              return x >= quarter && x < quarter + 1;
            }) == Approx(5000).epsilon(0.1));
    auto normal = draw("RandomNormal", {{"mean", 2.0F}, {"scale", 3.0F}}, type);
    CHECK(mean_of(normal) == Approx(2).margin(0.1));
    const auto within =
        std::ranges::count_if(normal, [](double x) { return std::fabs(x - 2) < 3; });
    CHECK(static_cast<double>(within) == Approx(0.6827 * 20000).epsilon(0.02));
  }
  CHECK(draw("RandomNormal", {{"seed", 1.0F}}) == draw("RandomNormal", {{"seed", 1.0F}}));
  CHECK(draw("RandomNormal", {{"seed", 1.0F}}) != draw("RandomNormal", {{"seed", 2.0F}}));
  // A part of a tensor, or another shape, has the numbers of the whole.
  const auto whole = draw("RandomUniform", {{"seed", 5.0F}});
  const auto part = draw("RandomUniform", {{"seed", 5.0F}}, DataType::float32, {7});
  CHECK(std::equal(part.begin(), part.end(), whole.begin()));
  const Tensor like = Tensor::zeros(DataType::float32, {7});
  CHECK(
      doubles(run_node({"RandomUniformLike", {{"seed", 5.0F}}, {like}, {{DataType::float32, {7}}}})
                  .front()) == part);
}

TEST_CASE("Bernoulli and Multinomial draw with the probabilities they are given") {
  std::vector<double> p(30000);
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = static_cast<double>(i % 3) / 2;
  for (const DataType out : {DataType::float32, DataType::boolean, DataType::int64}) {
    const auto drawn = doubles(run_node({"Bernoulli",
                                         {{"seed", 3.0F}},
                                         {tensor_of(DataType::float32, {30000}, p)},
                                         {{out, {30000}}}})
                                   .front());
    double halves = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (p[i] != 0.5) REQUIRE(drawn[i] == p[i]);
      if (p[i] == 0.5) halves += drawn[i];
    }
    CHECK(halves == Approx(5000).epsilon(0.05));
  }
  const double never = -std::numeric_limits<double>::infinity();
  const Tensor logits =
      tensor_of(DataType::float32, {2, 3}, {std::log(2.0), never, std::log(6.0), never, 5, never});
  for (const DataType out : {DataType::int32, DataType::int64}) {
    const auto classes = doubles(run_node({"Multinomial",
                                           {{"sample_size", std::int64_t{8000}}, {"seed", 1.0F}},
                                           {logits},
                                           {{out, {2, 8000}}}})
                                     .front());
    CHECK(std::count(classes.begin(), classes.begin() + 8000, 0) == Approx(2000).epsilon(0.1));
    CHECK(std::count(classes.begin(), classes.begin() + 8000, 1) == 0);
    CHECK(std::count(classes.begin() + 8000, classes.end(), 1) == 8000);
  }
}

TEST_CASE("ReverseSequence, either axis first, of elements of every size") {
  Random random(1);
  for (const DataType type :
       {DataType::int8, DataType::float16, DataType::float32, DataType::float64, DataType::boolean})
    for (const std::int64_t time_axis : {0, 1}) {
      const Shape shape = time_axis == 0 ? Shape{5, 3, 2} : Shape{3, 5, 2};
      const Tensor x = random_in(type, shape, random, 0, 100);
      const std::vector<std::int64_t> lengths{5, 1, 3};
      std::vector<double> expected;
      for_each_index(shape, [&](const Shape& index) {
        Shape from = index;
        const auto time = static_cast<std::size_t>(time_axis);
        const std::int64_t length = lengths[static_cast<std::size_t>(index[1 - time])];
        if (index[time] < length) from[time] = length - 1 - index[time];
        expected.push_back(at(x, from));
      });
      CHECK(doubles(run_node({"ReverseSequence",
                              {{"time_axis", time_axis}, {"batch_axis", 1 - time_axis}},
                              {x, integers({3}, lengths)},
                              {{type, shape}}})
                        .front()) == expected);
    }
}

namespace {

/// The determinant by expansion along the first row.
double determinant(const std::vector<std::vector<double>>& matrix) {
  if (matrix.empty()) return 1;
  double sum = 0;
  for (std::size_t column = 0; column < matrix.size(); ++column) {
    std::vector<std::vector<double>> minor;
    for (std::size_t row = 1; row < matrix.size(); ++row) {
      minor.push_back(matrix[row]);
      minor.back().erase(minor.back().begin() + static_cast<std::ptrdiff_t>(column));
    }
    sum += (column % 2 == 0 ? 1 : -1) * matrix[0][column] * determinant(minor);
  }
  return sum;
}

}  // namespace

TEST_CASE("Det equals the expansion along a row") {
  Random random(3);
  for (const std::int64_t n : {1, 2, 5, 7})
    for (const DataType type : {DataType::float32, DataType::float64}) {
      const Tensor x = random_in(type, {3, n, n}, random, -2, 2);
      std::vector<double> expected;
      for (std::int64_t m = 0; m < 3; ++m) {
        std::vector<std::vector<double>> matrix;
        for (std::int64_t row = 0; row < n; ++row) {
          matrix.emplace_back();
          for (std::int64_t column = 0; column < n; ++column)
            matrix.back().push_back(at(x, {m, row, column}));
        }
        expected.push_back(determinant(matrix));
      }
      check_close(run_node({"Det", {}, {x}, {{type, {3}}}}).front(), expected, 10);
    }
  const Tensor singular = tensor_of(DataType::float32, {2, 2}, {0, 0, 1, 2});
  CHECK(doubles(run_node({"Det", {}, {singular}, {{DataType::float32, {}}}}).front())[0] == 0);
}

namespace {

Complex turn(double part) { return std::polar(1.0, 2 * std::numbers::pi * part); }

/// A row of the tensor along an axis as complex numbers.
std::vector<Complex> row_of(const Tensor& x, Shape index, std::size_t axis) {
  std::vector<Complex> row;
  for (std::int64_t i = 0; i < x.shape()[axis]; ++i) {
    index[axis] = i;
    index.back() = 0;
    const double real = at(x, index);
    index.back() = 1;
    row.emplace_back(real, x.shape().back() == 2 ? at(x, index) : 0.0);
  }
  return row;
}

}  // namespace

TEST_CASE("DFT along every axis, whole and one-sided, cut and padded, and back") {
  Random random(4);
  for (const DataType type : {DataType::float32, DataType::float64})
    for (const std::size_t axis : {0U, 1U})
      for (const std::int64_t parts : {1, 2})
        for (const bool is_inverse : {false, true})
          for (const bool is_onesided : {false, true})
            for (const std::int64_t length : {0, 4, 11, 12}) {
              const bool gives_reals = is_onesided && is_inverse;
              if (is_onesided && (parts == 2) != is_inverse) continue;
              const Shape shape{axis == 0 ? 7 : 3, axis == 0 ? 3 : 7, parts};
              const std::int64_t n = length != 0 ? length : (gives_reals ? 12 : 7);
              Tensor x = random_in(type, shape, random, -1, 1);
              Shape out = shape;
              out[axis] = is_onesided && !is_inverse ? n / 2 + 1 : n;
              out[2] = gives_reals ? 1 : 2;
              std::vector<double> expected;
              for_each_index(out, [&](const Shape& index) {
                std::vector<Complex> row = row_of(x, index, axis);
                row.resize(static_cast<std::size_t>(gives_reals ? n / 2 + 1 : n));
                if (gives_reals) {  // the other half mirrors this one
                  row[0] = row[0].real();
                  if (n % 2 == 0) row.back() = row.back().real();
                  for (std::int64_t i = n / 2 + 1; i < n; ++i)
                    row.push_back(std::conj(row[static_cast<std::size_t>(n - i)]));
                }
                Complex sum = 0;
                for (std::size_t i = 0; i < row.size(); ++i) {
                  const double part = static_cast<double>(i) * static_cast<double>(index[axis]) /
                                      static_cast<double>(n);
                  sum += row[i] * turn(is_inverse ? part : -part);
                }
                if (is_inverse) sum /= static_cast<double>(n);
                expected.push_back(index[2] == 0 ? sum.real() : sum.imag());
              });
              NodeRun run{
                  "DFT",
                  {{"inverse", std::int64_t{is_inverse}}, {"onesided", std::int64_t{is_onesided}}},
                  {x, std::nullopt, integers({}, {static_cast<std::int64_t>(axis)})},
                  {{type, out}},
                  {2}};
              if (length != 0) {
                run.inputs[1] = integers({}, {length});
                run.constants = {1, 2};
              }
              CAPTURE(name_of(type), axis, parts, is_inverse, is_onesided, length);
              check_close(run_node(run).front(), expected, 10);
            }
}

TEST_CASE("DFT of a long signal") {
  Random random(5);
  const std::int64_t n = 1500;
  const Tensor x = random_in(DataType::float32, {1, n, 2}, random, -1, 1);
  const std::vector<Complex> row = row_of(x, {0, 0, 0}, 1);
  const auto y = doubles(run_node({"DFT", {}, {x}, {{DataType::float32, {1, n, 2}}}}).front());
  for (const std::int64_t k : {0, 1, 749, 1499}) {
    Complex sum = 0;
    for (std::size_t i = 0; i < row.size(); ++i)
      sum += row[i] * turn(-static_cast<double>(i) * static_cast<double>(k) / 1500);
    CHECK(y[static_cast<std::size_t>(2 * k)] == Approx(sum.real()).margin(1e-4));
    CHECK(y[static_cast<std::size_t>(2 * k + 1)] == Approx(sum.imag()).margin(1e-4));
  }
}

TEST_CASE("FourierRows of lengths with factors of all kinds equals the definition") {
  Random random(7);
  for (const std::int64_t n : {1, 2, 3, 4, 5, 6, 8, 12, 16, 30, 49, 64, 97, 120, 128, 750})
    for (const std::int64_t in_parts : {1, 2})
      for (const std::int64_t out_parts : {1, 2})
        for (const bool is_inverse : {false, true}) {
          const bool is_half = is_inverse && out_parts == 1;
          const std::int64_t samples =
              1 + static_cast<std::int64_t>(random()) % (is_half ? n / 2 + 1 : n);
          const std::int64_t bins = 1 + static_cast<std::int64_t>(random()) % n;
          const std::int64_t rows = 3;
          const Tensor x = random_in(DataType::float32, {rows, samples * in_parts}, random, -1, 1);
          std::vector<double> circle;
          for (std::int64_t i = 0; i < n; ++i) {
            const Complex point = turn(static_cast<double>(i) / static_cast<double>(n));
            circle.insert(circle.end(), {point.real(), point.imag()});
          }
          std::vector<double> expected;
          for (std::int64_t row = 0; row < rows; ++row)
            for (std::int64_t k = 0; k < bins; ++k) {
              Complex sum = 0;
              for (std::int64_t i = 0; i < samples; ++i) {
                Complex number{at(x, {row, i * in_parts}),
                               in_parts == 2 ? at(x, {row, i * 2 + 1}) : 0};
                if (is_half && i != 0 && 2 * i != n) number *= 2;
                const double part = static_cast<double>(i * k % n) / static_cast<double>(n);
                sum += number * turn(is_inverse ? part : -part);
              }
              if (is_inverse) sum /= static_cast<double>(n);
              expected.push_back(sum.real());
              if (out_parts == 2) expected.push_back(sum.imag());
            }
          NodeRun run{"FourierRows",
                      {{"inverse", std::int64_t{is_inverse}},
                       {"in_parts", in_parts},
                       {"out_parts", out_parts}},
                      {x, tensor_of(DataType::float64, {n, 2}, circle)},
                      {{DataType::float32, {rows, bins * out_parts}}},
                      {1}};
          run.domain = passes::internal_domain;
          run.threads = 2;
          CAPTURE(n, in_parts, out_parts, is_inverse, samples, bins);
          check_close(run_node(run).front(), expected, 10);
        }
}

TEST_CASE("STFT cuts frames, weighs them and transforms each") {
  Random random(6);
  const std::int64_t frame = 8;
  const std::int64_t step = 3;
  for (const std::int64_t parts : {1, 2})
    for (const bool is_onesided : {true, false})
      for (const bool has_window : {true, false}) {
        if (is_onesided && parts == 2) continue;
        const Tensor x = random_in(DataType::float32, {2, 20, parts}, random, -1, 1);
        const Tensor window = random_in(DataType::float32, {frame}, random, 0, 1);
        const Shape out{2, 5, is_onesided ? 5 : 8, 2};
        std::vector<double> expected;
        for_each_index(out, [&](const Shape& index) {
          const std::vector<Complex> signal = row_of(x, {index[0], 0, 0}, 1);
          Complex sum = 0;
          for (std::int64_t i = 0; i < frame; ++i)
            sum += signal[static_cast<std::size_t>(index[1] * step + i)] *
                   (has_window ? at(window, {i}) : 1.0) *
                   turn(-static_cast<double>(i * index[2]) / static_cast<double>(frame));
          expected.push_back(index[3] == 0 ? sum.real() : sum.imag());
        });
        NodeRun run{"STFT",
                    {{"onesided", std::int64_t{is_onesided}}},
                    {x, integers({}, {step}), std::nullopt, integers({}, {frame})},
                    {{DataType::float32, out}},
                    {1, 3}};
        if (has_window) run.inputs[2] = window;
        CAPTURE(parts, is_onesided, has_window);
        check_close(run_node(run).front(), expected, 10);
      }
}

TEST_CASE("The bands of MelWeightMatrix are triangles with peaks of 1, one behind the other") {
  const Tensor low = tensor_of(DataType::float32, {}, {0});
  const Tensor high = tensor_of(DataType::float32, {}, {8000});
  const Tensor weights =
      run_node({"MelWeightMatrix",
                {},
                {integers({}, {10}), integers({}, {512}), integers({}, {16000}), low, high},
                {{DataType::float32, {257, 10}}},
                {0, 1, 2, 3, 4}})
          .front();
  double last_peak = -1;
  for (std::int64_t band = 0; band < 10; ++band) {
    std::vector<double> column;
    for (std::int64_t bin = 0; bin < 257; ++bin) column.push_back(at(weights, {bin, band}));
    const auto peak = std::ranges::max_element(column);
    CHECK(*peak == 1);
    CHECK(static_cast<double>(peak - column.begin()) > last_peak);
    last_peak = static_cast<double>(peak - column.begin());
    CHECK(std::is_sorted(column.begin(), peak));
    CHECK(std::is_sorted(peak, column.end(), std::greater<>()));
  }
}

TEST_CASE("BitCast keeps the bytes") {
  const Tensor x = tensor_of(DataType::float32, {2}, {1, -2});
  const Tensor y = run_node({"BitCast", {}, {x}, {{DataType::int32, {2}}}}).front();
  CHECK(y.to_int64s() == std::vector<std::int64_t>{0x3F800000, -0x40000000});
}

TEST_CASE("Compress by a constant condition takes slices, or elements") {
  const Tensor x = tensor_of(DataType::float32, {3, 2}, {1, 2, 3, 4, 5, 6});
  const auto compressed = [&](std::map<std::string, Attribute> attributes,
                              const std::vector<double>& condition, const Shape& out) {
    const Tensor keeps =
        tensor_of(DataType::boolean, {static_cast<std::int64_t>(condition.size())}, condition);
    return doubles(
        run_node({"Compress", std::move(attributes), {x, keeps}, {{DataType::float32, out}}, {1}})
            .front());
  };
  CHECK(compressed({{"axis", std::int64_t{0}}}, {0, 1, 1}, {2, 2}) ==
        std::vector<double>{3, 4, 5, 6});
  CHECK(compressed({{"axis", std::int64_t{-1}}}, {0, 1}, {3, 1}) == std::vector<double>{2, 4, 6});
  CHECK(compressed({}, {0, 1, 0, 0, 1}, {2}) == std::vector<double>{2, 5});
  CHECK(compressed({}, {0, 0}, {0}).empty());
}
