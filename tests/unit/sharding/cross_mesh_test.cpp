#include "sharding/cross_mesh.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "sharding/connect.h"
#include "sharding/op_shard_spec.h"
#include "simulated_devices.h"

using namespace autopar::sharding;

namespace {

using Random = std::mt19937;

int pick(Random& random, int from, int to) {
  return std::uniform_int_distribution<int>(from, to)(random);
}

TensorShardSpec any_spec(Random& random, const Shape& shape, const DeviceMesh& mesh) {
  const auto specs = enumerate_tensor_shard_specs(shape, mesh);
  return specs[static_cast<std::size_t>(pick(random, 0, static_cast<int>(specs.size()) - 1))];
}

DeviceMesh any_mesh(Random& random) {
  std::vector<int> sizes;
  for (int axes = pick(random, 1, 2); axes > 0; --axes) sizes.push_back(pick(random, 1, 4));
  return DeviceMesh(sizes);
}

/// Row-major indices of the elements of a box.
std::set<std::int64_t> indices(const std::vector<Range>& box, const Shape& shape) {
  std::set<std::int64_t> result;
  const std::int64_t all =
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  for (std::int64_t index = 0; index < all; ++index) {
    std::int64_t rest = index;
    bool is_inside = true;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
      const std::int64_t at = rest % shape[d];
      is_inside = is_inside && box[d].begin <= at && at < box[d].end;
    }
    if (is_inside) result.insert(index);
  }
  return result;
}

}  // namespace

TEST_CASE("a receive spec splits a tensor over every axis of its mesh") {
  const DeviceMesh mesh({2, 1, 3});
  CHECK(is_receive_spec(TensorShardSpec::parse("S0S2"), mesh));
  CHECK(is_receive_spec(TensorShardSpec::parse("RS02"), mesh));
  CHECK(is_receive_spec(TensorShardSpec::parse("S1S02"), mesh));
  CHECK_FALSE(is_receive_spec(TensorShardSpec::parse("S0R"), mesh));
  CHECK_FALSE(is_receive_spec(TensorShardSpec::parse("RR"), mesh));
  CHECK_FALSE(is_receive_spec(TensorShardSpec::parse("S0R+P2"), mesh));
  CHECK(is_receive_spec(TensorShardSpec::parse("."), mesh));
  for (const TensorShardSpec& spec : receive_specs({5, 7}, mesh))
    CHECK(is_receive_spec(spec, mesh));
  CHECK(receive_specs({}, mesh) == std::vector{TensorShardSpec{}});
  CHECK(receive_specs({1}, DeviceMesh({2})).size() == 1);
}

TEST_CASE("from any spec on one mesh to any spec on another, each rank gets what it lacks") {
  Random random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    const DeviceMesh from_mesh = any_mesh(random);
    const DeviceMesh to_mesh = any_mesh(random);
    Shape shape;
    for (int dims = pick(random, 0, 3); dims > 0; --dims) shape.push_back(pick(random, 0, 6));
    const TensorShardSpec from = any_spec(random, shape, from_mesh);
    const TensorShardSpec to = any_spec(random, shape, to_mesh);
    CAPTURE(trial, to_string(from_mesh), to_string(to_mesh), to_string(from), to_string(to), shape);
    std::map<int, std::set<std::int64_t>> received;
    for (const Message& message : cross_mesh_messages(from, from_mesh, to, to_mesh, shape)) {
      const auto sent = indices(message.box, shape);
      REQUIRE_FALSE(sent.empty());
      const auto owned = indices(local_ranges(from, shape, from_mesh, message.from), shape);
      REQUIRE(std::ranges::includes(owned, sent));
      for (const std::int64_t index : sent)
        REQUIRE(received[message.to].insert(index).second);  // once
    }
    for (int rank = 0; rank < to_mesh.num_devices(); ++rank)
      REQUIRE(received[rank] == indices(local_ranges(to, shape, to_mesh, rank), shape));
  }
}

TEST_CASE("what is received crosses once, whatever lies on either side, but for single elements") {
  Random random(11);
  for (int trial = 0; trial < 1000; ++trial) {
    const DeviceMesh from_mesh = any_mesh(random);
    const DeviceMesh to_mesh = any_mesh(random);
    Shape shape;
    for (int dims = pick(random, 1, 3); dims > 0; --dims) shape.push_back(pick(random, 1, 9));
    const TensorShardSpec from = any_spec(random, shape, from_mesh);
    for (const TensorShardSpec& receive_spec : receive_specs(shape, to_mesh)) {
      CAPTURE(trial, to_string(from), to_string(receive_spec), shape);
      std::int64_t elements = 0;
      for (const Message& message :
           cross_mesh_messages(from, from_mesh, receive_spec, to_mesh, shape))
        elements += static_cast<std::int64_t>(indices(message.box, shape).size());
      const std::int64_t all =
          std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
      CHECK(elements == (all == 1 ? to_mesh.num_devices() : all));
    }
  }
}

TEST_CASE("every spec is reached from some receive spec") {
  for (const char* text : {"2", "2x2", "3", "2x3"}) {
    const DeviceMesh mesh = DeviceMesh::parse(text);
    for (const TensorShardSpec& wanted : enumerate_tensor_shard_specs({5, 4}, mesh)) {
      CHECK(std::ranges::any_of(
          receive_specs({5, 4}, mesh),
          [&](const TensorShardSpec& receive_spec) { return can_connect(receive_spec, wanted); }));
    }
  }
}

TEST_CASE("ranks that have the same send about as much") {
  // Four ranks have all of 64 elements, four others get 16 each.
  const DeviceMesh mesh({4});
  std::map<int, std::int64_t> sent;
  for (const Message& message : cross_mesh_messages(TensorShardSpec::parse("R"), mesh,
                                                    TensorShardSpec::parse("S0"), mesh, {64}))
    sent[message.from] += message.box.front().size();
  CHECK(sent == std::map<int, std::int64_t>{{0, 16}, {1, 16}, {2, 16}, {3, 16}});
}
