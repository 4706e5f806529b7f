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

TEST_CASE("a better bound is offered where --bound finds one") {
  search::SearchReport report{.lower_bound_seconds = 0.5, .bound_is_searched = false};
  CHECK_THAT(certificate(1.0, report), Catch::Contains("(the sum of the operators' least costs)"));
  report.method = search::SearchMethod::recursive;
  CHECK_THAT(certificate(1.0, report), Catch::Contains("least costs; --bound finds a better one)"));
  report.bound_is_searched = true;
  CHECK_THAT(certificate(1.0, report), !Catch::Contains("least costs"));
}

TEST_CASE("the gap over the meshes that were searched is told where another was left out") {
  const auto trial = [](std::vector<int> sizes, std::optional<double> cost, double bound,
                        const char* refusal = "") {
    return search::MeshTrial{sharding::DeviceMesh(std::move(sizes)), cost, bound, refusal};
  };
  search::SearchReport report{.lower_bound_seconds = 0.5};
  CHECK_THAT(certificate(1.0, report), Catch::EndsWith("gap 100.0 %"));
  report.meshes = {trial({8}, 1.25, 1.0), trial({2, 4}, 1.0, 0.8)};
  report.lower_bound_seconds = 0.8;
  CHECK_THAT(certificate(1.0, report), Catch::EndsWith("gap 25.0 %"));
  report.meshes.push_back(trial({2, 2, 2}, std::nullopt, 0.5));
  report.lower_bound_seconds = 0.5;
  CHECK_THAT(certificate(1.0, report),
             Catch::EndsWith("gap 100.0 % (gap 25.0 % over the meshes that were searched)"));
  // One that has no plan as far as the search let see may have a cheaper one.
  report.meshes.push_back(trial({4, 2}, std::nullopt, 0.5, "nothing fits"));
  CHECK_THAT(certificate(1.0, report), Catch::EndsWith("gap 100.0 %"));
}
