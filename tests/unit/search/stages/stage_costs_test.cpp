#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "search/operator_bound.h"
#include "search/stages/layers.h"
#include "search/stages/stage_costs.h"
#include "unit/program/random_graph.h"

using namespace autopar;
using assignment::Cost;
using assignment::impossible;

namespace {

std::vector<double> seconds_on_one(const graph::Graph& graph, const cost::DeviceModel& device) {
  const int one[] = {1};
  return search::least_operator_seconds(one, graph, device).front();
}

/// `layers` times x = x + relu(x w1) w2, then a wide product: a transformer's work in small.
graph::Graph residual_layers(int layers, std::int64_t rows, std::int64_t width,
                             std::int64_t classes) {
  graph::Graph graph;
  graph.name = "residual";
  graph.opsets[""] = 20;
  const auto tensor = [&](const std::string& name, std::int64_t columns) {
    return graph.add_value({name, graph::DataType::float32, {rows, columns}, std::nullopt});
  };
  const auto weight = [&](const std::string& name, std::int64_t from, std::int64_t to) {
    return graph.add_constant(name, graph::Tensor::absent(graph::DataType::float32, {from, to}));
  };
  graph::ValueId x = tensor("x", width);
  graph.inputs = {x};
  for (int i = 0; i < layers; ++i) {
    const std::string name = std::to_string(i) + "/";
    const auto wide = tensor(name + "wide", 4 * width);
    const auto relu = tensor(name + "relu", 4 * width);
    const auto narrow = tensor(name + "narrow", width);
    const auto sum = tensor(name + "sum", width);
    graph.nodes.push_back(
        {name + "up", "MatMul", "", {x, weight(name + "w1", width, 4 * width)}, {wide}, {}});
    graph.nodes.push_back({name + "act", "Relu", "", {wide}, {relu}, {}});
    graph.nodes.push_back(
        {name + "down", "MatMul", "", {relu, weight(name + "w2", 4 * width, width)}, {narrow}, {}});
    graph.nodes.push_back({name + "add", "Add", "", {x, narrow}, {sum}, {}});
    x = sum;
  }
  const auto logits = tensor("logits", classes);
  graph.nodes.push_back({"head", "MatMul", "", {x, weight("w", width, classes)}, {logits}, {}});
  graph.outputs = {logits};
  return graph;
}

/// `layers` times x = x + present, with present = relu(x w + past).
graph::Graph layers_with_states(int layers, std::int64_t rows, std::int64_t width) {
  graph::Graph graph;
  graph.name = "states";
  graph.opsets[""] = 20;
  const auto tensor = [&](const std::string& name) {
    return graph.add_value({name, graph::DataType::float32, {rows, width}, std::nullopt});
  };
  graph::ValueId x = tensor("x");
  graph.inputs = {x};
  for (int i = 0; i < layers; ++i) {
    const std::string name = std::to_string(i) + "/";
    const auto w = graph.add_constant(
        name + "w", graph::Tensor::absent(graph::DataType::float32, {width, width}));
    const auto product = tensor(name + "product");
    const auto past = tensor(name + "past");
    const auto sum = tensor(name + "sum");
    const auto present = tensor(name + "present");
    const auto next = tensor(name + "next");
    graph.nodes.push_back({name + "product", "MatMul", "", {x, w}, {product}, {}});
    graph.nodes.push_back({name + "sum", "Add", "", {product, past}, {sum}, {}});
    graph.nodes.push_back({name + "present", "Relu", "", {sum}, {present}, {}});
    graph.nodes.push_back({name + "next", "Add", "", {x, present}, {next}, {}});
    graph.states.push_back({graph.outputs.size(), graph.inputs.size()});
    graph.inputs.push_back(past);
    graph.outputs.push_back(present);
    x = next;
  }
  graph.outputs.push_back(x);
  return graph;
}

std::vector<search::StageChoice> all_runs(int layers, int sizes) {
  std::vector<search::StageChoice> runs;
  for (int size = 0; size < sizes; ++size) {
    for (int begin = 0; begin < layers; ++begin) {
      for (int end = begin + 1; end <= layers; ++end) runs.push_back({begin, end, size, 0});
    }
  }
  return runs;
}

/// Every bound on the way to the exact costs is below these.
void check_bounds(const graph::Graph& graph, const cost::DeviceModel& device, int devices,
                  const search::SearchOptions& options, int layers) {
  const graph::StageCutter cutter(graph);
  const auto work = seconds_on_one(graph, device);
  const auto shapes = search::submeshes(devices, device, std::nullopt);
  search::StageCosts costs(search::find_stage_facts(
      graph, cutter, search::cluster_layers(graph, cutter, work, layers), device, shapes, options));
  const auto runs = all_runs(costs.layers(), static_cast<int>(shapes.size()));
  std::vector<std::vector<Cost>> bounds;
  bool is_settled = false;
  for (int round = 0; !is_settled; ++round) {
    REQUIRE(round < 100);
    auto& seen = bounds.emplace_back();
    is_settled = true;
    for (const auto& run : runs) {
      seen.push_back(costs.lower_bound(run));
      is_settled = is_settled && costs.is_settled(run);
    }
    costs.advance(runs, 3600);
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto& run = runs[i];
    CAPTURE(run.begin, run.end, run.size);
    CHECK(costs.cost(run) == bounds.back()[i]);
    for (std::size_t round = 1; round < bounds.size(); ++round)
      CHECK(bounds[round - 1][i] <= bounds[round][i]);
  }
}

}  // namespace

