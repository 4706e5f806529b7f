// Images between convolutions have their channels last: the graph computes what it computed, and
// nothing is moved between them.

#include <catch2/catch.hpp>
#include <limits>

#include "runtime/kernels/cpu/simd.h"
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
  /// Windows of so many taps along each dimension of places.
  ValueId conv(ValueId x, std::int64_t channels, std::int64_t taps, std::int64_t stride = 1,
               std::int64_t groups = 1, bool has_bias = true) {
    const Shape of = shape(x);
    Shape weights = {channels, of[1] / groups};
    weights.resize(of.size(), taps);
    std::vector<ValueId> inputs = {x, centred(weights)};
    if (has_bias) inputs.push_back(centred({channels}));
    return op("Conv", inputs, slid(of, channels, taps, stride),
              {{"pads", Ints(2 * (of.size() - 2), taps / 2)},
               {"strides", Ints(of.size() - 2, stride)},
               {"group", groups}});
  }
  ValueId pool(const std::string& op_type, ValueId x, std::int64_t stride,
               std::map<std::string, Attribute> more = {}) {
    const Shape of = shape(x);
    more["kernel_shape"] = Ints(of.size() - 2, 3);
    more["pads"] = Ints(2 * (of.size() - 2), 1);
    more["strides"] = Ints(of.size() - 2, stride);
    return op(op_type, {x}, slid(of, of[1], 3, stride), more);
  }
  ValueId normalization(ValueId x) {
    const Shape of = shape(x);
    std::vector<ValueId> inputs = {x};
    for (int parameter = 0; parameter < 3; ++parameter) inputs.push_back(centred({of[1]}));
    inputs.push_back(weight({of[1]}, type));  // the variance
    return op("BatchNormalization", inputs, of);
  }
  ValueId normalization_of_groups(ValueId x, std::int64_t groups) {
    const Shape of = shape(x);
    return op(groups == of[1] ? "InstanceNormalization" : "GroupNormalization",
              {x, centred({of[1]}), centred({of[1]})}, of,
              groups == of[1] ? std::map<std::string, Attribute>()
                              : std::map<std::string, Attribute>{{"num_groups", groups}});
  }
  /// Reduces all places of each channel to one.
  ValueId reduced(const std::string& op_type, ValueId x) {
    const Shape of = shape(x);
    Ints axes;
    for (std::size_t d = 2; d < of.size(); ++d) axes.push_back(-static_cast<std::int64_t>(d) + 1);
    return op(op_type, {x, integers(axes)}, one_place(of), {{"keepdims", std::int64_t{1}}});
  }
  ValueId mean_of_places(ValueId x, bool is_global) {
    return is_global ? op("GlobalAveragePool", {x}, one_place(shape(x))) : reduced("ReduceMean", x);
  }
  ValueId concat(ValueId a, ValueId b) {
    Shape to = shape(a);
    to[1] += shape(b)[1];
    return op("Concat", {a, b}, to, {{"axis", std::int64_t{1}}});
  }

 private:
  static Shape one_place(const Shape& of) {
    Shape to(of.size(), 1);
    std::copy_n(of.begin(), 2, to.begin());
    return to;
  }
  static Shape slid(Shape of, std::int64_t channels, std::int64_t taps, std::int64_t stride) {
    of[1] = channels;
    for (std::size_t d = 2; d < of.size(); ++d) of[d] = (of[d] + taps / 2 * 2 - taps) / stride + 1;
    return of;
  }
};

std::string operators(const Graph& graph) {
  std::string text;
  for (const graph::Node& node : graph.nodes) text += (text.empty() ? "" : " ") + node.op_type;
  return text;
}

Graph moved(const Network& network) { return after(network.graph, {passes::move_channels_last}); }

Graph fused(const Network& network) {
  return after(network.graph, {passes::move_channels_last, passes::fuse_convolutions});
}

/// Fused as far as the CPU's kernels serve on this machine.
Graph fused_on_cpu(const Network& network) {
  Graph graph = network.graph;
  passes::move_channels_last(graph, cpu_kernels());
  passes::fuse_convolutions(graph, cpu_kernels());
  remove_dead_nodes(graph);
  return graph;
}

