#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "planner/find_plan.h"
#include "planner/report/page_files.h"
#include "planner/report/report_data.h"
#include "planner/report/report_page.h"
#include "planner/report/timeline.h"
#include "unit/planner/samples.h"

using namespace autopar;
using namespace autopar::planner;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

const std::filesystem::path models = std::filesystem::path(AUTOPAR_SOURCE_DIR) / "models/tiny";

Plan plan_of(const std::string& model, std::vector<std::string> shapes,
             const PlanOptions& options) {
  return planner::plan(
      load_model({.file = models / model / "model.onnx", .shapes = std::move(shapes)}), options);
}

json data_of(const Plan& plan) {
  const FoundPlan& found = plan.contents();
  ReportedPlan reported{.model = "m", .plan = json::parse(plan_json(plan)), .profiles = {}};
  for (std::size_t p = 0; p < found.profiles.size(); ++p)
    reported.profiles.push_back({found.model->profiles[p].binding, found.model->profiles[p].weight,
                                 &found.profiles[p].plan, &found.profiles[p].device});
  return report_data(reported);
}

double sum_of(const json& list, const char* field) {
  double sum = 0;
  for (const json& each : list) sum += each.at(field).get<double>();
  return sum;
}

const Plan& gpt2_on_four() {
  static const Plan found = plan_of("gpt2-dynamo", {"input_ids=1x16"}, {.ngpus = 4});
  return found;
}

std::string joined(const json& texts) {
  std::string text;
  for (const json& each : texts) text += (text.empty() ? "" : ",") + each.get<std::string>();
  return text;
}

}  // namespace

TEST_CASE("a report has every operator with the strategy that plan.json tells") {
  const json data = data_of(gpt2_on_four());
  const json& flow = data.at("profiles").at(0).at("flow");
  std::map<std::string, json> by_name;
  const json plan_file = json::parse(plan_json(gpt2_on_four()));
  for (const json& entry : plan_file.at("operators"))
    if (entry.contains("inputs")) by_name[entry.at("name")] = entry;
  const json& operators = flow.at("operators");
  REQUIRE(operators.at("name").size() == by_name.size());
  for (std::size_t i = 0; i < by_name.size(); ++i) {
    const json& entry = by_name.at(operators.at("name").at(i));
    const auto place = [&](const char* field) { return operators.at(field).at(i).get<int>(); };
    CHECK(flow.at("op_types").at(place("op_type")) == entry.at("op_type"));
    const std::string text = flow.at("strategies").at(place("strategy")).at("text");
    const std::string plain = joined(entry.at("inputs")) + "->" + joined(entry.at("outputs"));
    CHECK(text.substr(0, plain.size()) == plain);
  }
}

TEST_CASE("a report's seconds and bytes add up to what the plan predicts") {
  const json data = data_of(gpt2_on_four());
  const json& profile = data.at("profiles").at(0);
  const json& summary = data.at("plan").at("summary");
  const double cost = summary.at("cost_seconds");
  const double communication = summary.at("communication_seconds");
  CHECK(sum_of(profile.at("cost_by_type"), "seconds") == Approx(cost).epsilon(1e-3));
  CHECK(sum_of(profile.at("flow").at("moves"), "seconds") == Approx(communication));
  CHECK(profile.at("timeline").at("microseconds").get<double>() ==
        Approx(cost * 1e6).epsilon(1e-3));

  const json& stage = profile.at("flow").at("stages").at(0);
  CHECK(sum_of(stage.at("blocks"), "seconds") == Approx(cost - communication));
  // Every move is in a block or on an edge.
  double told = 0;
  for (const char* part : {"blocks", "edges"})
    for (const json& each : stage.at(part)) told += sum_of(each.at("collectives"), "seconds");
  CHECK(told == Approx(communication));

  const json& memory = profile.at("memory");
  REQUIRE(memory.at("ranks").size() == 4);
  std::int64_t peak = 0;
  for (const json& rank : memory.at("ranks")) {
    peak = std::max(peak, rank.at("peak_bytes").get<std::int64_t>());
    const json& curve = memory.at("curves").at(rank.at("curve").get<int>());
    std::int64_t top = 0;
    for (const json& bytes : curve.at("bytes")) top = std::max(top, bytes.get<std::int64_t>());
    CHECK(top == rank.at("weight_bytes").get<std::int64_t>() +
                     rank.at("activation_bytes").get<std::int64_t>());
  }
  CHECK(peak == summary.at("peak_bytes"));
}

