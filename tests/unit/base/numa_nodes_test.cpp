#include "base/numa_nodes.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/temporary_folder.h"

using namespace autopar;

namespace {

using Nodes = std::vector<CoreSet>;

const Nodes two = {{0, 1, 2, 3}, {4, 5, 6, 7}};
const CoreSet eight = {0, 1, 2, 3, 4, 5, 6, 7};

}  // namespace

TEST_CASE("NUMA nodes are read as the kernel lists them") {
  const TemporaryFolder root;
  CHECK(numa_nodes(root.path()).empty());
  const auto write = [&](const std::string& node, const std::string& cores) {
    const auto folder = root / ("sys/devices/system/node/" + node);
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "cpulist") << cores << "\n";
  };
  write("node10", "8-9");
  write("node2", "4,6");
  write("node0", "0-1,20-21");
  write("node3", "");  // of memory alone
  write("power", "5");
  write("node1x", "5");
  CHECK(numa_nodes(root.path()) == Nodes{{0, 1, 20, 21}, {4, 6}, {8, 9}});
  write("node4", "2000");
  CHECK(numa_nodes(root.path()).empty());
  CHECK(numa_nodes().size() <= 1024);  // this machine's
}

TEST_CASE("users of the same cores are spread over nodes") {
  CHECK(spread_over_nodes(eight, two, 2) == two);
  CHECK(spread_over_nodes(eight, two, 4) == Nodes{two[0], two[0], two[1], two[1]});
  CHECK(spread_over_nodes({0, 1, 4, 5}, two, 2) == Nodes{{0, 1}, {4, 5}});
  const Nodes four = {{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  CHECK(spread_over_nodes(eight, four, 2) == Nodes{{0, 1, 4, 5}, {2, 3, 6, 7}});
}

TEST_CASE("users are not bound where that gives some of them fewer cores, or changes nothing") {
  CHECK(spread_over_nodes(eight, two, 1).empty());
  CHECK(spread_over_nodes(eight, two, 3).empty());
  CHECK(spread_over_nodes(eight, {eight}, 2).empty());
  CHECK(spread_over_nodes(eight, {}, 2).empty());
  CHECK(spread_over_nodes({0, 1, 2, 3}, two, 2).empty());
  CHECK(spread_over_nodes({0, 1, 4}, two, 2).empty());
  CHECK(spread_over_nodes(eight, {{0, 1}, {2, 3}, {4, 5}}, 2).empty());
}