/// One more layer behind `images`, which all have the shape of the last.
ValueId add_layer(Network& network, std::vector<ValueId>& images) {
  const ValueId x = images.back();
  const std::int64_t channels = network.shape(x)[1];
  switch (network.random() % 14) {
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
      return network.binary("Add", x, network.reduced("ReduceMax", x));
    case 11:
      return network.normalization_of_groups(x, network.random() % 2 == 0 ? channels : 2);
    case 12:
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

TEST_CASE("A convolution takes along the image that is added and Relu") {
  Network network;
  const ValueId x = network.in("x", {1, 16, 8, 8});
  const ValueId a = network.unary("Relu", network.conv(x, 16, 3));
  const ValueId b = network.unary("Relu", network.conv(a, 16, 3));
  const ValueId sum = network.either("Add", network.conv(b, 16, 1), a);
  network.ends(network.conv(network.unary("Relu", sum), 16, 1));
  CHECK(operators(fused(network)) ==
        "Transpose ChannelsLastConv ChannelsLastConv ChannelsLastConv ChannelsLastConv Transpose");
}

TEST_CASE("A convolution that alone reads an image of few channels brings them to the end itself") {
  for (const std::int64_t channels : {3, 9}) {
    Network network;
    const ValueId x = network.in("x", {2, channels, 9, 7});
    network.ends(network.conv(network.conv(x, 16, 3, 2), 16, 3));
    CHECK(operators(fused(network)) ==
          (channels == 3 ? "" : "Transpose ") +
              std::string("ChannelsLastConv ChannelsLastConv Transpose"));
  }
  Network twice;
  const ValueId x = twice.in("x", {1, 3, 8, 8});
  twice.ends(twice.conv(twice.binary("Add", twice.conv(x, 16, 3), twice.conv(x, 16, 5)), 16, 3));
  CHECK(count(fused(twice), "Transpose") == 2);
}

TEST_CASE("Under wide taps Relu goes along with AVX2 alone, but where padding needs much memory") {
  const bool is_served = cpu::simd_level() == cpu::SimdLevel::avx2;
  for (const std::int64_t dilation : {2, 60}) {
    Network network;
    const ValueId x = network.conv(network.in("x", {1, 64, 64, 64}), 64, 3);
    const ValueId wide =
        network.op("Conv", {x, network.centred({64, 64, 3, 3})}, {1, 64, 64, 64},
                   {{"pads", Ints(4, dilation)}, {"dilations", Ints(2, dilation)}});
    network.ends(network.conv(network.unary("Relu", wide), 64, 3));
    const Graph graph = fused_on_cpu(network);
    CHECK(count(graph, "ChannelsLastConv") == 3);
    CHECK(count(graph, "Relu") == (is_served && dilation == 2 ? 0 : 1));
  }
}

TEST_CASE("Under one tap, and where products are saved, Relu goes along with AVX-512, too") {
  Network network;
  ValueId x = network.conv(network.in("x", {1, 16, 9, 9}), 32, 1);
  for (const std::int64_t taps : {1, 3}) x = network.conv(network.unary("Relu", x), 32, taps);
  network.ends(network.conv(network.unary("Relu", x), 16, 1));
  const Graph graph = fused_on_cpu(network);
  CHECK(count(graph, "ChannelsLastConv") == 4);
  CHECK(count(graph, "Relu") == (cpu::simd_level() == cpu::SimdLevel::baseline ? 3 : 0));
}

TEST_CASE("The CPU takes HardSwish along where oneDNN convolves, but not behind a sum") {
  for (const bool is_sum : {false, true}) {
    Network network;
    const ValueId x = network.conv(network.in("x", {1, 16, 9, 9}), 16, 1);
    const ValueId y = network.conv(x, 24, 1);
    const ValueId sum = is_sum ? network.binary("Add", y, network.conv(x, 24, 1)) : y;
    network.ends(network.conv(network.unary("HardSwish", sum), 16, 1));
    const Graph graph = fused_on_cpu(network);
    CHECK(count(graph, "HardSwish") == (is_sum ? 1 : 0));
  }
}

TEST_CASE("Relu and sums stay where a convolution is read twice, or differs in shape") {
  const Shape shape = {1, 16, 8, 8};
  Network twice;
  const ValueId a = twice.conv(twice.in("x", shape), 16, 3);
  twice.ends(twice.conv(twice.binary("Add", twice.unary("Relu", a), a), 16, 3));
  CHECK(operators(fused(twice)) ==
        "Transpose ChannelsLastConv Relu Add ChannelsLastConv Transpose");

  Network doubled;
  const ValueId b = doubled.conv(doubled.in("x", shape), 16, 3);
  doubled.ends(doubled.conv(doubled.binary("Add", b, b), 16, 3));
  CHECK(count(fused(doubled), "Add") == 1);

  for (const bool is_narrow : {false, true}) {  // what is added, or the convolution
    Network other;
    const ValueId x = other.in("x", shape);
    const ValueId sum = other.binary("Add", other.conv(x, is_narrow ? 1 : 16, 3),
                                     other.in("y", {1, is_narrow ? 16 : 1, 8, 8}));
    other.ends(other.conv(sum, 16, 3));
    CHECK(count(fused(other), "Add") == 1);
  }

  Network sums;  // Relu before the sum, and a second sum
  const ValueId x = sums.conv(sums.in("x", shape), 16, 3);
  const ValueId c = sums.binary("Add", sums.unary("Relu", sums.conv(x, 16, 3)), x);
  const ValueId d = sums.binary("Add", sums.binary("Add", sums.conv(c, 16, 3), x), x);
  sums.ends(sums.conv(d, 16, 3));
  CHECK(operators(fused(sums)) ==
        "Transpose ChannelsLastConv ChannelsLastConv Add ChannelsLastConv Add ChannelsLastConv "
        "Transpose");
}

TEST_CASE("Convolutions stay where more would be moved than they reorder themselves") {
  Network alone;
  alone.ends(alone.unary("Relu", alone.conv(alone.in("x", {1, 4, 8, 8}), 8, 3)));
  CHECK(operators(moved(alone)) == "Conv Relu");

  Network pointwise;
  const ValueId x = pointwise.in("x", {1, 8, 8, 8});
  pointwise.ends(pointwise.conv(pointwise.conv(x, 4, 1), 8, 1));
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

TEST_CASE("Points are computed one by one, and their maximum needs no order of channels") {
  Network network;
  const ValueId x = network.in("x", {2, 3, 50});
  const ValueId features = network.unary("Relu", network.conv(network.conv(x, 16, 1), 32, 1));
  network.ends(network.op("ReduceMax", {features, network.integers({2})}, {2, 32},
                          {{"keepdims", std::int64_t{0}}}));
  CHECK(operators(moved(network)) == "Transpose ChannelsLastConv ChannelsLastConv Relu ReduceMax");

  Network global;
  const ValueId made = global.conv(global.conv(global.in("x", {2, 3, 5, 7}), 16, 1), 32, 1);
  global.ends(global.op("GlobalMaxPool", {global.unary("Relu", made)}, {2, 32, 1, 1}));
  const Graph graph = after(global.graph, {passes::move_relus_behind_maxima});
  CHECK(operators(graph) == "Conv Conv GlobalMaxPool Relu");
  CHECK(operators(after(graph, {passes::move_channels_last})) ==
        "Transpose ChannelsLastConv ChannelsLastConv ReduceMax Relu Reshape");
}

TEST_CASE("Only the largest place of each channel is kept of a product of single places") {
  const auto is_fused = [](auto make_convolution, Ints axes, std::int64_t keepdims) {
    Network network;
    const ValueId x = network.conv(network.in("x", {2, 16, 5, 6}), 24, 3);
    const ValueId y = make_convolution(network, x);
    Shape to = network.shape(y);
    for (const std::int64_t axis : axes) to[static_cast<std::size_t>(axis)] = 1;
    if (keepdims == 0)
      for (std::size_t i = axes.size(); i-- > 0;) to.erase(to.begin() + axes[i]);
    network.ends(
        network.op("ReduceMax", {y, network.integers(axes)}, to, {{"keepdims", keepdims}}));
    return count(fused(network), "ChannelsLastConvMaximum") == 1;
  };
  const auto conv = [](std::int64_t taps, std::int64_t stride, std::int64_t groups) {
    return [=](Network& network, ValueId x) {
      return network.conv(x, 48, taps, stride, groups, taps == stride);
    };
  };
  const bool is_served = cpu::simd_level() != cpu::SimdLevel::baseline;
  CHECK(is_fused(conv(1, 1, 1), {2, 3}, 0) == is_served);
  CHECK(is_fused(conv(1, 1, 1), {2, 3}, 1) == is_served);
  CHECK_FALSE(is_fused(conv(1, 1, 1), {2}, 1));
  CHECK_FALSE(is_fused(conv(1, 1, 1), {1, 2}, 1));
  CHECK_FALSE(is_fused(conv(3, 1, 1), {2, 3}, 1));
  CHECK_FALSE(is_fused(conv(1, 2, 1), {2, 3}, 1));
  CHECK_FALSE(is_fused(conv(1, 1, 2), {2, 3}, 1));
  const auto read_twice = [&](Network& network, ValueId x) {
    const ValueId y = conv(1, 1, 1)(network, x);
    network.ends(network.unary("Neg", y));
    return y;
  };
  CHECK_FALSE(is_fused(read_twice, {2, 3}, 1));
}

TEST_CASE("Relu is taken of maxima alone, whatever they are of") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  Network network;
  const ValueId x = network.in("x", {1, 1, 4, 4});
  const auto relu = [&](ValueId of) {  // of a convolution that changes nothing
    const ValueId one =
        network.graph.add_constant("one", tensor_of(DataType::float32, {1, 1, 1, 1}, {1}));
    return network.unary("Relu", network.op("Conv", {of, one}, network.shape(of)));
  };
  network.ends(network.pool("MaxPool", relu(x), 2));
  network.ends(network.reduced("ReduceMax", relu(x)));
  const ValueId read_twice = relu(x);
  network.ends(network.pool("MaxPool", read_twice, 2));
  network.ends(network.unary("Neg", read_twice));
  const Graph graph = after(network.graph, {passes::move_relus_behind_maxima});
  CHECK(operators(graph) == "Conv MaxPool Relu Conv ReduceMax Relu Conv Relu MaxPool Neg");
  for (const std::vector<double>& values :
       {std::vector<double>{-1, 2, -inf, nan, -3, -4, inf, 0, -5, -6, -7, -8, nan, nan, -1, -2},
        std::vector<double>(16, -2), std::vector<double>(16, -inf)}) {
    const Tensor images = tensor_of(DataType::float32, {1, 1, 4, 4}, values);
    Executable before(network.graph, {.threads = 1, .optimize = false});
    Executable behind(graph, {.threads = 1, .optimize = false});
    const auto expected = run(before, network.graph, {images});
    const auto found = run(behind, graph, {images});
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto a = doubles(expected[i]);
      const auto b = doubles(found[i]);
      for (std::size_t e = 0; e < a.size(); ++e)
        CHECK((a[e] == b[e] || (std::isnan(a[e]) && std::isnan(b[e]))));
    }
  }
}

TEST_CASE("A maximum of no places stays -inf, in front of which Relu changes nothing") {
  Network network;
  const ValueId images = network.conv(network.in("x", {1, 2, 0, 4}), 3, 1);
  network.ends(network.reduced("ReduceMax", network.unary("Relu", images)));
  CHECK(operators(after(network.graph, {passes::move_relus_behind_maxima})) ==
        "Conv Relu ReduceMax");
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
  int fusions = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    Network network;
    network.random.seed(seed);
    const bool is_series = seed % 4 == 1;
    std::vector<ValueId> images = {network.in("x", is_series ? Shape{2, 6, 9} : Shape{2, 6, 5, 7})};
    for (int layer = 0; layer < 8; ++layer) images.push_back(add_layer(network, images));
    network.ends(images.back());
    if (seed % 3 == 0) network.ends(images[images.size() / 2]);
    CAPTURE(seed, operators(network.graph));
    const Graph graph = moved(network);
    moves += count(graph, "ChannelsLastConv") > 1 ? 1 : 0;
    fusions += fused(network).nodes.size() < graph.nodes.size() ? 1 : 0;
  }
  CHECK(moves > 50);
  CHECK(fusions > 20);
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
