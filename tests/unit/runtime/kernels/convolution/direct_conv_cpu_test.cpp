// Convolutions of images whose channels are last, our own and oneDNN's, against loops in double.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/kernels/convolution/direct_convolution.h"
#include "runtime/kernels/convolution/kernels.h"
#include "runtime/kernels/cpu/simd.h"
#include "runtime/passes/passes.h"
#include "unit/runtime/evaluate_graph.h"
#include "unit/runtime/random_windows.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;
using Random = std::mt19937;

namespace {

std::int64_t pick(Random& random, int low, int high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

/// Pads to which far taps may reach, so that some see padding alone. At least so many taps along
/// the last dimension.
RandomWindows far_windows(Random& random, std::size_t spatial, int least_taps = 1) {
  RandomWindows windows;
  Integers pads(2 * spatial);
  for (std::size_t d = 0; d < spatial; ++d) {
    const int least = d + 1 == spatial ? least_taps : 1;
    const std::int64_t taps = pick(random, least, 4 * least);
    const std::int64_t dilation = pick(random, 1, 7);
    const std::int64_t stride = pick(random, 1, 3);
    const std::int64_t reach = (taps - 1) * dilation + 1;
    const std::int64_t in = pick(random, 1, 7);
    pads[d] = pick(random, 0, static_cast<int>(reach) - 1);
    pads[spatial + d] = std::max<std::int64_t>(pick(random, 0, 3), reach - in - pads[d]);
    windows.in.push_back(in);
    windows.out.push_back((in + pads[d] + pads[spatial + d] - reach) / stride + 1);
    windows.taps.push_back(taps);
    windows.strides.push_back(stride);
    windows.dilations.push_back(dilation);
    windows.begin_pads.push_back(pads[d]);
  }
  windows.attributes = {
      {"strides", windows.strides}, {"dilations", windows.dilations}, {"pads", pads}};
  return windows;
}

/// Windows of one tap, some of which see padding.
RandomWindows windows_of_one_tap(Random& random, std::size_t spatial) {
  RandomWindows windows;
  for (std::size_t d = 0; d < spatial; ++d) {
    const std::int64_t stride = pick(random, 1, 2);
    windows.in.push_back(pick(random, 1, 9));
    windows.begin_pads.push_back(pick(random, 0, 1));
    windows.out.push_back((windows.in[d] + windows.begin_pads[d] - 1) / stride + 1);
    windows.strides.push_back(stride);
  }
  windows.taps = windows.dilations = Integers(spatial, 1);
  Integers pads = windows.begin_pads;
  pads.resize(2 * spatial);
  windows.attributes = {{"strides", windows.strides}, {"pads", pads}};
  return windows;
}

RandomWindows windows_of_round(Random& random, int round) {
  const std::size_t spatial = round % 4 == 0 ? 1 : 2;
  if (round % 6 == 5) return windows_of_one_tap(random, spatial);
  if (round % 2 == 0) return far_windows(random, spatial);
  return random_windows(random, spatial, auto_pads[round / 2 % 4], Rounding::down);
}

Tensor with_channels_second(const Tensor& image) {
  Integers order(image.shape().size());
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + 1, order.end() - 1, order.end());
  const Numbers moved = Numbers(image).transposed(order);
  return tensor_of(image.type(), moved.shape, moved.values);
}

/// What a Conv whose images have their channels last adds up, by element of its result.
std::vector<double> channels_last_sums(const RandomWindows& windows, const Tensor& in,
                                       const Tensor& weights, const Shape& out) {
  const auto pixels = doubles(in);
  const auto of_weights = doubles(weights);
  const std::int64_t in_channels = in.shape().back();
  const std::int64_t channels = weights.shape()[1];
  const std::int64_t out_group = out.back() / (in_channels / channels);
  std::vector<double> sums;
  for_each_index(out, [&](const Shape& index) {
    const Shape place(index.begin() + 1, index.end() - 1);
    double sum = 0;
    std::int64_t tap_number = 0;
    const std::int64_t taps = graph::num_elements(windows.taps);
    for_each_index(windows.taps, [&](const Shape& tap) {
      const std::int64_t weight = index.back() * channels * taps + tap_number++;
      const auto seen = windows.seen(place, tap);
      if (!seen) return;
      std::int64_t pixel = index[0];
      for (std::size_t d = 0; d < seen->size(); ++d) pixel = pixel * windows.in[d] + (*seen)[d];
      const std::int64_t first = pixel * in_channels + index.back() / out_group * channels;
      for (std::int64_t c = 0; c < channels; ++c)
        sum += pixels[static_cast<std::size_t>(first + c)] *
               of_weights[static_cast<std::size_t>(weight + c * taps)];
    });
    sums.push_back(sum);
  });
  return sums;
}

}  // namespace

