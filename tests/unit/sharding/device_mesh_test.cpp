#include "sharding/device_mesh.h"

#include <catch2/catch.hpp>
#include <set>

#include "base/error.h"

using autopar::Error;
using autopar::sharding::DeviceMesh;

TEST_CASE("a mesh is read from its text and printed as it was read") {
  for (const char* text : {"1", "4", "2x4", "1x3", "2x3x5"}) {
    CHECK(to_string(DeviceMesh::parse(text)) == text);
  }
  CHECK(DeviceMesh::parse("2x4") == DeviceMesh({2, 4}));
}

TEST_CASE("a text that is no mesh is refused with the form shown") {
  for (const char* text : {"", "x", "0", "2x", "x2", "2x0", "-2", "2X4", "2 x4", "2x4 ", "two",
                           "99999999999", "2x-4", "1.5", "+2"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(DeviceMesh::parse(text), Catch::Contains("4 or 2x4"));
  }
  CHECK_THROWS_AS(DeviceMesh(std::vector<int>{}), Error);
  CHECK_THROWS_AS(DeviceMesh({2, 0}), Error);
  CHECK_THROWS_AS(DeviceMesh::parse("1000000x1000000x1000000"), Error);
  CHECK_THROWS_AS(DeviceMesh::parse("1x1x1x1x1x1x1x1x1x1x1"), Error);
}

TEST_CASE("ranks and coordinates are inverse, row-major") {
  const DeviceMesh mesh({2, 3, 4});
  CHECK(mesh.num_devices() == 24);
  CHECK(mesh.coordinates(0) == std::vector<int>{0, 0, 0});
  CHECK(mesh.coordinates(1) == std::vector<int>{0, 0, 1});
  CHECK(mesh.coordinates(23) == std::vector<int>{1, 2, 3});
  for (int rank = 0; rank < 24; ++rank) CHECK(mesh.rank(mesh.coordinates(rank)) == rank);
  CHECK_THROWS_AS(mesh.coordinates(24), autopar::InternalError);
  CHECK_THROWS_AS(mesh.rank(std::vector<int>{0, 3, 0}), autopar::InternalError);
}

TEST_CASE("a group is what differs along its axes, the first axis major") {
  const DeviceMesh mesh({2, 3});
  CHECK(mesh.group(4, std::vector{0}) == std::vector<int>{1, 4});
  CHECK(mesh.group(4, std::vector{1}) == std::vector<int>{3, 4, 5});
  CHECK(mesh.group(4, std::vector{0, 1}) == std::vector<int>{0, 1, 2, 3, 4, 5});
  CHECK(mesh.group(4, std::vector{1, 0}) == std::vector<int>{0, 3, 1, 4, 2, 5});
  CHECK(mesh.group(4, std::vector<int>{}) == std::vector<int>{4});
}

TEST_CASE("groups along any axes tile the mesh and know each member's index") {
  const DeviceMesh mesh({2, 3, 2});
  for (const std::vector<int>& axes : std::vector<std::vector<int>>{
           {}, {0}, {1}, {2}, {0, 1}, {1, 0}, {2, 0}, {0, 1, 2}, {2, 1, 0}}) {
    std::set<std::vector<int>> groups;
    for (int rank = 0; rank < mesh.num_devices(); ++rank) {
      const std::vector<int> group = mesh.group(rank, axes);
      CHECK(static_cast<int>(group.size()) == mesh.group_size(axes));
      CHECK(group.at(static_cast<std::size_t>(mesh.index_in_group(rank, axes))) == rank);
      groups.insert(group);
    }
    CHECK(static_cast<int>(groups.size()) * mesh.group_size(axes) == mesh.num_devices());
  }
}
