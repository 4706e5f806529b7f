#include "plan/plan_comparison.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/temporary_folder.h"

using namespace autopar;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

/// A plan of two layers with a product and a weight each, all whole.
json plan_of_two_layers() {
  json operators = json::array();
  for (const char* layer : {"0", "1"}) {
    const std::string name = std::string("h.") + layer;
    operators.push_back({{"name", name + ".weight"}, {"outputs", {"RR"}}});
    operators.push_back({{"name", "/" + name + "/MatMul"},
                         {"op_type", "MatMul"},
                         {"inputs", {"RR", "RR"}},
                         {"outputs", {"RR"}},
                         {"reductions", {"none"}}});
  }
  return {{"version", 1},
          {"mesh", {4}},
          {"device", "h200"},
          {"summary",
           {{"cost_seconds", 1.5},
            {"lower_bound_seconds", 1.0},
            {"proven_optimal", false},
            {"communication_seconds", 0.5},
            {"weight_bytes", 100},
            {"peak_bytes", 200}}},
          {"collectives",
           {{{"kind", "all-reduce"},
             {"mesh_axes", {0}},
             {"times", 2},
             {"bytes", 64},
             {"seconds", 0.25}}}},
          {"operators", operators}};
}

class PlanFiles {
 public:
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  plan::PlanFile load(const std::string& name, const json& plan) const {
    return plan::load_plan_file(write(name, plan.dump()));
  }
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_CASE("equal plans do not differ") {
  const PlanFiles files;
  const auto a = files.load("a.json", plan_of_two_layers());
  const auto comparison = compare_plans(a, a);
  CHECK(comparison.is_same_plan());
  CHECK(comparison.operators_compared == 2);
  REQUIRE(comparison.collectives);
  REQUIRE(comparison.collectives->size() == 1);
  const auto& use = comparison.collectives->begin()->second;
  CHECK(use.a == use.b);
  CHECK(a.predicted.cost_seconds == 1.5);
  CHECK(a.predicted.peak_bytes == 200);
}

TEST_CASE("operators that differ alike are one difference with a count") {
  const PlanFiles files;
  const auto a = files.load("a.json", plan_of_two_layers());
  json other = plan_of_two_layers();
  for (const std::size_t i : {1, 3}) {
    other["operators"][i]["inputs"] = {"RS0", "S0R"};
    other["operators"][i]["reductions"] = {"all-reduce"};
  }
  other["operators"][2]["outputs"] = {"S0R"};
  const auto b = files.load("b.json", other);
  const auto comparison = compare_plans(a, b);
  REQUIRE(comparison.operators.size() == 1);
  CHECK(comparison.operators[0].name == "/h.*/MatMul");
  CHECK(comparison.operators[0].op_type == "MatMul");
  CHECK(comparison.operators[0].count == 2);
  CHECK(comparison.operators[0].a == "RR,RR->RR");
  CHECK(comparison.operators[0].b == "RS0,S0R->RR all-reduce");
  REQUIRE(comparison.stored.size() == 1);
  CHECK(comparison.stored[0].name == "h.1.weight");
  CHECK(comparison.stored[0].a == "RR");
  CHECK(comparison.stored[0].b == "S0R");

  // Otherwise in another way: two differences.
  other["operators"][3]["reductions"] = {"reduce-scatter"};
  CHECK(compare_plans(a, files.load("b.json", other)).operators.size() == 2);
}

TEST_CASE("collectives of either plan are compared, by kind and axes") {
  const PlanFiles files;
  const auto a = files.load("a.json", plan_of_two_layers());
  json other = plan_of_two_layers();
  other["collectives"][0]["kind"] = "all-gather";
  const auto comparison = compare_plans(a, files.load("b.json", other));
  REQUIRE(comparison.collectives);
  REQUIRE(comparison.collectives->size() == 2);
  CHECK(comparison.collectives->begin()->first.first == "all-gather");
  const auto& gathers = comparison.collectives->begin()->second;
  CHECK(gathers.a.bytes == 0);
  CHECK(gathers.b.bytes == 64);
  const auto& reductions = comparison.collectives->rbegin()->second;
  CHECK(reductions.a.times == 2);
  CHECK(reductions.b.times == 0);
  const json text = json::parse(comparison_json(a, a, comparison));
  CHECK(text["collectives"][1]["a"]["bytes"] == 64);
  CHECK(text["a"]["cost_seconds"] == 1.5);
}

TEST_CASE("a plan without types and collectives is compared as far as it goes") {
  const PlanFiles files;
  const auto a = files.load("a.json", plan_of_two_layers());
  json older = plan_of_two_layers();
  older.erase("collectives");
  for (json& entry : older["operators"]) entry.erase("op_type");
  const auto comparison = compare_plans(a, files.load("b.json", older));
  CHECK(comparison.is_same_plan());
  CHECK_FALSE(comparison.collectives);
}

TEST_CASE("plans of different models or meshes are refused") {
  const PlanFiles files;
  const auto a = files.load("a.json", plan_of_two_layers());
  json mesh = plan_of_two_layers();
  mesh["mesh"] = {2, 2};
  CHECK_THROWS_WITH(compare_plans(a, files.load("b.json", mesh)),
                    Contains("mesh of 4") && Contains("2x2"));
  json more = plan_of_two_layers();
  more["operators"].push_back({{"name", "extra"}, {"inputs", {"R"}}, {"outputs", {"R"}}});
  const auto b = files.load("b.json", more);
  CHECK_THROWS_WITH(compare_plans(a, b), Contains("'extra'") && Contains("different models"));
  CHECK_THROWS_WITH(compare_plans(b, a), Contains("'extra'") && Contains("different models"));
  json type = plan_of_two_layers();
  type["operators"][1]["op_type"] = "Gemm";
  CHECK_THROWS_WITH(compare_plans(a, files.load("b.json", type)),
                    Contains("Gemm") && Contains("different models"));
}

TEST_CASE("what is no plan is refused with the file and the field") {
  const PlanFiles files;
  const auto refused = [&](const std::string& text) {
    try {
      plan::load_plan_file(files.write("bad.json", text));
    } catch (const Error& error) {
      CHECK_THAT(error.what(), Contains("bad.json"));
      return std::string(error.what());
    }
    return std::string("not refused");
  };
  CHECK_THAT(refused("{"), Contains("no JSON"));
  CHECK_THAT(refused(""), Contains("no JSON"));
  CHECK_THAT(refused("[1]"), Contains("no JSON object"));
  CHECK_THAT(refused("{}"), Contains("'version'"));
  for (const char* field : {"version", "mesh", "device", "summary", "operators"}) {
    json without = plan_of_two_layers();
    without.erase(field);
    CHECK_THAT(refused(without.dump()), Contains(field));
    json wrong = plan_of_two_layers();
    wrong[field] = nullptr;
    CHECK_THAT(refused(wrong.dump()), Contains(field));
  }
  json entry = plan_of_two_layers();
  entry["operators"][1]["outputs"] = "RR";
  CHECK_THAT(refused(entry.dump()), Contains("operators[1]") && Contains("'outputs'"));
  json summary = plan_of_two_layers();
  summary["summary"]["cost_seconds"] = "much";
  CHECK_THAT(refused(summary.dump()), Contains("'cost_seconds'"));
  CHECK_THROWS_WITH(plan::load_plan_file(files.folder() / "none.json"), Contains("none.json"));
  CHECK_THROWS_WITH(plan::load_plan_file(files.folder()), Contains("plan.json"));
}