TEST_CASE("A Conv with channels last equals loops, with an addend and Relu") {
  if (cpu::simd_level() == cpu::SimdLevel::baseline) return;
  Random random(5);
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (int round = 0; round < 600; ++round) {
    const RandomWindows windows = windows_of_round(random, round);
    const bool is_deep = round % 5 == 0;  // more than a chunk
    const std::int64_t groups = is_deep ? 1 : pick(random, 1, 3);
    const std::int64_t in_group = is_deep ? pick(random, 90, 300) : pick(random, 1, 20);
    const std::int64_t out_group = pick(random, 1, is_deep ? 40 : 90);
    Shape from = joined({pick(random, 1, 3)}, windows.in);
    Shape to = joined({from[0]}, windows.out);
    from.push_back(groups * in_group);
    to.push_back(groups * out_group);
    const DataType type = DataType::float32;
    Tensor in = random_in(type, from, random, -1, 1);
    if (round % 7 == 0) {
      std::vector<double> values = doubles(in);
      values[values.size() / 2] = nan;
      in = tensor_of(type, from, values);
    }
    const Tensor weights =
        random_in(type, joined({groups * out_group, in_group}, windows.taps), random, -1, 1);
    NodeRun node{"ChannelsLastConv", windows.attributes, {in, weights}, {{type, to}}, {1}};
    node.domain = passes::internal_domain;
    if (pick(random, 0, 2) == 0) {
      node.inputs[0] = with_channels_second(in);
      node.attributes["channels_second"] = std::int64_t{1};
    }
    node.threads = 1 + round % 3;
    node.attributes["group"] = groups;
    const Tensor bias = random_in(type, {groups * out_group}, random, -1, 1);
    const Tensor addend = random_in(type, to, random, -1, 1);
    const bool has_bias = pick(random, 0, 1) == 0;
    const bool has_addend = pick(random, 0, 1) == 0;
    const bool has_relu = pick(random, 0, 1) == 0;
    node.inputs.push_back(has_bias ? std::optional(bias) : std::nullopt);
    if (has_addend) node.inputs.emplace_back(addend);
    if (has_relu) node.attributes["activation"] = std::string("Relu");
    CAPTURE(round, from, to, windows.taps, windows.dilations, windows.strides, groups);
    const std::vector<double> found = doubles(run_node(node).front());
    const std::vector<double> sums = channels_last_sums(windows, in, weights, to);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      double expected = sums[i];
      if (has_bias) expected += number_at(bias, i % static_cast<std::size_t>(to.back()));
      if (has_addend) expected += number_at(addend, i);
      if (has_relu && expected < 0) expected = 0;
      if (std::isnan(expected) ? !std::isnan(found[i]) : found[i] != Approx(expected).margin(1e-4))
        FAIL("element " << i << " is " << found[i] << ", not " << expected);
    }
  }
}

TEST_CASE("A small Conv of images as ONNX has them equals loops, in runs one after another") {
  Random random(6);
  const DataType type = DataType::float32;
  for (int round = 0; round < 200; ++round) {
    const RandomWindows windows = windows_of_round(random, round);
    const std::int64_t groups = pick(random, 1, 3);
    const std::int64_t in_group = pick(random, 1, 12);
    const std::int64_t out_group = pick(random, 6, 40);
    Shape from = joined({pick(random, 1, 3)}, windows.in);
    Shape to = joined({from[0]}, windows.out);
    from.push_back(groups * in_group);
    to.push_back(groups * out_group);
    const Tensor in = random_in(type, from, random, -1, 1);
    const Tensor weights =
        random_in(type, joined({groups * out_group, in_group}, windows.taps), random, -1, 1);
    const Tensor bias = random_in(type, {groups * out_group}, random, -1, 1);
    const bool has_bias = pick(random, 0, 1) == 0;
    std::vector<double> sums = channels_last_sums(windows, in, weights, to);
    for (std::size_t i = 0; has_bias && i < sums.size(); ++i)
      sums[i] += number_at(bias, i % static_cast<std::size_t>(to.back()));
    const Tensor expected = with_channels_second(tensor_of(type, to, sums));
    NodeRun node{"Conv",
                 windows.attributes,
                 {with_channels_second(in), weights},
                 {{type, expected.shape()}},
                 {1}};
    node.attributes["group"] = groups;
    node.threads = 1 + round % 3;
    if (has_bias) node.inputs.emplace_back(bias);
    if (has_bias) node.constants.push_back(2);
    CAPTURE(round, from, to, windows.taps, windows.dilations, windows.strides, groups);
    const graph::Graph graph = make_graph(node);
    Executable executable(graph, {.threads = node.threads});
    for (int run = 0; run < 2; ++run)
      check_close(testing::run(executable, graph, {*node.inputs[0]})[0], doubles(expected), 12);
  }
}

