#include "graph/onnx/import/tied_extents.h"

#include <catch2/catch.hpp>
#include <limits>

using namespace autopar::graph;

namespace {

std::int64_t extent_of(const Assumptions& assumed, std::string_view name) {
  for (const Assumption& each : assumed)
    if (each.name == name) return each.extent;
  return -1;
}

Assumptions of_names(const std::vector<std::string>& names) {
  Assumptions assumed;
  for (const std::string& name : names) assumed.push_back({.name = name, .extent = 128});
  return assumed;
}

}  // namespace

TEST_CASE("a limit that probes do not meet is found with what is assumed") {
  const Ties ties = tie_extents(of_names({"n"}), {}, [](const Assumptions& assumed) {
    const std::int64_t n = extent_of(assumed, "n");
    if (n <= 120) return Attempt{.is_whole = true};
    return Attempt{.refused = {{1, n}, {120}}};
  });
  CHECK(ties.assumed.front().extent == 120);
}

TEST_CASE("a tie gives way to those that are found behind it") {
  const auto nodes = [](const Assumptions& assumed) {
    const std::int64_t total = extent_of(assumed, "total");
    const std::int64_t sum = extent_of(assumed, "past") + extent_of(assumed, "new");
    const std::int64_t past = extent_of(assumed, "past");
    if (total != sum) return Attempt{.nodes_read = 3, .refused = {{1, sum}, {1, total}}};
    if (past != 24) return Attempt{.nodes_read = 4, .refused = {{past}, {24}}};
    return Attempt{.is_whole = true};
  };
  const Ties ties = tie_extents(of_names({"past", "new", "total"}), {}, nodes);
  CHECK(ties.assumed[0].extent == 24);
  CHECK(ties.assumed[2].extent == 152);
  CHECK(ties.assumed[2].formula == "new + 24");
}

TEST_CASE("rows of a batch whose sequences stand one behind another are tied as those of one are") {
  const auto nodes = [](const Assumptions& assumed) {
    const std::int64_t total = extent_of(assumed, "total");
    const std::int64_t sum = extent_of(assumed, "past") + extent_of(assumed, "new");
    if (total < sum) return Attempt{.nodes_read = 3, .refused = {{2 * total + sum}, {3 * total}}};
    return Attempt{.is_whole = true};
  };
  const Ties ties = tie_extents(of_names({"past", "new", "total"}), {.known = {3}}, nodes);
  CHECK(ties.assumed[2].extent == 256);
  CHECK(ties.assumed[2].formula == "past + new");
}

TEST_CASE("what cannot stand a probe keeps what is assumed") {
  const Ties ties =
      tie_extents(of_names({"height", "width", "mask"}), {}, [](const Assumptions& assumed) {
        const std::int64_t height = extent_of(assumed, "height");
        if (height % 8 != 0) return Attempt{.nodes_read = 2, .refused = {{height}, {height + 7}}};
        const std::int64_t width = extent_of(assumed, "width");
        if (const std::int64_t mask = extent_of(assumed, "mask"); mask != width + 3)
          return Attempt{.nodes_read = 9, .refused = {{mask, 1}, {width + 3, 1}}};
        return Attempt{.is_whole = true};
      });
  CHECK(extent_of(ties.assumed, "height") == 128);
  CHECK(extent_of(ties.assumed, "mask") == 131);
  CHECK_FALSE(ties.may_be_to_blame);
}

TEST_CASE("a refusal for another reason ties nothing and blames nothing") {
  const Ties ties = tie_extents(of_names({"n", "m"}), {},
                                [](const Assumptions&) { return Attempt{.nodes_read = 5}; });
  CHECK(ties.assumed == of_names({"n", "m"}));
  CHECK_FALSE(ties.may_be_to_blame);
}

TEST_CASE("numbers that no extent can be, as constants have them, tie nothing") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t least = std::numeric_limits<std::int64_t>::min();
  for (const Shape& other : {Shape{-1}, Shape{most}, Shape{least}, Shape{most - 1, 128}}) {
    const Ties ties = tie_extents(of_names({"n", "m"}), {.known = {2, most}}, [&](const auto&) {
      return Attempt{.refused = {{most}, {least}, other}};
    });
    CHECK(ties.assumed == of_names({"n", "m"}));
  }
}

TEST_CASE("a batch is not tied") {
  Assumptions assumed = {{.name = "batch", .is_batch = true, .extent = 1}};
  const Ties ties = tie_extents(assumed, {}, [](const Assumptions&) {
    return Attempt{.refused = {{1, 4}, {2, 4}}};
  });
  CHECK(ties.assumed == assumed);
}
