#include "onnx_runtime/session_entries.h"

#include <catch2/catch.hpp>
#include <map>

#include "base/error.h"

using namespace autopar;
using namespace autopar::onnx_runtime;
using Catch::Matchers::Contains;

namespace {

SessionEntries read(const std::map<std::string, std::string>& entries) {
  return read_entries([&](const std::string& key) -> std::optional<std::string> {
    const auto found = entries.find(key);
    return found == entries.end() ? std::nullopt : std::optional(found->second);
  });
}

}  // namespace

TEST_CASE("A session without a bundle is told what to do") {
  CHECK_THROWS_WITH(read({}), Contains("autopar.bundle") && Contains("before"));
  CHECK_THROWS_WITH(read({{"autopar.bundle", "nowhere"}}), Contains("nowhere/meta-info.json"));
}

TEST_CASE("Malformed entries are told together, before the bundle is read") {
  CHECK_THROWS_WITH(
      read({{"autopar.bundle", "nowhere"}, {"autopar.timeout", "1s"}, {"autopar.tls", "1"}}),
      Contains("autopar.timeout 1s: give seconds") && Contains("autopar.rendezvous"));
  CHECK_THROWS_WITH(read({{"autopar.bundle", "nowhere"}, {"autopar.timeout", "nan"}}),
                    Contains("autopar.timeout nan"));
  CHECK_THROWS_WITH(read({{"autopar.bundle", "nowhere"}, {"autopar.tls", "yes"}}),
                    Contains("autopar.tls yes: give 0 or 1"));
}
