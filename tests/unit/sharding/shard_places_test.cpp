#include "sharding/shard_places.h"

#include <catch2/catch.hpp>

#include "sharding/op_shard_spec.h"

using namespace autopar::sharding;

namespace {

/// The shares 0 to 3 in an order that no axes have.
ShardPlaces shuffled() { return {.shards = {4}, .shares = {{0}, {3}, {2}, {1}}}; }

}  // namespace

TEST_CASE("places tell which share of each dimension a rank has") {
  const DeviceMesh mesh({2, 3});
  const ShardPlaces places = shard_places(TensorShardSpec::parse("S1RS0"), mesh);
  CHECK(places.shards == std::vector<int>{3, 1, 2});
  CHECK(places.shares == std::vector<std::vector<int>>{
                             {0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {0, 0, 1}, {1, 0, 1}, {2, 0, 1}});
}

TEST_CASE("a spec is found again from its places") {
  for (const char* text : {"1", "4", "2x2", "3x2", "2x2x2", "2x3x2"}) {
    const DeviceMesh mesh = DeviceMesh::parse(text);
    for (const TensorShardSpec& spec : enumerate_tensor_shard_specs({720, 720}, mesh)) {
      INFO(text << ' ' << to_string(spec));
      const auto found = spec_with_places(shard_places(spec, mesh), mesh);
      REQUIRE(found.has_value());
      CHECK(shard_places(*found, mesh) == shard_places(spec, mesh));
      if (mesh.num_devices() > 1) CHECK(*found == spec);
    }
  }
}

TEST_CASE("axes of size 1 split nothing, and what is partial has the places of what is whole") {
  const DeviceMesh mesh({1, 2});
  const auto found_of = [&](const char* spec) {
    return to_string(*spec_with_places(shard_places(TensorShardSpec::parse(spec), mesh), mesh));
  };
  CHECK(found_of("S01R") == "S1R");
  CHECK(found_of("S0R") == "RR");
  CHECK(found_of("S0R+P1") == "RR");
}

TEST_CASE("places that no axes give have no spec") {
  CHECK_FALSE(spec_with_places(shuffled(), DeviceMesh({4})).has_value());
  CHECK_FALSE(spec_with_places(shuffled(), DeviceMesh({2, 2})).has_value());
  // Two shares of four ranks need a mesh with an axis of two.
  const ShardPlaces halves{.shards = {2}, .shares = {{0}, {0}, {1}, {1}}};
  CHECK_FALSE(spec_with_places(halves, DeviceMesh({4})).has_value());
  CHECK(to_string(*spec_with_places(halves, DeviceMesh({2, 2}))) == "S0");
  // The same ranks along both dimensions.
  const ShardPlaces diagonal{.shards = {2, 2}, .shares = {{0, 0}, {1, 1}}};
  CHECK_FALSE(spec_with_places(diagonal, DeviceMesh({2})).has_value());
}
