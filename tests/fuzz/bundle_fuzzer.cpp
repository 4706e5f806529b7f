// Inputs are JSON: which of the sample bundles, a JSON patch (RFC 6902) of its meta-info.json, and
// graphs of ranks that are changed, by a number for the mutator of models:
//
//     {"bundle": "stages", "meta-info": [{"op": "remove", "path": "/groups/0"}],
//      "graphs": {"rank1.onnx": 17}}
//
// All digests are made anew, as by somebody who wants to do harm.

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file_digest.h"
#include "base/temporary_folder.h"
#include "bundle/meta_info.h"
#include "bundle_edits.h"
#include "fuzzer.h"
#include "graph/onnx/onnx_import.h"
#include "model_mutator.h"
#include "onnx/defs/parser.h"
#include "runtime/load_shard.h"
#include "unit/planner/samples.h"

namespace autopar::fuzz {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::Sample;

/// Long beside what such a run takes, and short beside what an input may take: changed ranks may
/// wait for each other.
constexpr std::chrono::seconds timeout(4);
constexpr std::int64_t most_bytes_to_run = std::int64_t{16} << 20;
constexpr std::size_t most_edits = 12;

std::string digest_of(const std::string& bytes) {
  Xxh3Stream stream;
  stream.add(std::as_bytes(std::span(bytes)));
  return stream.digest();
}

onnx::ModelProto parsed_text(const std::string& graph) {
  onnx::ModelProto model;
  const std::string text = "<ir_version: 8, opset_import: [\"\" : 18]> sample " + graph;
  require(onnx::OnnxParser::Parse(model, text.c_str()).IsOK(), "a sample is a model");
  return model;
}

/// Takes one operation of a patch, if what it speaks of is there.
void apply(const json& edit, json& document) {
  try {
    const json::json_pointer at(edit.at("path").get<std::string>());
    // The library asserts it, where others of its errors are exceptions.
    if (!at.empty() && document.at(at.parent_pointer()).is_structured())
      document.patch_inplace(json::array({edit}));
  } catch (const json::exception&) {
    return;
  }
}

/// One of the samples, as a folder that each input changes and that is put back before the next.
class SampleBundle {
 public:
  explicit SampleBundle(Sample sample) : sample_(std::move(sample)) {
    sample_.options.file = folder_ / "model.onnx";
    sample_.plan.memory = "16MiB";
    testing::write_file(sample_.options.file, parsed_text(sample_.model).SerializeAsString());
    planner::write_bundle(planner::plan(planner::load_model(sample_.options), sample_.plan),
                          {.out = bundle()});
    meta_info_ = json::parse(testing::bytes_of_file(bundle() / "meta-info.json"));
    for (const auto& entry : fs::directory_iterator(bundle())) {
      const std::string name = entry.path().filename();
      if (name.starts_with("rank") && name.ends_with(".onnx"))
        graphs_.emplace(name, testing::bytes_of_file(entry.path()));
    }
    right_ = testing::outputs_of(sample_, bundle());
  }

  const std::string& name() const { return sample_.name; }
  const json& meta_info() const { return meta_info_; }
  const std::map<std::string, std::string>& graphs() const { return graphs_; }

  /// Edits the bundle and runs it.
  void attempt(const json& patch, const json& changed_graphs) {
    json edited = meta_info_;
    for (const auto& [name, seed] : changed_graphs.items()) change_graph(name, seed, edited);
    for (const json& edit : patch) apply(edit, edited);
    testing::write_file(bundle() / "meta-info.json",
                        edited.is_object() ? bundle::sealed_text(edited) : edited.dump());
    if (!changed_graphs.empty()) {
      if (is_small()) testing::outputs_of(sample_, bundle(), timeout);
      put_back();
      return;
    }
    const std::string outputs = testing::outputs_of(sample_, bundle(), timeout);
    require(are_some_of(outputs, right_), ("outputs are right: " + outputs).c_str());
  }

  void put_back() {
    for (const std::string& name : changed_) testing::write_file(bundle() / name, graphs_.at(name));
    changed_.clear();
  }

 private:
  fs::path bundle() const { return folder_ / "bundle"; }

  void change_graph(const std::string& name, const json& seed, json& meta_info) {
    const auto graph = graphs_.find(name);
    if (graph == graphs_.end() || !seed.is_number_unsigned()) fail("{} is no graph", name);
    onnx::ModelProto model;
    require(model.ParseFromString(graph->second), "a shard is a model");
    mutate(model, seed.get<unsigned>());
    const std::string bytes = model.SerializeAsString();
    testing::write_file(bundle() / name, bytes);
    changed_.push_back(name);
    for (json& rank : meta_info.at("ranks"))
      for (json& file : rank.at("files"))
        if (file.at("name") == name)
          file.update({{"bytes", bytes.size()}, {"xxh3", digest_of(bytes)}});
  }

