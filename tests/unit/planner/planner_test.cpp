#include "planner/planner.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/problems.h"
#include "base/temporary_folder.h"
#include "bundle/meta_info.h"
#include "planner/load_model.h"

using namespace autopar;
using namespace autopar::planner;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

const std::filesystem::path models = std::filesystem::path(AUTOPAR_SOURCE_DIR) / "models/tiny";
const ModelOptions mlp{.file = models / "mlp-dynamo/model.onnx", .shapes = {"x=8x48"}};

std::vector<std::string> lines_of(const std::function<void()>& refused) {
  try {
    refused();
  } catch (const SeveralErrors& errors) {
    return errors.lines();
  } catch (const Error& error) {
    return {error.what()};
  }
  return {};
}

/// What was begun and not ended yet, what was begun at all, and how far it came.
struct Told {
  struct Line final : ProgressListener {
    explicit Line(Told& of) : told(of) { ++told.open; }
    ~Line() override { --told.open; }
    void expect(std::int64_t whole, Unit unit) override {
      told.expected[unit] = whole;
      told.unit = unit;
    }
    void note_done(std::int64_t more) override { told.done[told.unit] += more; }
    void note_gap(double) override {}
    Told& told;
  };

  std::vector<std::string> begun;
  int open = 0;
  ProgressListener::Unit unit = ProgressListener::Unit::nodes;
  std::map<ProgressListener::Unit, std::int64_t> expected;
  std::map<ProgressListener::Unit, std::atomic<std::int64_t>> done;  ///< by several threads
  Progress progress() {
    return [this](const std::string& what) {
      begun.push_back(what);
      return std::make_shared<Line>(*this);
    };
  }
};

}  // namespace

TEST_CASE("a model is loaded, planned and written, with progress told at each step") {
  const TemporaryFolder folder;
  Told progress;
  ModelOptions options = mlp;
  options.progress = progress.progress();
  const Model model = load_model(options);
  CHECK(operators_without_kernel(model).empty());

  const Plan found = plan(model, {.ngpus = 2, .progress = progress.progress()});
  CHECK(found.summary().ranks == 2);
  CHECK(found.summary().stages == 1);
  CHECK(found.summary().proven_optimal);
  CHECK(found.summary().cost_seconds > 0);
  CHECK(found.summary().lower_bound_seconds <= found.summary().cost_seconds);
  CHECK(found.summary().peak_bytes > found.summary().weight_bytes);
  CHECK(found.summary().one_device_bytes > found.summary().weight_bytes);

  const std::string told =
      write_bundle(found, {.out = folder / "bundle", .progress = progress.progress()});
  CHECK_THAT(told, StartsWith("mesh 2, device h200") && Contains("over all ranks"));
  const bundle::MetaInfo info = bundle::load_meta_info(folder / "bundle");
  CHECK(info.model == "model.onnx");
  CHECK(info.ranks.size() == 2);
  CHECK(info.cost_seconds == found.summary().cost_seconds);
  CHECK(info.ranks.front().peak_bytes == found.summary().peak_bytes);

  CHECK(progress.open == 0);
  REQUIRE(progress.begun.size() == 3);
  CHECK_THAT(progress.begun[0], StartsWith("reading "));
  CHECK(progress.begun[1] == "searching for the best plan");
  CHECK_THAT(progress.begun[2], StartsWith("writing "));
  using Unit = ProgressListener::Unit;
  CHECK(progress.expected[Unit::nodes] > 0);
  CHECK(progress.done[Unit::nodes] == progress.expected[Unit::nodes]);
  CHECK(progress.done[Unit::bytes] >= progress.expected[Unit::bytes]);
}

TEST_CASE("what is assumed of shapes is told by the model, its plan and its bundle") {
  CHECK(load_model(mlp).assumed().empty());
  const Model model = load_model({.file = mlp.file});
  CHECK(model.assumed() == "batch 1");
  const Plan found = plan(model, {.ngpus = 2});
  const std::string line = "Assumed: batch 1; --shape binds others\nmesh 2";
  CHECK_THAT(report_text(found), StartsWith(line));
  const TemporaryFolder folder;
  CHECK_THAT(write_bundle(found, {.out = folder / "bundle"}), StartsWith(line));
}

TEST_CASE("a plan outlives the model that it was made from") {
  const Plan found = [] { return plan(load_model(mlp), {.ngpus = 2}); }();
  CHECK_THAT(report_text(found), StartsWith("mesh 2") && Contains("Gemm"));
  const auto json = nlohmann::json::parse(plan_json(found));
  CHECK(json.at("mesh") == std::vector<int>{2});
  CHECK(json.at("operators").size() > 3);
}

TEST_CASE(
    "stages and microbatches are planned, of a batch that is a multiple and of one that is not") {
  const int microbatches = GENERATE(2, 3);
  ModelOptions options = mlp;
  options.shapes = {GENERATE("x=8x48", "batch=8")};
  const TemporaryFolder folder;
  const Plan found =
      plan(load_model(options),
           {.ngpus = 2, .memory = "device", .stages = "2", .microbatches = microbatches});
  CHECK(found.summary().stages == 2);
  write_bundle(found, {.out = folder / "bundle"});
  const bundle::MetaInfo info = bundle::load_meta_info(folder / "bundle");
  CHECK(info.microbatches == microbatches);
  REQUIRE(info.profiles.front().inputs.front().batch);
  CHECK(info.profiles.front().inputs.front().batch->rows == (microbatches == 2 ? 4 : 3));
  CHECK(info.profiles.front().inputs.front().shape == graph::Shape{8, 48});
}

