#include "bundle/meta_info.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "base/error.h"
#include "base/file_digest.h"
#include "base/temporary_folder.h"
#include "unit/bundle/json_schema.h"

using namespace autopar;
using namespace autopar::bundle;
using nlohmann::json;
namespace fs = std::filesystem;
using Catch::Matchers::Contains;

namespace {

/// A bundle of two ranks with two small files each, in a folder of its own.
class SmallBundle {
 public:
  SmallBundle() {
    info.model = "model.onnx";
    info.stages = {{0, {{"axis0", 2}}, {0, 1}, 0.25, 0}};
    for (int rank = 0; rank < 2; ++rank) {
      RankInfo& of_rank = info.ranks.emplace_back();
      of_rank.rank = rank;
      of_rank.coordinates = {rank};
      of_rank.weight_bytes = 100;
      of_rank.peak_bytes = 300;
      for (const char* ending : {".onnx", ".data"}) {
        const std::string name = "rank" + std::to_string(rank) + ending;
        write(name, "contents of " + name);
        of_rank.files.push_back({name, fs::file_size(dir / name), xxh3_of_file(dir / name)});
      }
    }
    info.groups = {{0, {0}, {{0, 1}}}};
    ProfileInfo& profile = info.profiles.emplace_back();
    profile.peak_bytes = {300, 300};
    profile.inputs = {{"x",
                       graph::DataType::float32,
                       {5, 3},
                       {"RS0"},
                       BatchInfo{0, 3},
                       {{{{0, 3}, {0, 2}}}, {{{0, 3}, {2, 3}}}}}};
    using Ranges = std::vector<graph::Range>;
    profile.outputs = {{"y", graph::DataType::float16, {}, {"."}, {}, {Ranges{}, Ranges{}}}};
    profile.collectives = {{"all-reduce", {0}, 4, 1024}};
    info.device = "cpu";
    info.search = "ilp";
    info.microbatches = 2;
    info.cost_seconds = 0.5;
    info.lower_bound_seconds = 0.25;
    save(to_json(info));
  }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(dir / name) << text;
  }
  /// With a digest of its own.
  void save(const json& contents) const {
    write("meta-info.json", contents.is_object() ? sealed_text(contents) : contents.dump());
  }

  TemporaryFolder dir;
  MetaInfo info;
};

/// Calls `visit` with a pointer to every value inside.
template <typename Visit>
void for_each_value(const json& value, const json::json_pointer& at, const Visit& visit) {
  visit(at);
  if (value.is_object()) {
    for (const auto& [name, inner] : value.items()) for_each_value(inner, at / name, visit);
  }
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) for_each_value(value[i], at / i, visit);
  }
}

/// A port may have no batch, a rank no part of it, and a bundle no tail.
bool may_be_null(const json::json_pointer& at) {
  const json::json_pointer parent = at.parent_pointer();
  return at.back() == "batch" || at.back() == "tail" ||
         (!parent.empty() && parent.back() == "ranges");
}

}  // namespace

TEST_CASE("meta-info is read as it was written") {
  const SmallBundle bundle;
  CHECK(to_json(load_meta_info(bundle.dir.path())) == to_json(bundle.info));
}

TEST_CASE("every missing or malformed field of meta-info is named") {
  const SmallBundle bundle;
  const json whole = to_json(bundle.info);
  for_each_value(whole, json::json_pointer(), [&](const json::json_pointer& at) {
    if (at.empty() || !whole.at(at.parent_pointer()).is_object() || at.back() == "digest") return;
    INFO(at.to_string());
    const std::string field = "'" + at.back() + "'";
    json without = whole;
    without.at(at.parent_pointer()).erase(at.back());
    bundle.save(without);
    CHECK_THROWS_WITH(load_meta_info(bundle.dir.path()), Contains(field) && Contains("missing"));
    for (const json& value : {json(nullptr), json(json::object({{"a", 1}})), json(-1), json(1.5)}) {
      if (value.is_null() && may_be_null(at)) continue;
      if (value.is_number() && whole.at(at).is_number_float()) continue;
      json malformed = whole;
      malformed.at(at) = value;
      bundle.save(malformed);
      CHECK_THROWS_WITH(load_meta_info(bundle.dir.path()),
                        Contains(at.back()) && Contains("meta-info.json"));
    }
  });
}

TEST_CASE("what is not JSON, or not there, is refused") {
  const SmallBundle bundle;
  bundle.write("meta-info.json", "{\"version\": 1");
  CHECK_THROWS_WITH(load_meta_info(bundle.dir.path()), Contains("is no JSON"));
  bundle.save(json::array());
  CHECK_THROWS_WITH(load_meta_info(bundle.dir.path()), Contains("is no JSON object"));
  fs::remove(bundle.dir / "meta-info.json");
  CHECK_THROWS_WITH(load_meta_info(bundle.dir.path()), Contains("cannot be read"));
}

