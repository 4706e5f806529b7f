#include "planner/summary.h"

#include <catch2/catch.hpp>

using namespace autopar;
using namespace autopar::planner;

TEST_CASE("what is assumed is told by name, and many dimensions without one by their number") {
  graph::Assumptions assumed = {
      {.name = "batch", .is_batch = true, .extent = 1},
      {.name = "new", .extent = 128},
      {.name = "total", .extent = 256, .formula = "past + new"},
      {.name = "dimension 1 of 'x'", .extent = 128, .is_unnamed = true},
  };
  const std::string named = "batch 1, new 128, total = past + new = 256";
  CHECK(assumed_text(assumed) == named + ", dimension 1 of 'x' 128");
  for (int i = 0; i < 4; ++i) assumed.push_back(assumed.back());
  assumed.back().extent = 1;
  CHECK(assumed_line(assumed) == "Assumed: " + named +
                                     ", 1 unnamed dimensions 1, 4 unnamed dimensions 128; --shape "
                                     "binds others\n");
  CHECK(assumed_line({}).empty());
}
