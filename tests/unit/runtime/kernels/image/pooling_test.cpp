// Poolings against loops in double.

#include <catch2/catch.hpp>

#include "base/error.h"
#include "unit/runtime/random_windows.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;
using Catch::Matchers::Contains;
using Random = std::mt19937;

namespace {

constexpr std::int64_t images = 2;

/// Calls `check(windows, input)` for random windows of every kind of padding.
template <typename Check>
void for_random_windows(DataType type, bool dilates, Check check) {
  Random random(static_cast<unsigned>(type));
  for (int round = 0; round < 6; ++round)
    for (const std::size_t spatial : {1, 2, 3})
      for (const std::string& auto_pad : auto_pads)
        for (const Rounding rounding : {Rounding::down, Rounding::up}) {
          if (rounding == Rounding::up && auto_pad != "NOTSET") continue;
          RandomWindows windows = random_windows(random, spatial, auto_pad, rounding);
          windows.attributes["kernel_shape"] = windows.taps;
          windows.attributes["ceil_mode"] = std::int64_t{rounding == Rounding::up};
          if (!dilates && windows.dilations != Integers(spatial, 1)) continue;
          const double low = type == DataType::uint8 ? 0 : -9;
          // So many that the CPU brings them to the end.
          const std::int64_t channels = round % 2 == 0 ? 3 : 9;
          CAPTURE(spatial, auto_pad, round, windows.in, windows.out, windows.taps);
          check(windows, random_in(type, joined({images, channels}, windows.in), random, low, 9));
        }
}

/// One number for each output element, of what its window sees.
template <typename Reduce>
std::vector<double> pooled(const RandomWindows& windows, const Tensor& in, Reduce reduce) {
  std::vector<double> result;
  for_each_index(joined({images, in.shape()[1]}, windows.out), [&](const Shape& index) {
    const Shape place(index.begin() + 2, index.end());
    std::vector<double> values;
    std::int64_t padded = 0;
    for_each_index(windows.taps, [&](const Shape& tap) {
      if (const auto seen = windows.seen(place, tap))
        values.push_back(pixel(in, index[0], index[1], *seen));
      padded += windows.is_padded(place, tap) ? 1 : 0;
    });
    result.push_back(reduce(values, padded));
  });
  return result;
}

NodeRun pool(const std::string& op_type, const RandomWindows& windows, const Tensor& in) {
  const Shape out = joined({images, in.shape()[1]}, windows.out);
  return {op_type, windows.attributes, {in}, {{in.type(), out}}};
}

}  // namespace

TEST_CASE("AveragePool divides by what a window sees, or by that and its padding") {
  for (const DataType type : float_types)
    for (const bool counts_padding : {false, true})
      for_random_windows(type, true, [&](RandomWindows windows, const Tensor& in) {
        windows.attributes["count_include_pad"] = std::int64_t{counts_padding};
        const auto expected =
            pooled(windows, in, [&](const std::vector<double>& values, std::int64_t padded) {
              double sum = 0;
              for (const double value : values) sum += value;
              return sum / static_cast<double>(
                               counts_padding ? padded : static_cast<std::int64_t>(values.size()));
            });
        check_close(run_node(pool("AveragePool", windows, in)).front(), expected, 9);
      });
}

TEST_CASE("MaxPool takes the largest, in every type") {
  std::vector<DataType> types = float_types;
  types.insert(types.end(), {DataType::int8, DataType::uint8});
  for (const DataType type : types)
    for_random_windows(type, true, [&](const RandomWindows& windows, const Tensor& in) {
      const auto expected =
          pooled(windows, in, [](const std::vector<double>& values, std::int64_t) {
            return *std::max_element(values.begin(), values.end());
          });
      CHECK(doubles(run_node(pool("MaxPool", windows, in)).front()) == expected);
    });
}

