// GroupNorm as PyTorch's exporters write it.

#include <catch2/catch.hpp>

#include "unit/runtime/passes/spelling.h"

using namespace autopar;
using namespace autopar::runtime;
using namespace autopar::runtime::testing;
using graph::Graph;
using graph::ValueId;

namespace {

struct Network : Spelling {
  /// One number a channel of images of that shape.
  ValueId of_channels(const Shape& image) {
    Shape shape(image.size() - 1, 1);
    shape[0] = image[1];
    return weight(shape, type);
  }
  ValueId normalized(ValueId x, std::int64_t groups) {
    const Shape of = shape(x);
    return op("InstanceNormalization", {x, weight({groups}, type), weight({groups}, type)}, of,
              {{"epsilon", 1e-3F}});
  }
  /// In groups that a Reshape makes.
  ValueId grouped(ValueId x, std::int64_t groups) {
    const Shape image = shape(x);
    const Shape of_groups = {
        image[0], groups,
        graph::num_elements(image) / std::max(image[0] * groups, std::int64_t{1})};
    return reshaped(normalized(reshaped(x, of_groups), groups), image);
  }
};

Graph fused(const Network& network) {
  return after(network.graph, {passes::fuse_group_normalizations});
}

}  // namespace

TEST_CASE("GroupNormalization is known by its Reshapes, and takes scale and bias along") {
  for (const std::int64_t groups : {1, 2, 6})
    for (const bool is_scaled_first : {true, false}) {
      Network network;
      const Shape shape = {2, 6, 4, 3};
      ValueId y = network.grouped(network.in("x", shape), groups);
      const auto scaled = [&] { y = network.either("Mul", y, network.of_channels(shape)); };
      const auto shifted = [&] { y = network.either("Add", y, network.of_channels(shape)); };
      if (is_scaled_first) scaled();
      shifted();
      if (!is_scaled_first) scaled();
      network.ends(network.scaled(y, 0.5));
      const Graph graph = fused(network);
      CHECK(graph.nodes.size() == 1);
      CHECK(only(graph, "GroupNormalization").int_attribute("num_groups", 0) == groups);
    }
}

TEST_CASE("What only resembles a GroupNormalization stays as it is") {
  const Shape shape = {2, 6, 4, 3};
  Network other_images;  // groups of other images' channels
  const ValueId x = other_images.in("x", shape);
  other_images.ends(other_images.reshaped(
      other_images.normalized(other_images.reshaped(x, {1, 6, 24}), 6), shape));
  CHECK(count(fused(other_images), "GroupNormalization") == 0);

  Network other_shape;
  other_shape.ends(other_shape.reshaped(
      other_shape.normalized(other_shape.reshaped(other_shape.in("x", shape), {2, 3, 24}), 3),
      {2, 6, 3, 4}));
  CHECK(count(fused(other_shape), "GroupNormalization") == 0);

  Network halves;
  halves.type = DataType::float16;
  halves.ends(halves.grouped(halves.in("x", shape), 2));
  CHECK(count(fused(halves), "GroupNormalization") == 0);

  Network twice;
  const ValueId y = twice.grouped(twice.in("x", shape), 3);
  twice.ends(twice.binary("Add", twice.binary("Mul", y, twice.of_channels(shape)), y));
  CHECK(count(fused(twice), "Mul") == 1);

  Network overflowing;  // factors whose product float32 has not
  ValueId large = overflowing.grouped(overflowing.in("x", shape), 3);
  for (const double factor : {1e-30, 1e30, 1e30}) large = overflowing.scaled(large, factor);
  overflowing.ends(overflowing.scaled(large, 1e-30));
  CHECK(count(fused(overflowing), "Mul") == 0);
  Network beyond;
  large = beyond.scaled(beyond.grouped(beyond.in("x", shape), 3), 1e30);
  beyond.ends(beyond.binary("Min", beyond.scaled(large, 1e30), beyond.number(9, beyond.type)));
  CHECK(count(fused(beyond), "Mul") == 1);

  Network by_place;  // factors of places, as many as there are channels
  const Shape square = {2, 6, 1, 6};
  by_place.ends(by_place.binary("Mul", by_place.grouped(by_place.in("x", square), 3),
                                by_place.weight({1, 1, 6}, by_place.type)));
  CHECK(count(fused(by_place), "Mul") == 1);
}

TEST_CASE("Images with channels last are normalised in groups as others are") {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    const auto pick = [&](int low, int high) {
      return std::uniform_int_distribution<std::int64_t>(low, high)(random);
    };
    const bool has_many_channels = round % 8 == 0;  // more than are added up at a time
    const std::int64_t groups = has_many_channels ? 5 : pick(1, 5);
    const std::int64_t channels = groups * (has_many_channels ? pick(60, 110) : pick(1, 7));
    const Shape last = {pick(1, 3), pick(1, 40), pick(1, 20), channels};
    // Far from 0, where the variance of squares less the squared mean would be lost.
    const double centre = round % 2 == 0 ? 0 : 300;
    const DataType type = DataType::float32;
    const Tensor in = random_in(type, last, random, centre - 1, centre + 1);
    const Tensor scale = random_in(type, {channels}, random, -1, 1);
    const Tensor bias = random_in(type, {channels}, random, -1, 1);
    const auto found = doubles(run_node({.op_type = "ChannelsLastGroupNormalization",
                                         .attributes = {{"num_groups", groups}},
                                         .inputs = {in, scale, bias},
                                         .outputs = {{type, last}},
                                         .threads = 1 + round % 3,
                                         .domain = passes::internal_domain})[0]);
    const std::int64_t places = last[1] * last[2];
    const std::int64_t group_channels = channels / groups;
    CAPTURE(round, last, groups);
    for (std::int64_t image = 0; image < last[0]; ++image)
      for (std::int64_t group = 0; group < groups; ++group) {
        const auto visit = [&](auto work) {
          for (std::int64_t place = 0; place < places; ++place)
            for (std::int64_t c = group * group_channels; c < (group + 1) * group_channels; ++c)
              work(static_cast<std::size_t>((image * places + place) * channels + c),
                   static_cast<std::size_t>(c));
        };
        const auto count = static_cast<double>(places * group_channels);
        double mean = 0;
        visit([&](std::size_t i, std::size_t) { mean += number_at(in, i) / count; });
        double variance = 0;
        visit([&](std::size_t i, std::size_t) {
          variance += (number_at(in, i) - mean) * (number_at(in, i) - mean) / count;
        });
        visit([&](std::size_t i, std::size_t c) {
          const double expected =
              (number_at(in, i) - mean) / std::sqrt(variance + 1e-5) * number_at(scale, c) +
              number_at(bias, c);
          if (found[i] != Approx(expected).margin(centre == 0 ? 1e-5 : 1e-3))
            FAIL("element " << i << " is " << found[i] << ", not " << expected);
        });
      }
  }
}