TEST_CASE("A convolution is small or not whatever its images are with it") {
  graph::Node node;
  const auto is_small = [&](const Shape& in, const Shape& weights, const Shape& out) {
    const auto view = [](const Shape& shape) { return TensorView{DataType::float32, shape}; };
    const std::vector<TensorView> inputs{view(in), view(weights)};
    const std::vector<TensorView> outputs{view(out)};
    return cpu::is_small_conv(node, inputs, outputs);
  };
  for (const std::int64_t images : {1, 100}) {
    CHECK(is_small({images, 3, 32, 32}, {64, 3, 8, 8}, {images, 64, 4, 4}));
    CHECK_FALSE(is_small({images, 64, 56, 56}, {64, 64, 3, 3}, {images, 64, 56, 56}));
    CHECK_FALSE(is_small({images, 8, 512, 512}, {8, 8, 1, 1}, {images, 8, 16, 16}));  // to copy
  }
  node.attributes["group"] = std::int64_t{96};  // its lanes would be empty
  CHECK_FALSE(is_small({1, 96, 4, 4}, {96, 1, 3, 3}, {1, 96, 4, 4}));
}

TEST_CASE("A Conv with channels last under 3 by 3 taps equals loops where products are saved") {
  if (cpu::simd_level() == cpu::SimdLevel::baseline) return;
  Random random(8);
  for (int round = 0; round < 60; ++round) {
    RandomWindows windows;
    windows.taps = {3, 3};
    windows.strides = windows.dilations = {1, 1};
    Integers pads(4);
    for (std::size_t d = 0; d < 2; ++d) {
      windows.in.push_back(pick(random, 8, 15));
      windows.begin_pads.push_back(pads[d] = pick(random, 0, 2));
      pads[d + 2] = pick(random, 0, 2);
      windows.out.push_back(windows.in[d] + pads[d] + pads[d + 2] - 2);
    }
    windows.attributes = {{"pads", pads}};
    const std::int64_t channels = round % 10 == 0 ? 520 : 8 * pick(random, 4, 6);
    const std::int64_t out_channels = 8 * pick(random, 4, round % 7 == 0 ? 20 : 6);
    const Shape from = joined(joined({pick(random, 1, 2)}, windows.in), {channels});
    const Shape to = joined(joined({from[0]}, windows.out), {out_channels});
    const DataType type = DataType::float32;
    Tensor in = random_in(type, from, random, -1, 1);
    const bool has_nan = round % 6 == 5;  // reaches all outputs of squares that see it
    if (has_nan) {
      std::vector<double> values = doubles(in);
      values[values.size() / 2] = std::numeric_limits<double>::quiet_NaN();
      in = tensor_of(type, from, values);
    }
    const Tensor weights = random_in(type, {out_channels, channels, 3, 3}, random, -1, 1);
    const Tensor bias = random_in(type, {out_channels}, random, -1, 1);
    const Tensor addend = random_in(type, to, random, -1, 1);
    NodeRun node{"ChannelsLastConv", windows.attributes, {in, weights}, {{type, to}}, {1}};
    node.domain = passes::internal_domain;
    node.threads = 1 + round % 3;
    node.attributes["activation"] = std::string("Relu");
    const bool has_bias = pick(random, 0, 1) == 0;
    const bool has_addend = pick(random, 0, 1) == 0;
    node.inputs.push_back(has_bias ? std::optional(bias) : std::nullopt);
    if (has_addend) node.inputs.emplace_back(addend);
    CAPTURE(round, from, to, pads);
    const std::vector<double> found = doubles(run_node(node).front());
    const auto is_nan = [](double x) { return std::isnan(x); };
    constexpr std::int64_t outputs_of_squares = 16;  // of the four that may see a place
    CHECK(std::ranges::count_if(found, is_nan) <= outputs_of_squares * out_channels);
    const std::vector<double> sums = channels_last_sums(windows, in, weights, to);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      double expected = sums[i];
      if (has_bias) expected += number_at(bias, i % static_cast<std::size_t>(out_channels));
      if (has_addend) expected += number_at(addend, i);
      if (std::isnan(expected))
        REQUIRE(std::isnan(found[i]));
      else if (!has_nan || !std::isnan(found[i]))
        REQUIRE(found[i] == Approx(std::max(expected, 0.0)).margin(1e-4));
    }
  }
}