TEST_CASE("the largest of windows that have nothing but -inf, or NaN, is that") {
  for (const DataType type : float_types)
    for (const double lowest :
         {-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
      std::vector<double> pixels(2 * 16 * 8, lowest);
      for (std::size_t i = 0; i < pixels.size() / 2; ++i) pixels[i] = static_cast<double>(i);
      const Tensor out = run_node({"MaxPool",
                                   {{"kernel_shape", Integers{2, 2}}, {"strides", Integers{2, 2}}},
                                   {tensor_of(type, {2, 1, 16, 8}, pixels)},
                                   {{type, {2, 1, 8, 4}}}})
                             .front();
      for (std::size_t i = 0; i < 32; ++i) {
        const std::size_t corner = i / 4 * 16 + i % 4 * 2 + 9;
        REQUIRE(number_at(out, i) == static_cast<double>(corner));
        const double other = number_at(out, 32 + i);
        REQUIRE((std::isnan(lowest) ? std::isnan(other) : other == lowest));
      }
    }
}

TEST_CASE("MaxPool tells where it found the largest, in either order of places") {
  for (const bool column_major : {false, true})
    for_random_windows(DataType::float32, true, [&](RandomWindows windows, const Tensor& in) {
      windows.attributes["storage_order"] = std::int64_t{column_major};
      const std::int64_t channels = in.shape()[1];
      const Shape out = joined({images, channels}, windows.out);
      NodeRun node = pool("MaxPool", windows, in);
      node.outputs.emplace_back(DataType::int64, out);
      const auto outputs = run_node(node);
      const std::int64_t places = graph::num_elements(windows.in);
      std::size_t i = 0;
      for_each_index(out, [&](const Shape& index) {
        const Shape place(index.begin() + 2, index.end());
        double largest = 0;
        std::int64_t found = -1;
        for_each_index(windows.taps, [&](const Shape& tap) {
          const auto seen = windows.seen(place, tap);
          if (!seen) return;
          const double value = pixel(in, index[0], index[1], *seen);
          if (found >= 0 && value <= largest) return;
          largest = value;
          found = 0;
          for (std::size_t d = 0; d < seen->size(); ++d) {
            const std::size_t at = column_major ? seen->size() - 1 - d : d;
            found = found * windows.in[at] + (*seen)[at];
          }
        });
        REQUIRE(number_at(outputs[0], i) == largest);
        REQUIRE(outputs[1].values<std::int64_t>()[i] ==
                (index[0] * channels + index[1]) * places + found);
        ++i;
      });
    });
}

TEST_CASE("LpPool takes the norm of what a window sees") {
  for (const DataType type : float_types)
    for (const std::int64_t p : {1, 2, 3})
      for_random_windows(type, true, [&](RandomWindows windows, const Tensor& in) {
        windows.attributes["p"] = p;
        const auto norm = [&](const std::vector<double>& values, std::int64_t) {
          double sum = 0;
          for (const double value : values) sum += std::pow(std::abs(value), p);
          return std::pow(sum, 1.0 / static_cast<double>(p));
        };
        check_close(run_node(pool("LpPool", windows, in)).front(), pooled(windows, in, norm), 9);
      });
}

TEST_CASE("global poolings take all places of a channel") {
  constexpr std::int64_t channels = 3;
  Random random(7);
  for (const DataType type : float_types)
    for (const Shape& places :
         {Shape{5}, Shape{4, 3}, Shape{2, 3, 4}, Shape{1, 1}, Shape{17, 19}}) {
      const Tensor in = random_in(type, joined({images, channels}, places), random, -9, 9);
      const Shape out = joined({images, channels}, Shape(places.size(), 1));
      std::vector<double> means;
      std::vector<double> largest;
      std::vector<double> norms;
      const std::int64_t n = graph::num_elements(places);
      for (std::int64_t plane = 0; plane < images * channels; ++plane) {
        double sum = 0;
        double most = -100;
        double squares = 0;
        for (std::int64_t i = plane * n; i < (plane + 1) * n; ++i) {
          const double x = number_at(in, static_cast<std::size_t>(i));
          sum += x;
          squares += x * x;
          most = std::max(most, x);
        }
        means.push_back(sum / static_cast<double>(n));
        largest.push_back(most);
        norms.push_back(std::sqrt(squares));
      }
      check_close(run_node({"GlobalAveragePool", {}, {in}, {{type, out}}}).front(), means, 9);
      CHECK(doubles(run_node({"GlobalMaxPool", {}, {in}, {{type, out}}}).front()) == largest);
      check_close(run_node({"GlobalLpPool", {}, {in}, {{type, out}}}).front(), norms, 9);
    }
}

TEST_CASE("poolings of nothing, and those that make no sense, end with words") {
  const Tensor none = Tensor::zeros(DataType::float32, {0, 3, 4, 4});
  const std::map<std::string, Attribute> twos = {{"kernel_shape", Integers{2, 2}}};
  CHECK(run_node({"MaxPool", twos, {none}, {{DataType::float32, {0, 3, 3, 3}}}}).size() == 1);
  CHECK(run_node({"AveragePool", twos, {none}, {{DataType::float32, {0, 3, 3, 3}}}}).size() == 1);

  const Tensor low = Tensor::zeros(DataType::float32, {2, 3, 1, 4});
  CHECK(run_node({"MaxPool", twos, {low}, {{DataType::float32, {2, 3, 0, 3}}}}).size() == 1);

  const Tensor in = Tensor::zeros(DataType::float32, {1, 1, 2, 2});
  CHECK_THROWS_WITH(run_node({"MaxPool",
                              {{"kernel_shape", Integers{1, 1}}, {"pads", Integers{1, 1, 0, 0}}},
                              {in},
                              {{DataType::float32, {1, 1, 3, 3}}}}),
                    Contains("the_node") && Contains("nothing but padding"));
  CHECK_THROWS_WITH(run_node({"MaxPool",
                              {{"kernel_shape", Integers{1, 1}}, {"strides", Integers{2}}},
                              {in},
                              {{DataType::float32, {1, 1, 2, 2}}}}),
                    Contains("'strides' of MaxPool has 1 entries, not 2"));
}