TEST_CASE("a batch that cannot be cut so is refused with one that can") {
  const Model model = load_model(mlp);
  CHECK_THROWS_WITH(plan(model, {.ngpus = 1, .microbatches = 5}),
                    "--microbatches 5: a batch of 8 makes 4 of 2; give 4");
}

TEST_CASE("all that is wrong with options is told at once, names in the model's file among it") {
  const TemporaryFolder folder;
  std::ofstream(folder / "pins.json") << R"({"operators": [{"name": "no_such_operator"}]})";
  const auto lines = lines_of([&] {
    check_options({.file = mlp.file, .shapes = {"z=1x48"}},
                  {.ngpus = 0,
                   .memory = "much",
                   .strategy = folder / "pins.json",
                   .time_limit_seconds = -1,
                   .stages = "none",
                   .microbatches = 0},
                  [] { fail("what the caller found"); });
  });
  const auto is_told = [&](const std::string& part) {
    return std::ranges::any_of(
        lines, [&](const auto& line) { return line.find(part) != std::string::npos; });
  };
  for (const char* part :
       {"--ngpus 0", "--memory", "--time-limit -1", "--stages none", "--microbatches 0",
        "what the caller found", "no_such_operator", "--shape z=1x48"}) {
    INFO(part);
    CHECK(is_told(part));
  }
  CHECK(lines.size() == 8);
}

TEST_CASE("options that the command line would not let through are refused by name") {
  CHECK_THROWS_WITH(check_options(mlp, {.ngpus = 2, .search = "luck"}),
                    "--search luck: give ilp, propagation or recursive");
  CHECK_THROWS_WITH(check_options(mlp, {.ngpus = 2, .objective = "fame"}),
                    "--objective fame: give latency or throughput");
  CHECK_THROWS_WITH(check_options(mlp, {.ngpus = 2, .search = "recursive", .presolve = false}),
                    Contains("--search ilp alone"));
  CHECK_THROWS_WITH(check_options(mlp, {.ngpus = 2, .mesh = "2x2"}), Contains("make them equal"));
  CHECK_THROWS_WITH(check_options(mlp, {.ngpus = 2, .batch = {"x"}}),
                    "--batch x: give --microbatches, too");
  CHECK_NOTHROW(check_options(mlp, {.ngpus = 2}));
}

TEST_CASE("where the model is refused, names of the plan's options that it lacks are told, too") {
  const auto lines = lines_of([] {
    load_model({.file = mlp.file, .shapes = {"x=8x47"}},
               {.ngpus = 2, .microbatches = 2, .batch = {"nobody"}});
  });
  REQUIRE(lines.size() == 2);
  CHECK_THAT(lines[1], Contains("nobody"));
}

TEST_CASE(
    "an operator is explained by the candidates that it has, and a plan compared with itself") {
  const TemporaryFolder folder;
  const Model model = load_model(mlp);
  const std::string text = explain(model, {.ngpus = 2}, "*");
  CHECK_THAT(text, Contains("candidates") && Contains("chosen"));
  CHECK(nlohmann::json::parse(explain(model, {.ngpus = 2}, "*", /*json=*/true)).is_object());
  CHECK_THROWS_WITH(explain(model, {.ngpus = 2, .stages = "2"}, "*"),
                    Contains("--explain *") && Contains("one stage"));

  std::ofstream(folder / "plan.json") << plan_json(plan(model, {.ngpus = 2}));
  CHECK_THAT(compare(folder / "plan.json", folder / "plan.json"),
             Contains("every operator and tensor is split alike"));
}

TEST_CASE("a simulation is written as a trace with every rank's steps") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "trace.json";
  CHECK_NOTHROW(check_trace_file(file));
  CHECK_THROWS_WITH(check_trace_file(folder / "missing" / "trace.json"), Contains("--simulate"));
  CHECK_FALSE(std::filesystem::exists(file));
  save_simulation(plan(load_model(mlp), {.ngpus = 2}), file);
  std::ifstream stream(file);
  const auto trace = nlohmann::json::parse(stream);
  std::set<int> ranks;
  for (const auto& event : trace.at("traceEvents")) ranks.insert(event.at("pid").get<int>());
  CHECK(ranks == std::set<int>{0, 1});
}

TEST_CASE("a name that JSON cannot have is an Error, and nothing is written") {
  const TemporaryFolder folder;
  LoadedModel loaded{.options = mlp, .profiles = {}};
  loaded.profiles.push_back({.graph = load_graph(mlp).graph});
  loaded.profiles.front().graph.nodes.front().name = "\xff";
  const Model model(std::make_shared<const LoadedModel>(std::move(loaded)));
  const Plan found = plan(model, {.ngpus = 2});
  CHECK_THROWS_WITH(plan_json(found), Contains("not UTF-8"));
  CHECK_THROWS_AS(write_bundle(found, {.out = folder / "bundle"}), Error);
  CHECK_THROWS_AS(save_simulation(found, folder / "trace.json"), Error);
  CHECK(std::filesystem::is_empty(folder.path()));
}