TEST_CASE("parts of meta-info that do not fit together are refused") {
  const SmallBundle bundle;
  json other = to_json(bundle.info);
  SECTION("a mesh of another size") { other["stages"][0]["mesh"][0]["size"] = 3; }
  SECTION("ranks out of order") { std::swap(other["ranks"][0], other["ranks"][1]); }
  SECTION("an input of fewer ranks") { other["profiles"][0]["inputs"][0]["ranges"].erase(1); }
  SECTION("a range beyond its shape") {
    other["profiles"][0]["inputs"][0]["ranges"][1][1] = {2, 4};
  }
  SECTION("a range too few") { other["profiles"][0]["inputs"][0]["ranges"][1].erase(1); }
  SECTION("a rank of another stage") { other["ranks"][1]["stage"] = 1; }
  SECTION("a stage that lacks a rank") { other["stages"][0]["ranks"] = {0}; }
  SECTION("a rank in two stages") { other["stages"].push_back(other["stages"][0]); }
  SECTION("an input on no rank") {
    other["profiles"][0]["inputs"][0]["ranges"] = {nullptr, nullptr};
  }
  SECTION("a batch of another dimension") { other["profiles"][0]["inputs"][0]["batch"]["dim"] = 2; }
  SECTION("no microbatch") { other["microbatches"] = 0; }
  SECTION("microbatches of too few rows") { other["microbatches"] = 1; }
  SECTION("a stage of no ranks") {
    other["stages"].push_back(other["stages"][0]);
    other["stages"][1]["stage"] = 1;
    other["stages"][1]["ranks"] = json::array();
    other["stages"][1]["mesh"][0]["size"] = 0;
  }
  SECTION("a message within a stage") {
    const json message = {{"from", 0}, {"to", 1}, {"bytes", 8}};
    other["profiles"][0]["transfers"] = {
        {{"value", "h"}, {"from_stage", 0}, {"messages", {message}}}};
  }
  json& input = other["profiles"][0]["inputs"][0];
  SECTION("a range of another rank") { std::swap(input["ranges"][0], input["ranges"][1]); }
  SECTION("ranges that leave a gap") { input["ranges"][0][1] = {0, 1}; }
  SECTION("a spec of an axis that the mesh has not") { input["specs"][0] = "RS1"; }
  SECTION("a spec of other dimensions") { input["specs"][0] = "S0"; }
  SECTION("a spec that is none") { input["specs"][0] = "rank"; }
  SECTION("values that are partial") { input["specs"][0] = "RS0+P1"; }
  SECTION("a shape whose size fits no integer") {
    input["shape"] = {5, std::int64_t{1} << 62, std::int64_t{1} << 62};
  }
  SECTION("a microbatch without a row") { other["microbatches"] = 3; }
  SECTION("two inputs of one name") {
    other["profiles"][0]["inputs"].push_back(other["profiles"][0]["inputs"][0]);
  }
  SECTION("profiles of other inputs") {
    other["profiles"].push_back(other["profiles"][0]);
    other["profiles"][1]["inputs"].erase(0);
  }
  SECTION("a rank at another place") { other["ranks"][0]["coordinates"] = {1}; }
  SECTION("groups that the mesh has not") { other["groups"][0]["ranks"] = {{0}, {1}}; }
  SECTION("groups along an axis that is none") { other["groups"][0]["mesh_axes"] = {1}; }
  SECTION("a mesh of too many devices") { other["stages"][0]["mesh"][0]["size"] = 1 << 30; }
  SECTION("two ranks' files exchanged") {
    std::swap(other["ranks"][0]["files"], other["ranks"][1]["files"]);
  }
  SECTION("more weights than memory") { other["ranks"][0]["weight_bytes"] = 301; }
  SECTION("bytes that nothing has") { other["plan"]["memory_limit_bytes"] = std::int64_t{1} << 62; }
  SECTION("a state of no input") { other["states"] = {{{"output", "y"}, {"input", "z"}}}; }
  SECTION("a structure without the plan") {
    other["structure"] = {other["ranks"][0]["files"][0], other["ranks"][0]["files"][0]};
    other["structure"][0]["name"] = "structure.onnx";
    other["structure"][1]["name"] = "device.json";
    other["microbatches"] = 1;
    input["batch"] = nullptr;
    input["ranges"] = {{{0, 5}, {0, 2}}, {{0, 5}, {2, 3}}};
  }
  SECTION("a rank without files") { other["ranks"][1]["files"] = json::array(); }
  bundle.save(other);
  CHECK_THROWS_AS(load_meta_info(bundle.dir.path()), Error);
}

