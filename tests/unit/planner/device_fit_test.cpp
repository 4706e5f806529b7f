#include "planner/device_fit.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "cost/device_model.h"
#include "planner/load_model.h"
#include "runtime/run_bytes.h"

using namespace autopar;
using namespace autopar::planner;

namespace {

graph::Graph tiny_model(const std::string& name, const std::vector<std::string>& shapes) {
  const std::filesystem::path models = std::filesystem::path(AUTOPAR_SOURCE_DIR) / "models/tiny";
  return load_graph({.file = models / name / "model.onnx", .shapes = shapes}).graph;
}

graph::Graph gpt2() { return tiny_model("gpt2-dynamo", {"input_ids=1x16"}); }

cost::DeviceModel device_that_runs_on(const std::string& kind) {
  cost::DeviceModel device = cost::load_device_model("cpu");
  device.runs_on = kind;
  return device;
}

}  // namespace

TEST_CASE(
    "a device's shards are run by its own kernels, and a GPU's by the CPU's where it is gone") {
  const auto* cpu = &runtime::cpu_kernels();
  CHECK(kernels_for(device_that_runs_on("cpu")) == std::vector<const runtime::KernelTable*>{cpu});
  CHECK(kernels_for(device_that_runs_on("cuda")).front() != cpu);
  CHECK(kernels_for(device_that_runs_on("cuda")).back() == cpu);
  CHECK(kernels_for(device_that_runs_on("")).size() == 2);
}

TEST_CASE(
    "a device whose runtime fuses prices what is fused in the model at hand; another does not") {
  const graph::Graph graph = gpt2();
  cost::DeviceModel fusing = device_that_runs_on("cpu");
  fusing.is_fusing = true;
  fusing.weight_bytes_per_second = 1;
  std::vector<cost::CostModel> models{{fusing, sharding::DeviceMesh({2})},
                                      {fusing, sharding::DeviceMesh({1, 2})}};
  fit_to_model(models, graph);
  for (const cost::CostModel& model : models) {
    REQUIRE(model.device().fused);
    CHECK_FALSE(model.device().fused->empty());
    REQUIRE(model.device().without_memory);
    CHECK(model.device().weight_bytes_per_second > 1);
  }
  CHECK(models[1].mesh() == sharding::DeviceMesh({1, 2}));

  cost::DeviceModel plain = fusing;
  plain.is_fusing = false;
  std::vector<cost::CostModel> unfused{{plain, sharding::DeviceMesh({2})}};
  fit_to_model(unfused, graph);
  CHECK_FALSE(unfused.front().device().fused);
  CHECK(unfused.front().device().weight_bytes_per_second == 1);
}

TEST_CASE("a plan for the CPU's kernels prices images as they lie there, one for others does not") {
  const graph::Graph resnet = tiny_model("resnet50-dynamo", {});
  const auto count = [](const graph::Graph& graph, cost::DeviceModel device) {
    std::vector<cost::CostModel> models{{std::move(device), sharding::DeviceMesh({2})}};
    fit_to_model(models, graph);
    const auto& names = models.front().device().channels_last;
    return names ? names->size() : 0;
  };
  CHECK(count(resnet, device_that_runs_on("cpu")) > 20);
  CHECK(count(resnet, device_that_runs_on("cuda")) == 0);
  CHECK(count(resnet, device_that_runs_on("")) == 0);
  CHECK(count(gpt2(), device_that_runs_on("cpu")) == 0);
  cost::DeviceModel other = device_that_runs_on("cpu");
  other.collectives = cost::onnx_runtime_collectives();
  CHECK(count(resnet, other) == 0);
}

TEST_CASE("the images that prices know to lie channels-last are those that a run makes so") {
  const auto makes = [](const graph::Graph& run, const std::string& name) {
    return std::ranges::any_of(run.nodes, [&](const graph::Node& node) {
      const bool is_reorder = node.op_type == "Transpose" || node.op_type == "Reshape";
      return !is_reorder && std::ranges::any_of(node.outputs, [&](graph::ValueId id) {
        return id != graph::no_value && run.value(id).name == name;
      });
    });
  };
  for (const auto& [model, least] : {std::pair{"resnet50-dynamo", 20},
                                     {"unet-dynamo", 20},
                                     {"unet-torchscript", 20},
                                     {"detector-ssd-lite", 20},
                                     {"detector-yolo", 10},
                                     {"whisper-encoder-dynamo", 1},
                                     {"vit-dynamo", 0}}) {
    INFO(model);
    const graph::Graph graph = tiny_model(model, {});
    const auto named = runtime::channels_last_values(graph, runtime::cpu_kernels());
    const graph::Graph run = runtime::packed_graph(graph, runtime::cpu_kernels(), 1).graph;
    int made_last = 0;
    for (const graph::Node& node : graph.nodes)
      for (const graph::ValueId id : node.outputs) {
        if (id == graph::no_value) continue;
        const std::string& name = graph.value(id).name;
        INFO(name);
        const bool is_last = makes(run, name + ":channels_last");
        made_last += is_last;
        if (is_last) CHECK(named.contains(name));
        if (makes(run, name)) CHECK_FALSE(named.contains(name));
      }
    CHECK(made_last >= least);
  }
}

TEST_CASE("the bytes of a run are those of the kernels that need most") {
  const graph::Graph graph = gpt2();
  const std::int64_t on_any = run_bytes_on(device_that_runs_on(""))(graph, 1);
  for (const char* kind : {"cpu", "cuda"})
    CHECK(run_bytes_on(device_that_runs_on(kind))(graph, 1) <= on_any);
  CHECK(run_bytes_on(device_that_runs_on("cpu"))(graph, 1) > 0);
}
