// Images between convolutions have their channels last: the graph computes what it computed, and
// nothing is moved between them.

#include <catch2/catch.hpp>
#include <limits>

#include "unit/runtime/passes/spelling.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;
using graph::Graph;
using graph::ValueId;

namespace {

using Ints = std::vector<std::int64_t>;

struct Network : Spelling {
  /// Weights under which values neither grow nor vanish.
  ValueId centred(const Shape& of) {
    return graph.add_constant("weight", random_in(type, of, random, -0.3, 0.3));
  }
  ValueId conv(ValueId x, std::int64_t channels, std::int64_t taps, std::int64_t stride = 1,
               std::int64_t groups = 1, bool has_bias = true) {
    const Shape of = shape(x);
    std::vector<ValueId> inputs = {x, centred({channels, of[1] / groups, taps, taps})};
    if (has_bias) inputs.push_back(centred({channels}));
    const std::int64_t pad = taps / 2;
    return op(
        "Conv", inputs, {of[0], channels, places(of[2], taps, stride), places(of[3], taps, stride)},
        {{"pads", Ints{pad, pad, pad, pad}}, {"strides", Ints{stride, stride}}, {"group", groups}});
  }
  ValueId pool(const std::string& op_type, ValueId x, std::int64_t stride,
               std::map<std::string, Attribute> more = {}) {
    const Shape of = shape(x);
    more["kernel_shape"] = Ints{3, 3};
    more["pads"] = Ints{1, 1, 1, 1};
    more["strides"] = Ints{stride, stride};
    return op(op_type, {x}, {of[0], of[1], places(of[2], 3, stride), places(of[3], 3, stride)},
              more);
  }
  ValueId normalization(ValueId x) {
    const Shape of = shape(x);
    std::vector<ValueId> inputs = {x};
    for (int parameter = 0; parameter < 3; ++parameter) inputs.push_back(centred({of[1]}));
    inputs.push_back(weight({of[1]}, type));  // the variance
    return op("BatchNormalization", inputs, of);
  }
  ValueId mean_of_places(ValueId x, bool is_global) {
    const Shape to{shape(x)[0], shape(x)[1], 1, 1};
    if (is_global) return op("GlobalAveragePool", {x}, to);
    return op("ReduceMean", {x, integers({-1, -2})}, to, {{"keepdims", std::int64_t{1}}});
  }
  ValueId concat(ValueId a, ValueId b) {
    Shape to = shape(a);
    to[1] += shape(b)[1];
    return op("Concat", {a, b}, to, {{"axis", std::int64_t{1}}});
  }

 private:
  static std::int64_t places(std::int64_t extent, std::int64_t taps, std::int64_t stride) {
    return (extent + taps / 2 * 2 - taps) / stride + 1;
  }
};

std::string operators(const Graph& graph) {
  std::string text;
  for (const graph::Node& node : graph.nodes) text += (text.empty() ? "" : " ") + node.op_type;
  return text;
}

Graph moved(const Network& network) { return after(network.graph, {passes::move_channels_last}); }

/// One more layer behind `images`, which all have the shape of the last.
ValueId add_layer(Network& network, std::vector<ValueId>& images) {
  const ValueId x = images.back();
  const std::int64_t channels = network.shape(x)[1];
  switch (network.random() % 12) {
    case 0:
    case 1:
      return network.conv(x, channels, 3);
    case 2:
      return network.conv(x, channels, 1);
    case 3:
      return network.conv(x, channels, 3, 1, channels, false);
    case 4:
      return network.unary("Relu", x);
    case 5:
      return network.binary("Add", x, images[network.random() % images.size()]);
    case 6:
      return network.normalization(x);
    case 7:
      return network.pool("MaxPool", x, 1);
    case 8:
      return network.pool("AveragePool", x, 1,
                          {{"count_include_pad", static_cast<std::int64_t>(network.random() % 2)}});
    case 9:
      return network.either("Mul", x, network.mean_of_places(x, network.random() % 2 == 0));
    case 10:
      return network.conv(network.concat(x, images[network.random() % images.size()]), channels, 1);
    default:
      return network.op("Softmax", {x}, network.shape(x), {{"axis", std::int64_t{-1}}});
  }
}

}  // namespace

