#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "graph/error.h"
#include "graph/onnx_export.h"
#include "pipeline_sketch.h"
#include "runtime/run_bundle.h"
#include "unit/runtime/tcp_world.h"

namespace autopar::runtime {
namespace {

using namespace testing;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

/// The sketch as a bundle: 8 rows in microbatches of 5, so that the last has 3. Input d is the same
/// for all microbatches.
class PipelineBundle {
 public:
  explicit PipelineBundle(const std::function<void(bundle::MetaInfo&)>& spoil = {}) {
    fs::remove_all(dir_);
    fs::create_directory(dir_);
    info_.model = "sketch.onnx";
    info_.microbatches = 2;
    for (std::size_t s = 0; s < sketch_.ranks.size(); ++s) {
      const auto& ranks = sketch_.ranks[s];
      info_.stages.push_back(
          {static_cast<int>(s), {{"axis0", static_cast<int>(ranks.size())}}, ranks, 0, 0});
      for (const int rank : ranks) add_rank(rank, static_cast<int>(s));
    }
    info_.inputs = {port("x", sketch_.first, true), port("c", sketch_.second, true),
                    port("d", sketch_.third, false)};
    info_.outputs = {port("y", sketch_.third, true), port("z", sketch_.third, true)};
    if (spoil) spoil(info_);
    std::ofstream(dir_ / "meta-info.json") << bundle::to_json(info_).dump();
  }
  ~PipelineBundle() { fs::remove_all(dir_); }
  PipelineBundle(const PipelineBundle&) = delete;
  PipelineBundle& operator=(const PipelineBundle&) = delete;

  const fs::path& dir() const { return dir_; }
  const PipelineSketch& sketch() const { return sketch_; }

 private:
  bundle::PortInfo port(const std::string& name, const Layout& layout, bool is_cut) const {
    bundle::PortInfo port{name, DataType::float32, sketch_.shape, "RR", {}, {}};
    if (is_cut) {
      port.shape[0] = 8;
      port.batch = bundle::BatchInfo{0, 5};
    }
    port.ranges.resize(6);
    for (const auto& [rank, box] : layout) port.ranges[static_cast<std::size_t>(rank)] = box;
    return port;
  }

  void add_rank(int rank, int stage) {
    Graph graph = sketch_.of_rank(rank);
    graph.opsets = {{"", 18}, {graph::collective_domain, 1}};
    const std::string name = "rank" + std::to_string(rank);
    const auto written = graph::save_onnx(graph, dir_ / (name + ".onnx"), dir_ / (name + ".data"));
    info_.ranks.push_back(
        {rank, stage, {0}, {{name + ".onnx", written.model.bytes, written.model.xxh3}}, 0, 0});
    for (const graph::Node& node : graph.nodes) {
      if (node.op_type != "Send") continue;
      const std::string& value = graph.value(node.inputs[0]).name;
      auto transfer = std::ranges::find_if(info_.transfers, [&](const auto& each) {
        return each.value == value && each.from_stage == stage;
      });
      if (transfer == info_.transfers.end())
        transfer = info_.transfers.insert(transfer, {value, stage, stage + 1, {}});
      const auto peers = node.ints_attribute("peers", {});
      const auto starts = node.ints_attribute("starts", {});
      const auto ends = node.ints_attribute("ends", {});
      for (std::size_t m = 0; m < peers.size(); ++m)
        transfer->messages.push_back(
            {rank, static_cast<int>(peers[m]),
             (ends[2 * m] - starts[2 * m]) * (ends[2 * m + 1] - starts[2 * m + 1]) * 4});
    }
  }

