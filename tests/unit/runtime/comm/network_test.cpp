#include "runtime/comm/network.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace autopar::runtime {
namespace {

/// Where rank 0 listens whose machine knows the host by these addresses.
std::vector<std::string> places(const std::string& host, const std::vector<std::string>& known_as) {
  std::vector<SocketAddress> resolved;
  for (const std::string& address : known_as)
    resolved.push_back(resolve({.host = address, .port = 29500}).front());
  std::vector<std::string> listened_at;
  for (const SocketAddress& address :
       listening_addresses({.host = host, .port = 29500}, std::move(resolved)))
    listened_at.push_back(to_string(address));
  return listened_at;
}

using Places = std::vector<std::string>;

TEST_CASE("rank 0 listens at the address that it was given") {
  CHECK(places("node1", {"10.0.0.7"}) == Places{"10.0.0.7:29500"});
  CHECK(places("127.0.1.1", {"127.0.1.1"}) == Places{"127.0.1.1:29500"});
  CHECK(places("::1", {"::1"}) == Places{"[::1]:29500"});
  CHECK(places("localhost", {"::1", "127.0.0.1"}) == Places{"[::1]:29500", "127.0.0.1:29500"});
}

TEST_CASE("a machine that knows its own name as a loopback address listens where others reach it") {
  CHECK(places("node1", {"127.0.1.1"}) == Places{"0.0.0.0:29500"});
  CHECK(places("node1", {"127.0.1.1", "10.0.0.7"}) == Places{"0.0.0.0:29500"});
  CHECK(places("node1", {"::1"}) == Places{"0.0.0.0:29500"});
}

}  // namespace
}  // namespace autopar::runtime