  /// Whether the shards are such that a run takes little. Throws Error as loading them does.
  bool is_small() const {
    const bundle::MetaInfo info = bundle::load_meta_info(bundle());
    std::int64_t bytes = 0;
    for (const bundle::RankInfo& rank : info.ranks)
      for (std::size_t profile = 0; profile < info.profiles.size(); ++profile) {
        const graph::Graph shard = runtime::load_shard(info, profile, bundle(), rank.rank);
        for (const graph::Value& value : shard.values) {
          const std::int64_t more = graph::bytes_of(value.type, graph::num_elements(value.shape));
          if (more > most_bytes_to_run || (bytes += more) > most_bytes_to_run) return false;
        }
      }
    return true;
  }

  /// Nothing but meta-info tells which tensors that a tail reads are outputs, too: some may lack.
  bool are_some_of(const std::string& some, const std::string& all) const {
    if (meta_info_.at("tail").is_null()) return some == all;
    std::istringstream outputs(some);
    for (std::string output; std::getline(outputs, output, ';');)
      if (all.find(output + ";") == std::string::npos) return false;
    return true;
  }

  Sample sample_;
  TemporaryFolder folder_;
  json meta_info_;
  std::map<std::string, std::string> graphs_;  ///< ranks', by file
  std::vector<std::string> changed_;
  std::string right_;  ///< the outputs of the bundle as it is
};

std::vector<std::unique_ptr<SampleBundle>> made_bundles() {
  std::vector<std::unique_ptr<SampleBundle>> made;
  for (Sample& sample : testing::sample_bundles())
    made.push_back(std::make_unique<SampleBundle>(std::move(sample)));
  return made;
}

const std::vector<std::unique_ptr<SampleBundle>>& bundles() {
  static const std::vector<std::unique_ptr<SampleBundle>> all = made_bundles();
  return all;
}

SampleBundle* find_bundle(const json& name) {
  for (const auto& each : bundles())
    if (name == each->name()) return each.get();
  return nullptr;
}

/// With the fields of an input; null where the bytes are none.
json parsed(const std::uint8_t* data, std::size_t size) {
  json input = json::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
  const bool is_input = input.is_object() && input.value("meta-info", json()).is_array() &&
                        input.value("graphs", json()).is_object() &&
                        find_bundle(input.value("bundle", json())) != nullptr;
  return is_input ? input : json();
}

void change(json& input, std::mt19937& random) {
  const SampleBundle& bundle = *find_bundle(input.at("bundle"));
  json& patch = input.at("meta-info");
  json& graphs = input.at("graphs");
  if (!patch.empty() && (patch.size() > most_edits || random() % 4 == 0))
    patch.erase(random() % patch.size());
  if (!graphs.empty() && random() % 3 == 0) graphs = json::object();
  if (random() % 3 == 0) {
    const auto graph = std::next(bundle.graphs().begin(),
                                 static_cast<std::ptrdiff_t>(random() % bundle.graphs().size()));
    graphs[graph->first] = random() % 100000;
  } else {
    add_edit(patch, bundle.meta_info(), random);
  }
}

}  // namespace

void try_input(Bytes input) {
  const json told = parsed(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  if (told.is_null()) fail("no edits of a bundle");
  SampleBundle& bundle = *find_bundle(told.at("bundle"));
  try {
    bundle.attempt(told.at("meta-info"), told.at("graphs"));
  } catch (const Error&) {
    bundle.put_back();
    throw;
  }
}

}  // namespace autopar::fuzz

/// What libFuzzer asks for, by name.
// NOLINTNEXTLINE(readability-identifier-naming)
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  std::mt19937 random(seed);
  nlohmann::json input = autopar::fuzz::parsed(data, size);
  const auto& bundles = autopar::fuzz::bundles();
  if (input.is_null() || random() % 32 == 0)
    input = {{"bundle", bundles[random() % bundles.size()]->name()},
             {"meta-info", nlohmann::json::array()},
             {"graphs", nlohmann::json::object()}};
  autopar::fuzz::change(input, random);
  const std::string text =
      input.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  if (text.size() > most) return size;
  std::ranges::copy(text, data);
  return text.size();
}
