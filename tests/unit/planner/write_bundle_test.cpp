#include "planner/write_bundle.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/interruption.h"
#include "base/staged_folder.h"
#include "base/temporary_folder.h"
#include "cost/cost_model.h"
#include "graph/onnx/onnx_import.h"
#include "runtime/rank_run.h"
#include "runtime/session.h"
#include "runtime/tensor_files.h"
#include "unit/bundle/json_schema.h"
#include "unit/planner/bundle_checker.h"
#include "unit/program/random_graph.h"

using namespace autopar;
using namespace autopar::planner;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

/// y = x w, w of 16 x 600 split by columns.
struct SmallModel {
  graph::Graph graph;
  plan::Plan plan;

  explicit SmallModel(float scale = 1) {
    Random random(1);
    graph.opsets[""] = 18;
    const auto add = [&](const char* name, graph::Shape shape) {
      return graph.add_value({name, graph::DataType::float32, std::move(shape), std::nullopt});
    };
    const auto x = add("x", {2, 16});
    const auto y = add("y", {2, 600});
    const auto w = graph.add_constant("w", random_floats(random, {16, 600}, scale));
    graph.nodes.push_back({"product", "MatMul", "", {x, w}, {y}, {}});
    graph.inputs = {x};
    graph.outputs = {y};
    plan.mesh = sharding::DeviceMesh({3});
    plan.device = "cpu";
    const auto rule = sharding::sharding_rule(graph, graph.nodes[0]);
    for (const auto& choice : sharding::enumerate_op_shard_specs(
             *rule, plan.mesh, sharding::input_shapes(graph, graph.nodes[0]),
             sharding::output_shapes(graph, graph.nodes[0]))) {
      if (to_string(choice) == "RR,RS0->RS0") plan.operators = {choice};
    }
    plan.stored.emplace(x, sharding::TensorShardSpec::parse("RR"));
    plan.stored.emplace(w, sharding::TensorShardSpec::parse("RS0"));
  }

  bundle::MetaInfo write(const fs::path& out, bool force = false) const {
    return write_bundle(graph, {}, {plan::one_stage_plan(graph, plan), {}},
                        cost::load_device_model("cpu"),
                        {.out = out, .model_name = "small.onnx", .force = force});
  }
};

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}
using Names = std::vector<std::string>;

std::string text_in(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Files of this process may not grow beyond some bytes, as on a full disk.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    previous_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &previous_);
    const rlimit limit{bytes, previous_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &previous_);
    std::signal(SIGXFSZ, previous_handler_);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

 private:
  rlimit previous_{};
  void (*previous_handler_)(int) = nullptr;
};

}  // namespace

TEST_CASE("a bundle has a shard a rank, plan.json, meta-info.json and a secret, and nothing else") {
  const TemporaryFolder folder;
  const bundle::MetaInfo written = SmallModel().write(folder / "out");
  CHECK(names_in(folder.path()) == Names{"out"});
  CHECK(names_in(folder / "out") == Names{"meta-info.json", "plan.json", "rank0.data", "rank0.onnx",
                                          "rank1.data", "rank1.onnx", "rank2.data", "rank2.onnx",
                                          "secret"});
  CHECK(fs::status(folder / "out" / "secret").permissions() ==
        (fs::perms::owner_read | fs::perms::owner_write));
  const bundle::MetaInfo read = bundle::load_meta_info(folder / "out");
  CHECK(to_json(read) == to_json(written));
  CHECK(meta_info_schema().accepts(to_json(read)));
  CHECK_NOTHROW(bundle::check_files(read, folder / "out"));
  for (const bundle::RankInfo& rank : read.ranks) CHECK(rank.weight_bytes == 16 * 200 * 4);
}

