#include "planner/sizing.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/problems.h"
#include "base/temporary_folder.h"
#include "planner/find_plan.h"
#include "planner/token_count.h"

using namespace autopar;
using namespace autopar::planner;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

const std::filesystem::path models = std::filesystem::path(AUTOPAR_SOURCE_DIR) / "models/tiny";
const ModelOptions mlp{.file = models / "mlp-dynamo/model.onnx", .shapes = {"x=8x48"}};
const ModelOptions decoder{.file = models / "llama-step-torchscript/model.onnx",
                           .shapes = {"sequence=2", "past_sequence=30"}};

/// A device with so much memory.
std::string device_file(const TemporaryFolder& folder, const std::string& name, double bytes) {
  const nlohmann::json device = {
      {"name", name},
      {"source", "made up"},
      {"flops_per_second", {{"float32", 1e12}}},
      {"memory_bytes_per_second", 1e11},
      {"launch_seconds", 1e-7},
      {"memory_bytes", bytes},
      {"links", {{{"latency_seconds", 1e-7}, {"bytes_per_second", 1e10}}}}};
  const std::filesystem::path file = folder / (name + ".json");
  std::ofstream(file) << device;
  return file.string();
}

std::string refusal_of(const SizingOptions& sizing, const PlanOptions& plan = {}) {
  try {
    check_sizing(mlp, plan, sizing);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("each row has the numbers of a plan by itself") {
  const Model model = load_model(decoder);
  const Sizing sizing = size(model, {}, {.ngpus = {1, 2, 4}, .devices = {"h100", "l4"}});
  REQUIRE(sizing.rows.size() == 6);
  CHECK(sizing.counts_tokens);
  std::size_t i = 0;
  for (const char* device : {"h100", "l4"}) {
    for (const int ngpus : {1, 2, 4}) {
      const SizingRow& row = sizing.rows[i++];
      INFO(device << " " << ngpus);
      CHECK(row.device == device);
      CHECK(row.ngpus == ngpus);
      const PlanSummary alone = planner::plan(model, {.ngpus = ngpus, .device = device}).summary();
      REQUIRE(row.plan);
      CHECK(row.plan->summary.cost_seconds == alone.cost_seconds);
      CHECK(row.plan->summary.lower_bound_seconds == alone.lower_bound_seconds);
      CHECK(row.plan->summary.proven_optimal == alone.proven_optimal);
      CHECK(row.plan->memory.peak() == alone.peak_bytes);
      CHECK(row.plan->memory.weights == alone.weight_bytes);
      CHECK(row.plan->speed_up == Approx(alone.one_device_seconds / alone.cost_seconds));
      CHECK(row.plan->efficiency == Approx(row.plan->speed_up / ngpus));
      CHECK(*row.plan->tokens_a_second == Approx(2 / alone.cost_seconds));
      CHECK_FALSE(row.plan->price);
    }
  }
  CHECK(sizing.first_that_fits == 0);
  CHECK_FALSE(sizing.cheapest);
}

TEST_CASE("caches are told apart from weights and activations") {
  const Plan found = planner::plan(load_model(decoder), {.ngpus = 1});
  const RankMemory memory = rank_memory(found.contents());
  CHECK(memory.states == 4 * 4 * 30 * 8 * 4);  // 2 layers' keys and values, 4 heads of 8 floats
  CHECK(memory.activations > 0);
  CHECK(memory.peak() == found.summary().peak_bytes);
  CHECK_THAT(report_text(found), Contains(rank_memory_text(memory)));
  CHECK(rank_memory(planner::plan(load_model(mlp), {.ngpus = 2}).contents()).states == 0);
}

TEST_CASE("a model that no single device has room for fits several, and a row says why") {
  const TemporaryFolder folder;
  const Model model = load_model(mlp);
  const std::int64_t needed = planner::plan(model, {.ngpus = 1}).summary().peak_bytes;
  const std::string small = device_file(folder, "small", static_cast<double>(needed) * 0.75);
  const Sizing sizing = size(model, {}, {.ngpus = {1, 2, 4}, .devices = {small}});
  CHECK_FALSE(sizing.rows[0].plan);
  CHECK_THAT(sizing.rows[0].reason, StartsWith("needs ") && Contains("a device, which has"));
  CHECK_THAT(sizing.rows[0].refusal, Contains("nothing fits a memory limit"));
  CHECK(sizing.rows[1].plan);
  CHECK(sizing.rows[2].plan);
  CHECK(sizing.first_that_fits == 1);
  CHECK_THAT(sizing_text(sizing), Contains("none: needs") && Contains("the first that fits"));
  const auto told = nlohmann::json::parse(sizing_json(sizing));
  CHECK(told["rows"][0].contains("refusal"));
  CHECK(told["rows"][1]["first_that_fits"] == true);
}

TEST_CASE("what --memory allows beyond the device is told not to fit") {
  const TemporaryFolder folder;
  const std::string tiny = device_file(folder, "tiny", 1000);
  const Sizing sizing =
      size(load_model(mlp), {.memory = "1GiB"}, {.ngpus = {1}, .devices = {tiny, "l4"}});
  REQUIRE(sizing.rows[0].plan);
  CHECK_FALSE(sizing.rows[0].plan->fits);
  CHECK(sizing.first_that_fits == 1);
  CHECK_THAT(sizing_text(sizing), Contains("exceeds the device's memory"));
}

TEST_CASE("a device that a number does not fit is refused in its row alone") {
  const Sizing sizing =
      size(load_model(mlp), {.mesh = "auto"}, {.ngpus = {2, 12}, .devices = {"h100-cluster"}});
  CHECK(sizing.rows[0].plan);
  CHECK_THAT(sizing.rows[1].reason, Contains("12 devices fill no whole number of nodes"));
}

TEST_CASE("prices are of a million tokens, or of runs where there are none") {
  const Sizing runs = size(load_model(mlp), {},
                           {.ngpus = {1, 2}, .devices = {"h100", "l4"}, .prices = {{"l4", 0.5}}});
  CHECK_FALSE(runs.counts_tokens);
  CHECK_FALSE(runs.rows[0].plan->price);
  const double seconds = runs.rows[3].plan->summary.cost_seconds;
  CHECK(*runs.rows[3].plan->price == Approx(2 * 0.5 * seconds / 3600 * 1e6));
  REQUIRE(runs.cheapest);
  CHECK(*runs.cheapest == (*runs.rows[2].plan->price <= *runs.rows[3].plan->price ? 2 : 3));
  const Sizing tokens =
      size(load_model(decoder), {}, {.ngpus = {1}, .devices = {"l4"}, .prices = {{"l4", 0.5}}});
  const SizedPlan& only = *tokens.rows[0].plan;
  CHECK(*only.price == Approx(0.5 / 3600 / *only.tokens_a_second * 1e6));
  CHECK_THAT(sizing_text(tokens), Contains("1M tokens") && Contains("the cheapest"));
}

TEST_CASE("tokens are those of input_ids, of all profiles by weight") {
  ModelOptions two = decoder;
  two.shapes = {"batch=3", "sequence=1,16", "past_sequence=31,0"};
  const Model model = load_model(two);
  CHECK(tokens_of_run(model.contents(), 0) == 3);
  CHECK(tokens_of_run(model.contents(), 1) == 48);
  CHECK_FALSE(tokens_of_run(load_model(mlp).contents(), 0));
}

TEST_CASE("lists and prices that make no sense are refused") {
  CHECK(refusal_of({.ngpus = {1, 2}, .devices = {"h100"}}).empty());
  CHECK_THAT(refusal_of({.ngpus = {2, 2}, .devices = {"h100"}}), Contains("--ngpus has 2 twice"));
  CHECK_THAT(refusal_of({.ngpus = {0, 2}, .devices = {"h100"}}), Contains("--ngpus 0"));
  CHECK_THAT(refusal_of({.ngpus = {1}, .devices = {"h100", "h99"}}), Contains("'h99'"));
  CHECK_THAT(refusal_of({.ngpus = {1}, .devices = {"h100"}, .prices = {{"l4", 1}}}),
             Contains("--price l4"));
  CHECK_THAT(refusal_of({.ngpus = {1, 4}, .devices = {"h100"}}, {.mesh = "2x2"}),
             Contains("--mesh 2x2"));
  CHECK(parse_prices("h100=2.5,a=b.json=1") ==
        std::map<std::string, double>{{"h100", 2.5}, {"a=b.json", 1}});
  for (const char* bad : {"", "h100", "h100=", "=2", "h100=x", "h100=2,", "h100=2 "})
    CHECK_THROWS_WITH(parse_prices(bad), StartsWith("--price ") && Contains("DEVICE=PRICE"));
  CHECK_THROWS_WITH(parse_prices("l4=1,l4=2"), Contains("twice"));
}