TEST_CASE("the schema accepts meta-info as it is written and nothing less, more or else") {
  const SmallBundle bundle;
  const JsonSchema schema = meta_info_schema();
  const json whole = to_json(bundle.info);
  REQUIRE(schema.accepts(whole));
  for_each_value(whole, json::json_pointer(), [&](const json::json_pointer& at) {
    INFO(at.to_string());
    json other = whole;
    other.at(at) = nullptr;
    if (!at.empty() && may_be_null(at)) {
      CHECK(schema.accepts(other));
    } else {
      CHECK_FALSE(schema.accepts(other));
    }
    if (whole.at(at).is_object()) {
      json more = whole;
      more.at(at)["surplus"] = 1;
      CHECK_FALSE(schema.accepts(more));
    }
    if (!at.empty() && whole.at(at.parent_pointer()).is_object()) {
      json less = whole;
      less.at(at.parent_pointer()).erase(at.back());
      CHECK_FALSE(schema.accepts(less));
    }
    if (whole.at(at).is_number()) {
      json negative = whole;
      negative.at(at) = -1;
      CHECK_FALSE(schema.accepts(negative));
    }
  });
}

TEST_CASE("another version of meta-info is refused, one without a digest, too") {
  const SmallBundle bundle;
  for (const int version : {5, 99}) {
    json other = to_json(bundle.info);
    other["version"] = version;
    other.erase("digest");
    bundle.write("meta-info.json", other.dump());
    CHECK_THROWS_WITH(
        load_meta_info(bundle.dir.path()),
        Contains(std::to_string(version) + ", but this build reads 7; partition the model again"));
  }
}

TEST_CASE("a meta-info of another digest is refused, however it is laid out") {
  const SmallBundle bundle;
  json other = to_json(bundle.info);
  other["model"] = "nodel.onnx";
  for (const int indent : {-1, 2}) {
    bundle.write("meta-info.json", other.dump(indent));
    CHECK_THROWS_WITH(load_meta_info(bundle.dir.path()),
                      Contains("meta-info.json was changed after it was written"));
  }
  std::string text = sealed_text(other);
  bundle.write("meta-info.json", text);
  CHECK(load_meta_info(bundle.dir.path()).model == "nodel.onnx");
  text += " ";
  bundle.write("meta-info.json", text);
  CHECK_THROWS_AS(load_meta_info(bundle.dir.path()), Error);
}

TEST_CASE("all files that meta-info knows are looked at") {
  SmallBundle bundle;
  bundle.write("plan.json", "{}");
  bundle.info.files = {{"plan.json", 2, xxh3_of_file(bundle.dir / "plan.json")}};
  CHECK_NOTHROW(check_all_files(bundle.info, bundle.dir.path()));
  bundle.write("plan.json", "[]");
  bundle.write("rank1.data", "");
  CHECK_THROWS_WITH(check_all_files(bundle.info, bundle.dir.path()),
                    Contains("plan.json was changed") && Contains("rank1.data has 0 bytes"));
}

TEST_CASE("a file name that leaves the bundle is refused") {
  const SmallBundle bundle;
  for (const char* name : {"../rank0.onnx", "/etc/passwd", "inside/rank0.onnx", "..", ""}) {
    json other = to_json(bundle.info);
    other["ranks"][0]["files"][0]["name"] = name;
    bundle.save(other);
    CHECK_THROWS_WITH(load_meta_info(bundle.dir.path()),
                      Contains("'" + std::string(name) + "'") && Contains("rank 0"));
  }
}

TEST_CASE("files as written pass; a missing, shortened, changed or foreign one is named") {
  const SmallBundle bundle;
  REQUIRE_NOTHROW(check_files(bundle.info, bundle.dir.path()));
  std::string named = "rank1.data";
  std::string what;
  SECTION("missing") {
    fs::remove(bundle.dir / "rank1.data");
    what = "missing";
  }
  SECTION("shortened") {
    bundle.write("rank1.data", "contents");
    what = "has 8 bytes but was written with 22";
  }
  SECTION("changed") {
    bundle.write("rank1.data", "Contents of rank1.data");
    what = "was changed";
  }
  SECTION("foreign") {
    bundle.write("rank2.data", "");
    named = "rank2.data";
    what = "no file of this bundle";
  }
  CHECK_THROWS_WITH(check_files(bundle.info, bundle.dir.path()), Contains(named) && Contains(what));
  CHECK_THROWS_WITH(check_files(bundle.info, bundle.dir.path(), 1),
                    Contains(named) && Contains(what));
  if (named == "rank1.data") {
    CHECK_NOTHROW(check_files(bundle.info, bundle.dir.path(), 0));
  }
}

TEST_CASE("files beside a bundle's own that are no shards do no harm") {
  const SmallBundle bundle;
  bundle.write("plan.json", "{}");
  bundle.write("ranking.txt", "");
  CHECK_NOTHROW(check_files(bundle.info, bundle.dir.path()));
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
