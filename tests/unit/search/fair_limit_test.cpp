#include "search/fair_limit.h"

#include <catch2/catch.hpp>
#include <vector>

namespace autopar::search {
namespace {

using Bytes = std::vector<std::int64_t>;

TEST_CASE("a fair share is 1.25/N of the bytes, or what there must be at least") {
  CHECK(fair_share(800, 4, 200) == 250);
  CHECK(fair_share(800, 4, 400) == 400);
}

/// Two weights of 800 bytes on four devices, the first pinned to one usage.
std::int64_t limit_with_pinned(std::int64_t usage) {
  FairLimit limit(4);
  limit.add(800, Bytes{800, 200}, Bytes{usage});
  limit.add(800, Bytes{800, 200}, Bytes{800, 200});
  return limit.bytes();
}

TEST_CASE("pins leave a fair limit as it is where a plan within it has them") {
  CHECK(limit_with_pinned(200) == 500);
  CHECK(limit_with_pinned(300) == 500);
}

TEST_CASE("what pins force beyond a fair limit is added to it") {
  CHECK(limit_with_pinned(800) == 800 + 250);
  FairLimit both(4);
  both.add(800, Bytes{800, 200}, Bytes{800});
  both.add(800, Bytes{800, 200}, Bytes{200});  // leaves 50 of its share
  CHECK(both.bytes() == 800 + 200);
}

TEST_CASE("a weight that cannot be split has all of itself as its share") {
  FairLimit limit(4);
  limit.add(800, Bytes{800}, Bytes{800});
  limit.add(800, Bytes{800, 200}, Bytes{800, 200});
  CHECK(limit.bytes() == 800 + 250);
}

}  // namespace
}  // namespace autopar::search