TEST_CASE("Threads share tiles or columns, whichever makes equal parts that read less") {
  const auto division = [](int extent, std::int64_t channels, std::int64_t columns,
                           std::int64_t threads = 2) {
    ConvolutionSizes of;
    of.images = 1;
    of.channels = channels;
    of.out_channels = columns;
    of.windows.in[1] = of.windows.in[2] = of.windows.out[1] = of.windows.out[2] = extent;
    return division_of(cpu::DirectConvolution(of, false), threads);
  };
  // 2,091 tiles: by columns the parts are equal, by tiles they nearly are.
  CHECK(division(112, 16, 64).of_tiles == 2);
  CHECK(division(112, 16, 64).of_panels == 1);
  // 9 tiles, of which a part of 5 would take longer.
  CHECK(division(7, 192, 1152).of_panels == 2);
  // 5 panels, of which a part of 3 would.
  CHECK(division(14, 480, 80).of_tiles == 2);
  // The weights are larger than the image, and both threads would read them.
  CHECK(division(14, 112, 672).of_panels == 2);
  // 31 parts would read a little less; a single tile and panel is for one thread.
  CHECK(division(112, 16, 64, 32).of_tiles == 32);
  CHECK(division(2, 16, 16, 32).parts() == 1);
}

TEST_CASE("A Conv with channels last takes HardSwish along") {
  Random random(9);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double special[] = {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity};
  for (int round = 0; round < 120; ++round) {
    const RandomWindows windows =
        round % 3 == 0 ? windows_of_one_tap(random, 2)
                       : random_windows(random, 2, auto_pads[round % 4], Rounding::down);
    const bool is_depthwise = round % 5 == 0;
    const std::int64_t channels = pick(random, 1, 24);
    const std::int64_t out_channels = is_depthwise ? channels : pick(random, 1, 30);
    const Shape from = joined(joined({pick(random, 1, 2)}, windows.in), {channels});
    const Shape to = joined(joined({from[0]}, windows.out), {out_channels});
    const DataType type = DataType::float32;
    Tensor in = random_in(type, from, random, -3, 3);
    if (round % 7 == 0) {
      std::vector<double> values = doubles(in);
      values[values.size() / 2] = special[round / 7 % 3];
      in = tensor_of(type, from, values);
    }
    const Tensor weights = random_in(
        type, joined({out_channels, is_depthwise ? 1 : channels}, windows.taps), random, -1, 1);
    const Tensor bias = random_in(type, {out_channels}, random, -1, 1);
    NodeRun node{"ChannelsLastConv", windows.attributes, {in, weights, bias}, {{type, to}}, {1}};
    node.domain = passes::internal_domain;
    node.attributes["group"] = is_depthwise ? channels : 1;
    node.attributes["activation"] = std::string("HardSwish");
    CAPTURE(round, from, to, windows.taps, windows.strides, is_depthwise);
    const std::vector<double> found = doubles(run_node(node).front());
    const std::vector<double> sums = channels_last_sums(windows, in, weights, to);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const double sum = sums[i] + number_at(bias, i % static_cast<std::size_t>(out_channels));
      const double expected = sum * std::clamp(sum / 6 + 0.5, 0.0, 1.0);
      if (std::isnan(expected))
        REQUIRE(std::isnan(found[i]));
      else if (std::isinf(expected))
        REQUIRE(found[i] == expected);
      else
        REQUIRE(found[i] == Approx(expected).margin(1e-4));
    }
  }
}

