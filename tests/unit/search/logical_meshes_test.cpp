#include "search/logical_meshes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "base/error.h"

using namespace autopar;
using sharding::DeviceMesh;

namespace {

using Sizes = std::vector<int>;

/// All tuples of numbers above 1 whose product is right.
std::set<Sizes> by_brute_force(int devices, std::size_t most_axes) {
  std::set<Sizes> found;
  std::vector<Sizes> tuples{{}};
  for (std::size_t axes = 1; axes <= most_axes; ++axes) {
    std::vector<Sizes> longer;
    for (const Sizes& tuple : tuples) {
      int product = 1;
      for (const int size : tuple) product *= size;
      for (int size = 2; size * product <= devices; ++size) {
        longer.push_back(tuple);
        longer.back().push_back(size);
        if (size * product == devices) found.insert(longer.back());
      }
    }
    tuples = std::move(longer);
  }
  return found;
}

/// Every group of ranks along the axis lies in one node, or every one has no node twice.
bool lies_in_or_across_nodes(const DeviceMesh& mesh, int axis, int devices_per_node) {
  bool all_within = true;
  bool all_across = true;
  for (int rank = 0; rank < mesh.num_devices(); ++rank) {
    const std::vector<int> group = mesh.group(rank, std::vector{axis});
    std::set<int> nodes;
    for (const int member : group) nodes.insert(member / devices_per_node);
    all_within = all_within && nodes.size() == 1;
    all_across = all_across && nodes.size() == group.size();
  }
  return all_within || all_across;
}

std::set<Sizes> sizes_of(const std::vector<DeviceMesh>& meshes) {
  std::set<Sizes> sizes;
  for (const DeviceMesh& mesh : meshes) sizes.insert(mesh.axis_sizes());
  CHECK(sizes.size() == meshes.size());
  return sizes;
}

}  // namespace

TEST_CASE("logical meshes are all ordered factorisations, fewest axes first") {
  for (const int devices : {2, 3, 4, 6, 7, 8, 12, 16, 24, 30, 36, 60, 64}) {
    CAPTURE(devices);
    const std::vector<DeviceMesh> meshes = search::logical_meshes(devices, 0);
    CHECK(sizes_of(meshes) == by_brute_force(devices, 6));
    CHECK(std::ranges::is_sorted(meshes, {}, &DeviceMesh::num_axes));
    CHECK(meshes.front() == DeviceMesh({devices}));
  }
  CHECK(search::logical_meshes(1, 0) == std::vector{DeviceMesh({1})});
  CHECK(search::logical_meshes(1, 8) == std::vector{DeviceMesh({1})});
}

TEST_CASE("with nodes, logical meshes are those whose axes lie within a node or across nodes") {
  for (const auto& [devices, per_node] : std::vector<std::pair<int, int>>{
           {8, 4}, {8, 2}, {16, 8}, {24, 4}, {36, 6}, {64, 8}, {12, 4}, {6, 1}, {8, 8}, {4, 8}}) {
    CAPTURE(devices, per_node);
    std::set<Sizes> expected;
    for (const Sizes& sizes : by_brute_force(devices, 6)) {
      const DeviceMesh mesh(sizes);
      bool is_logical = true;
      for (int axis = 0; axis < mesh.num_axes(); ++axis) {
        is_logical = is_logical && lies_in_or_across_nodes(mesh, axis, per_node);
      }
      if (is_logical) expected.insert(sizes);
    }
    CHECK(sizes_of(search::logical_meshes(devices, per_node)) == expected);
  }
}

TEST_CASE("of meshes that differ only in the order of axes along like links one is searched") {
  cost::DeviceModel device = cost::load_device_model("h200");
  for (const auto& [devices, per_node] :
       std::vector<std::pair<int, int>>{{8, 0}, {12, 0}, {64, 0}, {24, 4}, {36, 6}, {64, 8}}) {
    CAPTURE(devices, per_node);
    device.gpus_per_node = per_node;
    const int within = per_node > 0 ? per_node : devices;
    const auto by_link = [&](const DeviceMesh& mesh) {
      std::pair<std::multiset<int>, std::multiset<int>> sizes;  // across nodes, and within
      for (int axis = 0; axis < mesh.num_axes(); ++axis) {
        const bool is_within = mesh.group(0, std::vector{axis}).back() < within;
        (is_within ? sizes.second : sizes.first).insert(mesh.axis_size(axis));
      }
      return sizes;
    };
    const std::vector<DeviceMesh> all = search::logical_meshes(devices, per_node);
    const std::vector<DeviceMesh> few = search::meshes_to_search(devices, device);
    std::set<std::pair<std::multiset<int>, std::multiset<int>>> kinds;
    for (const DeviceMesh& mesh : few) {
      CHECK(std::ranges::count(all, mesh) == 1);
      CHECK(kinds.insert(by_link(mesh)).second);
    }
    for (const DeviceMesh& mesh : all) CHECK(kinds.contains(by_link(mesh)));
    CHECK(std::ranges::is_sorted(few, {}, &DeviceMesh::num_axes));
    CHECK(few.size() < all.size());
  }
  device = cost::load_device_model("h200");
  CHECK(sizes_of(search::meshes_to_search(8, device)) == std::set<Sizes>{{8}, {2, 4}, {2, 2, 2}});
  // The finest one is 2x2x3, which refines 4x3.
  CHECK(sizes_of(search::meshes_to_search(12, device)) ==
        std::set<Sizes>{{12}, {2, 6}, {4, 3}, {2, 2, 3}});
  device.links.push_back({1e-5, 1e10});  // by axis
  CHECK(search::meshes_to_search(12, device) == search::logical_meshes(12, 0));
}

TEST_CASE("devices that fill no whole number of nodes have no logical mesh") {
  CHECK_THROWS_WITH(search::logical_meshes(12, 8),
                    Catch::Contains("12") && Catch::Contains("8") && Catch::Contains("--mesh"));
}

TEST_CASE("a logical mesh has no more axes than a mesh may have") {
  for (const DeviceMesh& mesh : search::logical_meshes(1 << 12, 0)) {
    REQUIRE(mesh.axis_sizes().size() <= DeviceMesh::max_axes);
  }
}
