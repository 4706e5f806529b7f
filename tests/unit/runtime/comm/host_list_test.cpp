#include "runtime/comm/host_list.h"

#include <catch2/catch.hpp>

#include "base/error.h"

namespace autopar::runtime {
namespace {

TEST_CASE("the first host of a list of Slurm's") {
  CHECK(first_host("login") == "login");
  CHECK(first_host("node1,node2") == "node1");
  CHECK(first_host("node[01-03,07]") == "node01");
  CHECK(first_host("node[7]") == "node7");
  CHECK(first_host("node[007,9]-ib,login") == "node007-ib");
  CHECK(first_host("rack[2-3]node[08-11]") == "rack2node08");
  CHECK(first_host("gpu-a,node[01-03]") == "gpu-a");
  CHECK(first_host("127.0.0.[1-2]") == "127.0.0.1");
}

TEST_CASE("text that is no list of hosts is refused") {
  for (const char* text : {"", ",", ",node1", "node[", "node[]", "node[-3]", "node[a-b]",
                           "node[1x2]", "node]1", "node[1", "node[[1]]"}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(first_host(text), Catch::Contains("is no list of hosts"));
  }
}

}  // namespace
}  // namespace autopar::runtime
