#include <catch2/catch.hpp>
#include <fstream>

#include "base/file_digest.h"
#include "base/temporary_folder.h"
#include "bundle/meta_info.h"
#include "unit/bundle/json_schema.h"

using namespace autopar;
using namespace autopar::bundle;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

/// One rank makes "y" and what the tail reads, "h"; the tail makes "z".
struct BundleWithTail {
  BundleWithTail() {
    info.model = "model.onnx";
    info.stages = {{0, {{"axis0", 1}}, {0}, 0.25, 0}};
    info.ranks = {{0, 0, {0}, {written("rank0.onnx")}, 100, 300}};
    ProfileInfo& profile = info.profiles.emplace_back();
    profile.peak_bytes = {300};
    for (const char* name : {"y", "h"})
      profile.outputs.push_back(
          {name, graph::DataType::float32, {2, 3}, {"RR"}, {}, {{{{0, 2}, {0, 3}}}}});
    info.device = "cpu";
    info.search = "ilp";
    TailInfo& tail = info.tail.emplace();
    tail.files = {written("tail.onnx")};
    tail.summary = {.inputs = {"h"},
                    .outputs = {{"z", graph::DataType::int64, {{std::nullopt, 4}}},
                                {"w", graph::DataType::float32, std::nullopt}},
                    .model_outputs = {"z", "y", "w"},
                    .nodes = 2,
                    .first_node = "node 'n' (NonZero)",
                    .reason = "the shape of its output is not known",
                    .weight_bytes = 40,
                    .weight_share = 0.5,
                    .work_share = 0.25};
    save(to_json(info));
  }

  FileInfo written(const std::string& name) const {
    std::ofstream(dir / name) << name;
    return {name, name.size(), xxh3_of_file(dir / name)};
  }
  void save(const json& contents) const {
    std::ofstream(dir / "meta-info.json") << sealed_text(contents);
  }
  MetaInfo load() const { return load_meta_info(dir.path()); }

  TemporaryFolder dir;
  MetaInfo info;
};

}  // namespace

TEST_CASE("a tail comes back as it was written, and without one nothing is told") {
  const BundleWithTail bundle;
  const json written = to_json(bundle.info);
  CHECK(written["version"] == 7);
  CHECK(meta_info_schema().accepts(written));
  CHECK(to_json(bundle.load()) == written);
  CHECK_NOTHROW(check_common_files(bundle.info.tail->files, bundle.dir.path()));
}

TEST_CASE("a bundle without a tail has none") {
  BundleWithTail bundle;
  bundle.info.tail.reset();
  bundle.save(to_json(bundle.info));
  CHECK(to_json(bundle.info)["tail"].is_null());
  CHECK_FALSE(bundle.load().tail);
}

TEST_CASE("the model's outputs are told in its order, whoever makes them") {
  const BundleWithTail bundle;
  std::string text;
  for (const auto& output : model_outputs(bundle.info, bundle.info.profiles.front()))
    text += output.name + " " + dims_text(output) + ", ";
  CHECK(text == "z ?x4, y 2x3, w of any shape, ");
}

TEST_CASE("a tail that reads or promises what nothing makes, or whose file changed, is an error") {
  const BundleWithTail bundle;
  for (const char* field : {"inputs", "model_outputs"}) {
    json broken = to_json(bundle.info);
    broken["tail"][field].push_back("nowhere");
    bundle.save(broken);
    CHECK_THROWS_WITH(bundle.load(), Contains("'nowhere', which nothing makes"));
  }
  json without = to_json(bundle.info);
  without.erase("tail");
  bundle.save(without);
  CHECK_THROWS_WITH(bundle.load(), Contains("field 'tail' is missing"));
  std::ofstream(bundle.dir / "tail.onnx") << "tail.0nnx";
  CHECK_THROWS_WITH(check_common_files(bundle.info.tail->files, bundle.dir.path()),
                    Contains("tail.onnx was changed"));
}