TEST_CASE("The largest of all places of a Conv under one tap equals loops, NaN included") {
  if (cpu::simd_level() == cpu::SimdLevel::baseline) return;
  Random random(10);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double special[] = {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity};
  for (int round = 0; round < 150; ++round) {
    const std::int64_t images = pick(random, 1, 3);
    const std::int64_t places = pick(random, 1, 40);
    const std::int64_t channels = pick(random, 1, 70);
    const std::int64_t columns = pick(random, 1, 150);
    const DataType type = DataType::float32;
    Tensor in = random_in(type, {images, places, channels}, random, -1, 1);
    if (round % 7 == 0) {
      std::vector<double> values = doubles(in);
      values[values.size() / 2] = special[round / 7 % 3];
      in = tensor_of(type, in.shape(), values);
    }
    const Tensor weights = random_in(type, {columns, channels, 1}, random, -1, 1);
    const Tensor bias = random_in(type, {columns}, random, -1, 1);
    NodeRun node{"ChannelsLastConvMaximum", {}, {in, weights}, {{type, {images, columns}}}, {1}};
    node.domain = passes::internal_domain;
    node.threads = 1 + round % 3;
    const bool has_bias = round % 2 == 0;
    if (has_bias) node.inputs.emplace_back(bias);
    CAPTURE(round, images, places, channels, columns);
    const std::vector<double> found = doubles(run_node(node).front());
    RandomWindows one_tap;
    one_tap.in = one_tap.out = {places};
    one_tap.taps = one_tap.strides = one_tap.dilations = {1};
    one_tap.begin_pads = {0};
    const std::vector<double> sums =
        channels_last_sums(one_tap, in, weights, {images, places, columns});
    for (std::int64_t image = 0; image < images; ++image)
      for (std::int64_t column = 0; column < columns; ++column) {
        double largest = -infinity;
        for (std::int64_t place = 0; place < places; ++place) {
          const double sum =
              sums[static_cast<std::size_t>((image * places + place) * columns + column)];
          if (std::isnan(sum) || sum > largest) largest = sum;
          if (std::isnan(largest)) break;
        }
        if (has_bias) largest += number_at(bias, static_cast<std::size_t>(column));
        const double result = found[static_cast<std::size_t>(image * columns + column)];
        if (std::isnan(largest))
          REQUIRE(std::isnan(result));
        else if (std::isinf(largest))
          REQUIRE(result == largest);
        else
          REQUIRE(result == Approx(largest).margin(1e-4));
      }
  }
}

TEST_CASE(
    "A Conv with channels last of a channel a group, under windows of many taps, equals loops") {
  Random random(6);
  for (int round = 0; round < 200; ++round) {
    const RandomWindows windows = far_windows(random, round % 3 == 0 ? 2 : 1, 9);
    const std::int64_t channels = pick(random, 2, 70);
    const Shape from = joined(joined({pick(random, 1, 3)}, windows.in), {channels});
    const Shape to = joined(joined({from[0]}, windows.out), {channels});
    const DataType type = DataType::float32;
    const Tensor in = random_in(type, from, random, -1, 1);
    const Tensor weights = random_in(type, joined({channels, 1}, windows.taps), random, -1, 1);
    const Tensor bias = random_in(type, {channels}, random, -1, 1);
    const bool has_bias = round % 2 == 0;
    NodeRun node{"ChannelsLastConv", windows.attributes, {in, weights}, {{type, to}}, {1}};
    node.domain = passes::internal_domain;
    node.threads = 1 + round % 3;
    node.attributes["group"] = channels;
    if (has_bias) node.inputs.emplace_back(bias);
    CAPTURE(round, from, to, windows.taps, windows.dilations, windows.strides);
    const std::vector<double> found = doubles(run_node(node).front());
    std::vector<double> expected = channels_last_sums(windows, in, weights, to);
    for (std::size_t i = 0; i < expected.size() && has_bias; ++i)
      expected[i] += number_at(bias, i % static_cast<std::size_t>(channels));
    for (std::size_t i = 0; i < expected.size(); ++i)
      REQUIRE(found[i] == Approx(expected[i]).margin(1e-4));
  }
}