TEST_CASE("Images are moved where they come in and go out alone") {
  Network network;
  const ValueId x = network.in("x", {1, 3, 8, 8});
  const ValueId first = network.unary("Relu", network.conv(x, 16, 3));
  const ValueId pooled = network.pool("MaxPool", first, 2);
  const ValueId second = network.conv(pooled, 16, 3);
  network.ends(network.conv(network.binary("Add", second, pooled), 16, 1));
  CHECK(operators(moved(network)) ==
        "Transpose ChannelsLastConv Relu ChannelsLastMaxPool ChannelsLastConv Add ChannelsLastConv "
        "Transpose");
}

TEST_CASE("Squeeze and excitation, a normalisation and a concatenation keep channels last") {
  Network network;
  const ValueId x = network.in("x", {2, 4, 7, 5});
  const ValueId a = network.conv(x, 8, 3);
  const ValueId scales =
      network.unary("Sigmoid", network.conv(network.mean_of_places(a, false), 8, 1));
  const ValueId b = network.normalization(network.concat(network.binary("Mul", a, scales), a));
  network.ends(network.conv(b, 4, 3, 2));
  const Graph graph = moved(network);
  CHECK(count(graph, "Transpose") == 2);
  CHECK(count(graph, "ChannelsLastConv") == 3);
  CHECK(count(graph, "ChannelsLastAveragePool") == 1);
  CHECK(only(graph, "Concat").int_attribute("axis", 0) == 3);
}

TEST_CASE("Convolutions stay where more would be moved than they reorder themselves") {
  Network alone;
  alone.ends(alone.unary("Relu", alone.conv(alone.in("x", {1, 4, 8, 8}), 8, 3)));
  CHECK(operators(moved(alone)) == "Conv Relu");

  Network pointwise;
  const ValueId x = pointwise.in("x", {1, 4, 8, 8});
  pointwise.ends(pointwise.conv(pointwise.conv(x, 8, 1), 8, 1));
  CHECK(operators(moved(pointwise)) == "Conv Conv");

  Network varying;  // weights that are no constants
  const ValueId images = varying.in("x", {1, 4, 8, 8});
  const auto conv = [&](ValueId of, const std::string& weights) {
    return varying.op("Conv", {of, varying.in(weights, {4, 4, 3, 3})}, {1, 4, 8, 8},
                      {{"pads", Ints{1, 1, 1, 1}}});
  };
  varying.ends(conv(conv(images, "v"), "w"));
  CHECK(operators(moved(varying)) == "Conv Conv");
}

TEST_CASE("What is not of float32 stays as it is") {
  Network network;
  network.type = DataType::float16;
  const ValueId x = network.in("x", {1, 4, 8, 8});
  network.ends(network.normalization(network.conv(network.conv(x, 4, 3), 4, 3)));
  Graph graph = network.graph;
  passes::move_channels_last(graph, cpu_kernels());
  CHECK(operators(graph) == "Conv Conv BatchNormalization");
}

TEST_CASE("Random networks compute the same with channels last") {
  int moves = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    Network network;
    network.random.seed(seed);
    std::vector<ValueId> images = {network.in("x", {2, 6, 5, 7})};
    for (int layer = 0; layer < 8; ++layer) images.push_back(add_layer(network, images));
    network.ends(images.back());
    if (seed % 3 == 0) network.ends(images[images.size() / 2]);
    CAPTURE(seed, operators(network.graph));
    moves += count(moved(network), "ChannelsLastConv") > 1 ? 1 : 0;
  }
  CHECK(moves > 50);
}

TEST_CASE("A maximum over nothing but NaN or -inf is what it is, channels last too") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x =
      tensor_of(DataType::float32, {1, 1, 4, 2}, {nan, 1, nan, -inf, -inf, -inf, 2, -inf});
  const std::map<std::string, Attribute> windows = {{"kernel_shape", Ints{1, 2}},
                                                    {"strides", Ints{1, 2}}};
  const Tensor last = run_node({.op_type = "ChannelsLastMaxPool",
                                .attributes = windows,
                                .inputs = {x},
                                .outputs = {{DataType::float32, {1, 1, 2, 2}}},
                                .domain = passes::internal_domain})[0];
  const auto values = doubles(last);
  CHECK(std::isnan(values[0]));
  CHECK(values[1] == 1);
  CHECK(values[2] == 2);
  CHECK(values[3] == -inf);
}