  fs::path dir_ = fs::temp_directory_path() / ("autopar_pipeline_" + std::to_string(getpid()));
  PipelineSketch sketch_;
  bundle::MetaInfo info_;
};

NamedTensors random_batch(std::mt19937& random) {
  NamedTensors inputs;
  for (const char* name : {"x", "c"})
    inputs[name] = random_in(DataType::float32, {8, 6}, random, -1, 1);
  inputs["d"] = random_in(DataType::float32, {5, 6}, random, -1, 1);
  return inputs;
}

/// y and z by hand.
std::map<std::string, std::vector<double>> expected_of(const NamedTensors& inputs) {
  std::map<std::string, std::vector<double>> expected;
  for (std::size_t i = 0; i < 48; ++i) {
    const double x = number_at(inputs.at("x"), i);
    const double k = std::tanh(x) + number_at(inputs.at("c"), i);
    expected["y"].push_back(k * -x);
    expected["z"].push_back(k + number_at(inputs.at("d"), i % 30));
  }
  return expected;
}

void check_result(const RunResult& result, const NamedTensors& inputs) {
  for (const auto& [name, numbers] : expected_of(inputs)) {
    const Tensor& out = result.outputs.at(name);
    REQUIRE(out.shape() == Shape{8, 6});
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      CAPTURE(name, i);
      REQUIRE(number_at(out, i) == Approx(numbers[i]).margin(1e-5));
    }
  }
  // Of both microbatches: three values of two ranks, and two values to two ranks.
  const std::vector<bundle::CollectiveTotal> sent = {{"send", {}, 2 * (6 + 4), 2 * (360 + 240)}};
  CHECK(result.collectives == sent);
  CHECK(result.spans.size() == 6);
  CHECK(is_pipeline(result.spans));
}

const RunOptions options{.device = {.threads = 1}, .repeat = 2, .profile = true, .timeout = 20s};

TEST_CASE("A bundle of stages runs in threads, and its microbatches are put together in order") {
  std::mt19937 random(5);
  const PipelineBundle bundle;
  const NamedTensors inputs = random_batch(random);
  check_result(run_in_threads(bundle.dir(), inputs, options), inputs);
}

TEST_CASE("A bundle of stages runs as ranks that meet over TCP") {
  std::mt19937 random(6);
  const PipelineBundle bundle;
  const NamedTensors inputs = random_batch(random);
  RunResult result;
  const auto errors = errors_of(rendezvous_of(6, 20s), [&](Communicator& world) {
    RunResult of_rank = run_as_rank(bundle.dir(), inputs, options, world,
                                    {.rank = world.rank(), .count = world.size()});
    if (world.rank() == 0) result = std::move(of_rank);
  });
  REQUIRE(errors == std::vector<std::string>(6));
  check_result(result, inputs);
}

TEST_CASE(
    "A bundle whose stages disagree with meta-info.json is refused, in threads and over TCP") {
  std::mt19937 random(7);
  const NamedTensors inputs = random_batch(random);
  const auto refusal = [&](const std::function<void(bundle::MetaInfo&)>& spoil) {
    const PipelineBundle bundle(spoil);
    try {
      run_in_threads(bundle.dir(), inputs, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(refusal([](bundle::MetaInfo& info) { info.transfers[0].messages[1].bytes = 44; }),
             Catch::Contains("44 bytes of 'h'") && Catch::Contains("partition the model again"));
  CHECK_THAT(refusal([](bundle::MetaInfo& info) { info.transfers.pop_back(); }),
             Catch::Contains("of 'n'") && Catch::Contains("partition the model again"));
  CHECK_THAT(refusal([](bundle::MetaInfo& info) { info.outputs.pop_back(); }),
             Catch::Contains("has 2 outputs, but meta-info.json 1"));
  CHECK_THAT(refusal([](bundle::MetaInfo& info) { info.inputs[2].ranges[4].reset(); }),
             Catch::Contains("rank 4: its shard has an input 'd'"));

  const PipelineBundle bundle(
      [](bundle::MetaInfo& info) { info.transfers[0].messages[1].bytes = 44; });
  for (const std::string& error : errors_of(rendezvous_of(6, 5s), [&](Communicator& world) {
         run_as_rank(bundle.dir(), inputs, options, world,
                     {.rank = world.rank(), .count = world.size()});
       }))
    CHECK(!error.empty());
}

}  // namespace
}  // namespace autopar::runtime