TEST_CASE("a rank without large weights has no data file") {
  SmallModel model;
  model.graph.value(2).constant =
      model.graph.value(2).constant->slice(std::vector<graph::Range>{{0, 16}, {0, 12}});
  model.graph.value(2).shape = {16, 12};
  model.graph.value(1).shape = {2, 12};
  const TemporaryFolder folder;
  const bundle::MetaInfo info = model.write(folder / "out");
  CHECK(info.ranks[0].files.size() == 1);
  CHECK(names_in(folder / "out") ==
        Names{"meta-info.json", "plan.json", "rank0.onnx", "rank1.onnx", "rank2.onnx", "secret"});
}

TEST_CASE("the same plan gives the same files, and another secret") {
  const TemporaryFolder folder;
  SmallModel().write(folder / "a");
  SmallModel().write(folder / "b");
  for (const std::string& name : names_in(folder / "a")) {
    CHECK((text_in(folder / "a" / name) == text_in(folder / "b" / name)) == (name != "secret"));
  }
}

TEST_CASE("an existing bundle is replaced with force alone") {
  const TemporaryFolder folder;
  SmallModel().write(folder / "out");
  const std::string before = text_in(folder / "out" / "rank0.data");
  CHECK_THROWS_WITH(SmallModel(2).write(folder / "out"), Contains("--force"));
  CHECK(text_in(folder / "out" / "rank0.data") == before);
  SmallModel(2).write(folder / "out", /*force=*/true);
  CHECK(text_in(folder / "out" / "rank0.data") != before);
  CHECK_NOTHROW(bundle::check_files(bundle::load_meta_info(folder / "out"), folder / "out"));
  CHECK(names_in(folder.path()) == Names{"out"});
}

TEST_CASE("what is no bundle is never replaced") {
  const TemporaryFolder folder;
  const fs::path out = folder / "out";
  SECTION("a folder of something else") {
    fs::create_directory(out);
    std::ofstream(out / "thesis.tex") << "years of work";
  }
  SECTION("an empty folder") { fs::create_directory(out); }
  SECTION("a file") { std::ofstream(out) << "years of work"; }
  SECTION("a link to nowhere") { fs::create_symlink("nowhere", out); }
  for (const bool force : {false, true}) {
    CHECK_THROWS_WITH(SmallModel().write(out, force), Contains("is no bundle"));
  }
  CHECK(names_in(folder.path()) == Names{"out"});
  if (fs::is_directory(out) && !fs::is_empty(out)) CHECK(fs::exists(out / "thesis.tex"));
}

TEST_CASE("a folder that cannot be is refused before anything is written") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(check_output_folder({.out = folder / "missing" / "out"}),
                    Contains("missing") && Contains("make it first"));
  CHECK_THROWS_AS(check_output_folder({.out = ""}), Error);
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("a slash at the end and a link to the bundle mean the bundle") {
  const TemporaryFolder folder;
  SmallModel().write(folder / "out/");
  fs::create_symlink("out", folder / "link");
  SmallModel(2).write(folder / "link", /*force=*/true);
  CHECK(fs::is_symlink(folder / "link"));
  CHECK_NOTHROW(bundle::check_files(bundle::load_meta_info(folder / "out"), folder / "out"));
  CHECK(names_in(folder.path()) == Names{"link", "out"});
}

TEST_CASE("a full disk leaves nothing behind, and an old bundle as it was") {
  const TemporaryFolder folder;
  SmallModel().write(folder / "old");
  const std::string before = text_in(folder / "old" / "rank0.data");
  for (const rlim_t bytes : {rlim_t{100}, rlim_t{600}, rlim_t{8192}}) {
    const SmallDisk disk(bytes);
    CHECK_THROWS_WITH(SmallModel(2).write(folder / "new"), Contains("new.partial"));
    CHECK_THROWS_AS(SmallModel(2).write(folder / "old", /*force=*/true), Error);
  }
  CHECK(names_in(folder.path()) == Names{"old"});
  CHECK(text_in(folder / "old" / "rank0.data") == before);
  CHECK_NOTHROW(bundle::check_files(bundle::load_meta_info(folder / "old"), folder / "old"));
}