TEST_CASE("no bound of a stage is above what it costs") {
  Random random(21);
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 2, 5));
    cost::DeviceModel device = cost::load_device_model("cpu");
    device.launch_seconds = any_of(random, std::vector{0.0, 1e-8, 2e-6});
    device.links = {
        {any_of(random, std::vector{0.0, 1e-7}), any_of(random, std::vector{1e7, 1e10})}};
    search::SearchOptions options;
    if (pick(random, 0, 1)) options.memory.kind = search::MemoryPolicy::Kind::device;
    check_bounds(graph, device, 4, options, 0);
  }
}

TEST_CASE("no bound of a run of repeated layers is above what it costs, with a price or without") {
  cost::DeviceModel device = cost::load_device_model("h100");
  device.gpus_per_node = 4;
  device.links = {{3e-6, 450e9}, {1e-5, 10e9}};
  for (const auto kind : {search::MemoryPolicy::Kind::fair, search::MemoryPolicy::Kind::device}) {
    search::SearchOptions options;
    options.memory.kind = kind;
    // Few rows: copies of weights are what is fastest, unless they are limited.
    check_bounds(residual_layers(9, 64, 1024, 4096), device, 8, options, 10);
  }
}

TEST_CASE("bounds of repeated layers are close to what they cost") {
  cost::DeviceModel device = cost::load_device_model("h100");
  const graph::Graph graph = residual_layers(16, 512, 2048, 8192);
  const graph::StageCutter cutter(graph);
  const auto work = seconds_on_one(graph, device);
  const search::SearchOptions options;
  search::StageCosts costs(
      search::find_stage_facts(graph, cutter, search::cluster_layers(graph, cutter, work, 17),
                               device, search::submeshes(8, device, std::nullopt), options));
  const std::vector<search::StageChoice> run{{2, 14, 3, 0}};
  Cost bound = 0;
  while (!costs.is_settled({2, 14, 3})) {
    bound = costs.lower_bound({2, 14, 3});
    costs.advance(run, 60);
  }
  // The bound is a sum of two blocks', and between them tensors lie as either wants them.
  CHECK(static_cast<double>(bound) > 0.92 * static_cast<double>(costs.cost({2, 14, 3})));
}

TEST_CASE("layers are cut where least crosses, and alike where the model repeats itself") {
  const graph::Graph graph = residual_layers(40, 512, 1024, 1024);
  const cost::DeviceModel device = cost::load_device_model("h100");
  const graph::StageCutter cutter(graph);
  const auto cuts = search::cluster_layers(graph, cutter, seconds_on_one(graph, device), 0);
  CHECK(cuts.front() == 0);
  CHECK(cuts.back() == static_cast<int>(graph.nodes.size()));
  CHECK(std::ranges::is_sorted(cuts));
  const auto classes = search::find_run_classes(graph, cutter, cuts);
  const auto layers = static_cast<int>(cuts.size()) - 1;
  CHECK(layers >= 32);
  CHECK(classes.count < 6 * layers);
}

TEST_CASE("a model with a heavy end can be cut into halves") {
  // 24 layers and a head of 31 % of the work, as GPT-2 has.
  const graph::Graph graph = residual_layers(24, 512, 768, 24 * 8 * 768 * 31 / 69);
  const cost::DeviceModel device = cost::load_device_model("h100");
  const graph::StageCutter cutter(graph);
  const auto work = seconds_on_one(graph, device);
  const double total = std::reduce(work.begin(), work.end());
  double nearest = 1;
  for (const graph::NodeId cut : search::cluster_layers(graph, cutter, work, 0)) {
    const double share = std::reduce(work.begin(), work.begin() + cut) / total;
    nearest = std::min(nearest, std::abs(share - 0.5) / 0.5);
  }
  CHECK(nearest < 0.03);
}

TEST_CASE("bounds hold where layers have states") {
  check_bounds(layers_with_states(8, 16, 64), cost::load_device_model("h100"), 4, {}, 6);
}

TEST_CASE("layers part no state") {
  const auto cuts_of = [](const graph::Graph& graph, int layers) {
    const std::vector<double> work(graph.nodes.size(), 1);
    return search::cluster_layers(graph, graph::StageCutter(graph), work, layers);
  };
  const graph::Graph small = layers_with_states(3, 8, 16);
  CHECK(cuts_of(small, 0) == search::LayerCuts{0, 1, 3, 4, 5, 7, 8, 9, 11, 12});
  CHECK(cuts_of(small, 11).size() == 10);  // there are no more places
  CHECK(cuts_of(small, 3).size() == 4);

  graph::Graph large = layers_with_states(200, 8, 16);
  const auto cuts = cuts_of(large, 0);
  const auto layers = static_cast<int>(cuts.size()) - 1;
  CHECK(layers >= 32);
  CHECK(std::ranges::is_sorted(cuts));
  for (const graph::NodeId cut : cuts) CHECK(cut % 4 != 2);
  const int kinds = search::find_run_classes(large, graph::StageCutter(large), cuts).count;
  CHECK(kinds < 6 * layers);
  // A run without its state is another stage.
  large.states.erase(large.states.begin() + 100);
  CHECK(search::find_run_classes(large, graph::StageCutter(large), cuts).count > kinds);
}

TEST_CASE("a small model can be cut at every node") {
  const graph::Graph graph = residual_layers(3, 8, 16, 16);
  const graph::StageCutter cutter(graph);
  const auto cuts =
      search::cluster_layers(graph, cutter, std::vector<double>(graph.nodes.size(), 1), 0);
  CHECK(cuts.size() == graph.nodes.size() + 1);
  CHECK(
      search::cluster_layers(graph, cutter, std::vector<double>(graph.nodes.size(), 1), 4).size() ==
      5);
}