TEST_CASE("a pipeline's report has its stages, and profiles have a report each") {
  const json stages = data_of(
      plan_of("gpt2-dynamo", {"input_ids=2x16"}, {.ngpus = 4, .stages = "2", .microbatches = 2}));
  const json& profile = stages.at("profiles").at(0);
  CHECK(profile.at("flow").at("stages").size() == 2);
  CHECK(profile.at("memory").at("ranks").size() == 4);
  CHECK(profile.at("timeline").at("lanes").dump().find("ranks 2-3 receives") != std::string::npos);

  const json two = data_of(plan_of("gpt2-dynamo", {"sequence=1,16"}, {.ngpus = 2}));
  REQUIRE(two.at("profiles").size() == 2);
  CHECK(two.at("profiles").at(1).at("binding") == "sequence=16");
}

TEST_CASE("the report of a bundle is that of the plan it was made of") {
  const TemporaryFolder folder;
  const std::filesystem::path bundle = folder.path() / "bundle";
  write_bundle(gpt2_on_four(), {.out = bundle});
  const std::filesystem::path of_plan = folder.path() / "plan.html";
  const std::filesystem::path of_bundle = folder.path() / "bundle.html";
  save_report(gpt2_on_four(), {.file = of_plan});
  save_report(bundle, {.file = of_bundle});
  CHECK(testing::bytes_of_file(of_bundle) == testing::bytes_of_file(of_plan));
}

TEST_CASE("a bundle that does not hold its model is refused") {
  const TemporaryFolder folder;
  const std::filesystem::path bundle = folder.path() / "bundle";
  write_bundle(
      plan_of("gpt2-dynamo", {"input_ids=2x16"}, {.ngpus = 2, .stages = "2", .microbatches = 2}),
      {.out = bundle});
  CHECK_THROWS_WITH(save_report(bundle, {.file = folder.path() / "x.html"}),
                    Contains("give --report to plan"));
  CHECK_FALSE(exists(folder.path() / "x.html"));
}

TEST_CASE("options of a report are checked together") {
  const TemporaryFolder folder;
  const std::filesystem::path trace = folder.path() / "trace.json";
  std::ofstream(trace) << R"({"traceEvents": [{"ph": "X"}]})";
  try {
    check_report_options({.file = folder.path() / "no" / "x.html", .measured = trace});
    FAIL("nothing was wrong");
  } catch (const std::exception& error) {
    CHECK_THAT(error.what(), Contains("--report"));
    CHECK_THAT(error.what(), Contains("no trace of run --profile"));
  }
  save_simulation(gpt2_on_four(), trace);
  check_report_options({.file = folder.path() / "x.html", .measured = trace});
  CHECK_FALSE(exists(folder.path() / "x.html"));
  const Plan on_two = plan_of("mlp-dynamo", {"x=8x48"}, {.ngpus = 2});
  CHECK_THROWS_WITH(save_report(on_two, {.file = folder.path() / "x.html", .measured = trace}),
                    Contains("not of a run of all 2 ranks"));
}

TEST_CASE("a name cannot end the script that holds the data") {
  const std::string name = "</script><!--<script>alert(1)</script>&\"'\\\n\x01\u2028]]>";
  const std::string text = json_in_script({{"name", name}});
  CHECK(text.find_first_of("<>&\n\x01") == std::string::npos);
  CHECK(text.find("\u2028") == std::string::npos);
  CHECK(json::parse(text).at("name") == name);
  const std::string page = report_page({{"kind", name}});
  CHECK(page.find("alert(1)</script>") == std::string::npos);
  CHECK_THAT(page, Contains(std::string(page_files::page_js().substr(0, 200))));
}

TEST_CASE("neighbours of a long run are one bar, of one kind and microbatch") {
  using std::chrono::nanoseconds;
  std::vector<runtime::Span> spans;
  for (int i = 0; i < 30000; ++i)
    spans.push_back({runtime::Queue::computation, "n" + std::to_string(i), "Op",
                     nanoseconds(1000 * i), nanoseconds(1000), std::nullopt, i < 15001 ? 0 : 1});
  const std::vector<std::vector<runtime::Span>> by_rank{spans};
  const std::vector<TimelineRank> ranks{{.rank = 0, .last = 3}};
  const json told = timeline_json(by_rank, ranks);
  CHECK(told.at("joined") == 2);
  const json& lane = told.at("lanes").at(0);
  CHECK(lane.at("name") == "ranks 0-3");
  CHECK(lane.at("begin").size() == 15001);  // the last of microbatch 0 is alone, and of 1
  CHECK(lane.at("duration").at(0) == 2.0);
  CHECK(told.at("microseconds") == 30000.0);
  CHECK(type_costs_json(by_rank, ranks).at(0).at("seconds") == Approx(0.03));
}
