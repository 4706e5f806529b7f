#pragma once

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "base/temporary_folder.h"
#include "bundle/meta_info.h"
#include "graph/onnx/onnx_export.h"
#include "pipeline_sketch.h"
#include "runtime/session.h"
#include "runtime/trace.h"

namespace autopar::runtime::testing {

namespace fs = std::filesystem;

/// The sketch as a bundle: 8 rows in microbatches of 5, so that the last has 3. Input d is the same
/// for all microbatches.
class PipelineBundle {
 public:
  /// In a folder that ends with it, or in `dir`.
  explicit PipelineBundle(const std::function<void(bundle::MetaInfo&)>& spoil = {},
                          const fs::path& dir = {})
      : dir_(dir.empty() ? temporary_.path() : dir) {
    fs::create_directories(dir_);
    sketch_.first = split(sketch_.shape, 1, 0, {0, 3, 6});  // as specs split
    sketch_.third = split(sketch_.shape, 0, 3, {0, 2, 4, 5});
    info_.model = "sketch.onnx";
    info_.profiles.resize(1);
    info_.profiles.front().peak_bytes.resize(6);
    info_.microbatches = 2;
    for (std::size_t s = 0; s < sketch_.ranks.size(); ++s) {
      const auto& ranks = sketch_.ranks[s];
      info_.stages.push_back(
          {static_cast<int>(s), {{"axis0", static_cast<int>(ranks.size())}}, ranks, 0, 0});
      for (const int rank : ranks) add_rank(rank, rank - ranks.front(), static_cast<int>(s));
    }
    info_.profiles.front().inputs = {port("x", sketch_.first, {"RS0", "", ""}, true),
                                     port("c", sketch_.second, {"", "RR", ""}, true),
                                     port("d", sketch_.third, {"", "", "S0R"}, false)};
    info_.profiles.front().outputs = {port("y", sketch_.third, {"", "", "S0R"}, true),
                                      port("z", sketch_.third, {"", "", "S0R"}, true)};
    if (spoil) spoil(info_);
    std::ofstream(dir_ / "meta-info.json") << bundle::sealed_text(bundle::to_json(info_));
  }

  const fs::path& dir() const { return dir_; }
  const PipelineSketch& sketch() const { return sketch_; }

 private:
  bundle::PortInfo port(const std::string& name, const Layout& layout,
                        const std::vector<std::string>& specs, bool is_cut) const {
    bundle::PortInfo port{name, DataType::float32, sketch_.shape, specs, {}, {}};
    if (is_cut) {
      port.shape[0] = 8;
      port.batch = bundle::BatchInfo{0, 5};
    }
    port.ranges.resize(6);
    for (const auto& [rank, box] : layout) port.ranges[static_cast<std::size_t>(rank)] = box;
    return port;
  }

  void add_rank(int rank, int place, int stage) {
    Graph graph = sketch_.of_rank(rank);
    graph.opsets = {{"", 18}, {graph::collective_domain, 1}};
    const std::string name = "rank" + std::to_string(rank);
    const auto written = graph::save_onnx(graph, dir_ / (name + ".onnx"), dir_ / (name + ".data"));
    info_.ranks.push_back(
        {rank, stage, {place}, {{name + ".onnx", written.model.bytes, written.model.xxh3}}, 0, 0});
    auto& transfers = info_.profiles.front().transfers;
    for (const graph::Node& node : graph.nodes) {
      if (node.op_type != "Send") continue;
      const std::string& value = graph.value(node.inputs[0]).name;
      auto transfer = std::ranges::find_if(transfers, [&](const auto& each) {
        return each.value == value && each.from_stage == stage;
      });
      if (transfer == transfers.end())
        transfer = transfers.insert(transfer, bundle::TransferInfo{value, stage, {}});
      const auto peers = node.ints_attribute("peers", {});
      const auto starts = node.ints_attribute("starts", {});
      const auto ends = node.ints_attribute("ends", {});
      for (std::size_t m = 0; m < peers.size(); ++m)
        transfer->messages.push_back(
            {rank, static_cast<int>(peers[m]),
             (ends[2 * m] - starts[2 * m]) * (ends[2 * m + 1] - starts[2 * m + 1]) * 4});
    }
  }

  TemporaryFolder temporary_;
  fs::path dir_;
  PipelineSketch sketch_;
  bundle::MetaInfo info_;
};

inline NamedTensors random_batch(std::mt19937& random) {
  NamedTensors inputs;
  for (const char* name : {"x", "c"})
    inputs[name] = random_in(DataType::float32, {8, 6}, random, -1, 1);
  inputs["d"] = random_in(DataType::float32, {5, 6}, random, -1, 1);
  return inputs;
}

/// y and z by hand.
inline std::map<std::string, std::vector<double>> expected_of(const NamedTensors& inputs) {
  std::map<std::string, std::vector<double>> expected;
  for (std::size_t i = 0; i < 48; ++i) {
    const double x = number_at(inputs.at("x"), i);
    const double k = std::tanh(x) + number_at(inputs.at("c"), i);
    expected["y"].push_back(k * -x);
    expected["z"].push_back(k + number_at(inputs.at("d"), i % 30));
  }
  return expected;
}

/// Two runs, and one that is profiled.
const RunOptions profiled{.repeat = 2, .profile = true};

/// What is wrong with the result of `profiled` runs; empty where nothing is.
inline std::string what_is_wrong(const RunResult& result, const NamedTensors& inputs) {
  for (const auto& [name, numbers] : expected_of(inputs)) {
    const Tensor& out = result.outputs.at(name);
    if (out.shape() != Shape{8, 6}) return name + " has another shape";
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (std::abs(number_at(out, i) - numbers[i]) > 1e-5)
        return "element " + std::to_string(i) + " of " + name + " is another";
  }
  // For both microbatches: three values of two ranks, and two values to three ranks.
  const std::vector<bundle::CollectiveTotal> sent = {{"send", {}, 2 * (6 + 6), 2 * (360 + 240)}};
  if (result.collectives != sent) return "other messages are counted";
  if (result.spans.size() != 6 || !is_pipeline(result.spans)) return "the profile is another";
  return {};
}

}  // namespace autopar::runtime::testing