TEST_CASE("an interruption leaves nothing behind") {
  const TemporaryFolder folder;
  struct sigaction before {};
  sigaction(SIGTERM, nullptr, &before);
  {
    StagedFolder staged(folder / "out");
    std::ofstream(staged.path() / "half") << "half a shard";
    CHECK_NOTHROW(check_interruption());
    std::raise(SIGTERM);
    CHECK_THROWS_WITH(check_interruption(), Contains("interrupted"));
    CHECK_THROWS_WITH(staged.publish(), Contains("interrupted"));
  }
  CHECK(names_in(folder.path()).empty());
  struct sigaction after {};
  sigaction(SIGTERM, nullptr, &after);
  CHECK(after.sa_handler == before.sa_handler);
  CHECK_NOTHROW(SmallModel().write(folder / "out"));
}

TEST_CASE("a weight without data cannot be written, and nothing is left behind") {
  SmallModel model;
  model.graph.value(2).constant = graph::Tensor::absent(graph::DataType::float32, {16, 600});
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(model.write(folder / "out"), Contains("'w'") && Contains("absent"));
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("what a killed process left beside the place is removed, what is not ours stays") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "out.partial-0123456789abcdef");
  fs::create_directory(folder / "out.partial-results");
  SmallModel().write(folder / "out");
  CHECK(names_in(folder.path()) == Names{"out", "out.partial-results"});
}

TEST_CASE("a bundle with files of others is not replaced, nor one that gets some meanwhile") {
  const TemporaryFolder folder;
  SmallModel().write(folder / "out");
  const std::string before = text_in(folder / "out" / "rank0.data");
  SECTION("a file") { std::ofstream(folder / "out" / "thesis.tex") << "years of work"; }
  SECTION("a folder") { fs::create_directory(folder / "out" / "rank7.data"); }
  CHECK_THROWS_WITH(SmallModel(2).write(folder / "out", /*force=*/true),
                    Contains("no file of a bundle"));
  CHECK(text_in(folder / "out" / "rank0.data") == before);
  CHECK(names_in(folder.path()) == Names{"out"});
}

TEST_CASE("bundles of random plans hold to what a stranger finds, and run from their files") {
  const auto mesh = GENERATE(as<std::string>{}, "1", "3", "2x2", "2x3");
  for (unsigned seed = 0; seed < 25; ++seed) {
    INFO("mesh " << mesh << ", seed " << seed);
    Random random(seed);
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 2, 14));
    const plan::Plan plan = random_plan(random, graph, sharding::DeviceMesh::parse(mesh));
    const TemporaryFolder folder;
    const bundle::MetaInfo info = write_bundle(graph, {}, {plan::one_stage_plan(graph, plan), {}},
                                               cost::load_device_model("cpu"),
                                               {.out = folder / "out", .model_name = "random"});
    CHECK(meta_info_schema().accepts(to_json(info)));
    stranger::BundleChecker(folder / "out").check(graph);

    runtime::NamedTensors inputs;
    for (const auto id : graph.inputs) {
      inputs.emplace(graph.value(id).name, random_input(random, graph.value(id)));
    }
    const runtime::DeviceOptions device_options{.threads = 1};
    const auto sharded = runtime::Session(folder / "out", {.device = device_options}).run(inputs);
    const auto whole = runtime::run_whole(graph, inputs, device_options);
    for (const auto& [name, tensor] : whole) {
      CHECK(runtime::largest_relative_error(tensor, sharded.outputs.at(name)) < 1e-3);
    }
    CHECK(bundle::to_json(sharded.collectives) ==
          bundle::to_json(info.profiles.front().collectives));
    for (std::size_t rank = 0; rank < info.ranks.size(); ++rank) {
      CHECK(sharded.peak_bytes[rank] <= info.ranks[rank].peak_bytes);
    }
  }
}
