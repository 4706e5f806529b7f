#include "bundle/meta_info.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "graph/error.h"
#include "graph/file_digest.h"

using namespace autopar;
using namespace autopar::bundle;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

/// A bundle of one rank with two small files, in a folder of its own.
class SmallBundle {
 public:
  SmallBundle() : dir(fs::temp_directory_path() / "autopar-meta-info-test") {
    fs::remove_all(dir);
    fs::create_directories(dir);
    info.model = "model.onnx";
    info.mesh = {{"axis0", 1}};
    info.stages = {{0, {0}}};
    RankInfo rank;
    rank.coordinates = {0};
    for (const char* name : {"rank0.onnx", "rank0.data"}) {
      write(name, std::string("contents of ") + name);
      rank.files.push_back({name, fs::file_size(dir / name), graph::xxh3_of_file(dir / name)});
    }
    info.ranks = {rank};
    info.groups = {{{0}, {{0}}}};
    info.inputs = {{"x", graph::DataType::float32, {2, 3}, "RR", {{{0, 2}, {0, 3}}}}};
    info.outputs = {{"y", graph::DataType::float16, {}, ".", {{}}}};
    info.collectives = {{"all-reduce", {0}, 4, 1024}};
    info.device = "cpu";
    info.search = "ilp";
    info.cost_seconds = 0.5;
    info.lower_bound_seconds = 0.25;
    save(to_json(info));
  }
  ~SmallBundle() { fs::remove_all(dir); }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(dir / name) << text;
  }
  void save(const nlohmann::json& json) const { write("meta-info.json", json.dump()); }

  fs::path dir;
  MetaInfo info;
};

}  // namespace

TEST_CASE("meta-info is read as it was written") {
  const SmallBundle bundle;
  CHECK(to_json(load_meta_info(bundle.dir)) == to_json(bundle.info));
}

TEST_CASE("a missing or malformed field of meta-info is named") {
  const SmallBundle bundle;
  const nlohmann::json whole = to_json(bundle.info);
  for (const auto& [field, value] : whole.items()) {
    nlohmann::json without = whole;
    without.erase(field);
    bundle.save(without);
    CHECK_THROWS_WITH(load_meta_info(bundle.dir), Contains("'" + field + "'"));
    nlohmann::json malformed = whole;
    malformed[field] = nullptr;
    bundle.save(malformed);
    CHECK_THROWS_AS(load_meta_info(bundle.dir), Error);
  }
}

TEST_CASE("another version of meta-info is refused") {
  const SmallBundle bundle;
  nlohmann::json other = to_json(bundle.info);
  other["version"] = 99;
  bundle.save(other);
  CHECK_THROWS_WITH(load_meta_info(bundle.dir), Contains("99"));
}

TEST_CASE("a file name that leaves the bundle is refused") {
  const SmallBundle bundle;
  nlohmann::json other = to_json(bundle.info);
  other["ranks"][0]["files"][0]["name"] = "../rank0.onnx";
  bundle.save(other);
  CHECK_THROWS_WITH(load_meta_info(bundle.dir), Contains("../rank0.onnx"));
}

TEST_CASE("a range beyond its shape is refused") {
  const SmallBundle bundle;
  nlohmann::json other = to_json(bundle.info);
  other["inputs"][0]["ranges"][0][1] = {0, 4};
  bundle.save(other);
  CHECK_THROWS_WITH(load_meta_info(bundle.dir), Contains("ranges"));
}

TEST_CASE("files as written pass; a missing, shortened, changed or foreign one does not") {
  const SmallBundle bundle;
  REQUIRE_NOTHROW(check_files(bundle.info, bundle.dir));
  SECTION("missing") { fs::remove(bundle.dir / "rank0.data"); }
  SECTION("shortened") { bundle.write("rank0.data", "contents"); }
  SECTION("changed") { bundle.write("rank0.data", "Contents of rank0.data"); }
  SECTION("foreign") { bundle.write("rank0.data2", ""), bundle.write("rank1.data", ""); }
  CHECK_THROWS_WITH(check_files(bundle.info, bundle.dir), Contains(".data"));
}

TEST_CASE("collectives of the same kind and axes are added up, others kept apart and sorted") {
  std::vector<CollectiveTotal> totals;
  add_collective(totals, {"all-reduce", {1}, 1, 10});
  add_collective(totals, {"all-gather", {0}, 1, 5});
  add_collective(totals, {"all-reduce", {0}, 2, 7});
  add_collective(totals, {"all-reduce", {1}, 3, 30});
  CHECK(totals == std::vector<CollectiveTotal>{{"all-gather", {0}, 1, 5},
                                               {"all-reduce", {0}, 2, 7},
                                               {"all-reduce", {1}, 4, 40}});
}
