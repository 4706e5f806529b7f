#include "program/memory_prediction.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <utility>

#include "cost/cost_model.h"
#include "graph/onnx/onnx_import.h"
#include "program/lowering.h"
#include "program/pipeline_program.h"
#include "runtime/executable.h"
#include "runtime/kernel.h"
#include "sharding/rewrites/rewrites.h"
#include "unit/program/random_graph.h"

using namespace autopar;

namespace {

/// A model of the zoo, of extents that no mesh of these tests divides all.
graph::Graph sample_model(const std::string& name) {
  static const graph::ShapeBindings extents{{"input_ids", {2, 7}},
                                            {"attention_mask", {2, 7}},
                                            {"token_type_ids", {2, 7}},
                                            {"x", {5, 48}},
                                            {"pixel_values", {5, 3, 32, 32}}};
  std::set<std::string> inputs{"input_ids"};
  if (name.starts_with("mlp")) inputs = {"x"};
  if (name.starts_with("vit")) inputs = {"pixel_values"};
  if (name.starts_with("bert")) inputs.insert({"attention_mask", "token_type_ids"});
  if (name == "gpt2-torchscript" || name == "llama-torchscript") inputs.insert("attention_mask");
  graph::ImportOptions options;
  for (const std::string& input : inputs) options.shapes.emplace(input, extents.at(input));
  options.evaluate = runtime::evaluate_constants;
  options.is_native = [](std::string_view domain, std::string_view op_type) {
    return runtime::cpu_kernels().find(domain, op_type) != nullptr;
  };
  const std::filesystem::path models = std::filesystem::path(AUTOPAR_SOURCE_DIR) / "models/tiny";
  graph::Graph graph = graph::load_onnx(models / name / "model.onnx", options);
  sharding::hoist_splits(graph);
  return graph;
}

}  // namespace

TEST_CASE("alike ranks need the same memory, and a plan's peak is that of its fullest rank") {
  const std::string name =
      GENERATE(as<std::string>{}, "bert-dynamo", "bert-torchscript", "gpt2-dynamo",
               "gpt2-torchscript", "llama-dynamo", "llama-torchscript", "mlp-dynamo", "vit-dynamo");
  const graph::Graph graph = sample_model(name);
  for (const char* mesh_text : {"3", "4", "2x2", "3x2"}) {
    const auto mesh = sharding::DeviceMesh::parse(mesh_text);
    const auto device = cost::load_device_model("cpu");
    const cost::CostModel cost(device, mesh);
    Random random(7);
    for (int round = 0; round < 3; ++round) {
      INFO(name << " on " << mesh_text << ", round " << round);
      const plan::Plan plan = random_plan(random, graph, mesh);
      const program::Program program = program::lower(graph, plan, cost);
      std::int64_t peak = 0;
      int ranks = 0;
      for (const std::vector<int>& alike : program::alike_ranks(program)) {
        std::set<std::pair<std::int64_t, std::int64_t>> needs;
        for (const int rank : alike) {
          const auto memory = program::predict_memory(program::rank_graph(program, rank));
          needs.emplace(memory.weight_bytes, memory.peak_bytes);
          peak = std::max(peak, memory.peak_bytes);
          ++ranks;
        }
        CHECK(needs.size() == 1);
      }
      CHECK(ranks == mesh.num_devices());
      CHECK(program::predict_peak_bytes(graph::whole_stage(graph), plan, device) == peak);
    }
  }
}

TEST_CASE("ranks with even shares are alike, but for those of a table's rows that begin at 0") {
  graph::Graph graph;
  const auto value = [&](const char* name, graph::DataType type, const graph::Shape& shape) {
    return graph.add_value({name, type, shape, std::nullopt});
  };
  const auto table = value("table", graph::DataType::float32, {8, 8});
  const auto indices = value("indices", graph::DataType::int64, {4});
  const auto y = value("y", graph::DataType::float32, {4, 8});
  graph.nodes = {{"gather", "Gather", "", {table, indices}, {y}, {}}};
  graph.inputs = {table, indices};
  graph.outputs = {y};
  const auto classes_on = [&](const char* mesh, const char* spec) {
    program::Program program;
    program.graph = graph;
    program.mesh = sharding::DeviceMesh::parse(mesh);
    const auto of_table = sharding::TensorShardSpec::parse(spec);
    program.versions.push_back({table, of_table, true});
    const auto rule = sharding::sharding_rule(graph, graph.nodes[0]);
    sharding::OpShardSpec& split = program.operators.emplace_back();
    split.factor_axes.resize(rule->factors.size());
    for (std::size_t d = 0; d < of_table.dims.size(); ++d)
      split.factor_axes[rule->inputs[0][d].front()] = of_table.dims[d];
    program.instructions.emplace_back().node = 0;
    return program::alike_ranks(program).size();
  };
  CHECK(classes_on("4", "RR") == 1);
  CHECK(classes_on("4", "RS0") == 1);
  CHECK(classes_on("4", "S0R") == 2);
  CHECK(classes_on("3", "RS0") == 2);  // 3, 3 and 2 columns
  CHECK(classes_on("3", "S0R") == 3);
  CHECK(classes_on("2x4", "S0S1") == 2);
  CHECK(classes_on("2x4", "S01R") == 2);
}

TEST_CASE("ranks' graphs are alike where only ranks and constants' numbers differ") {
  const auto shard = [](std::int64_t rows, float factor, std::int64_t peer, std::int64_t axis) {
    graph::Graph graph;
    const auto value = [&](const char* name) {
      return graph.add_value({name, graph::DataType::float32, {rows, 2}, std::nullopt});
    };
    const graph::ValueId x = value("x");
    const graph::ValueId scaled = value("scaled");
    const graph::ValueId soft = value("soft");
    const graph::ValueId y = value("y");
    const graph::ValueId c = graph.add_constant("c", graph::Tensor::of_float({1}, {{factor}}));
    graph.nodes = {{"mul", "Mul", "", {x, c}, {scaled}, {}},
                   {"softmax", "Softmax", "", {scaled}, {soft}, {{"axis", axis}}},
                   {"reduce",
                    "AllReduce",
                    graph::collective_domain,
                    {soft},
                    {y},
                    {{"group", std::vector<std::int64_t>{0, peer}}}}};
    graph.inputs = {x};
    graph.outputs = {y};
    return graph;
  };
  const graph::Graph first = shard(3, 1, 1, 1);
  CHECK(program::are_alike(first, first));
  CHECK(program::are_alike(first, shard(3, 2, 5, 1)));
  CHECK_FALSE(program::are_alike(first, shard(2, 1, 1, 1)));
  CHECK_FALSE(program::are_alike(first, shard(3, 1, 1, 0)));
  graph::Graph shorter = first;
  shorter.nodes.pop_back();
  CHECK_FALSE(program::are_alike(first, shorter));
}

TEST_CASE("each microbatch has its own inputs and outputs, which the predicted peak has too") {
  graph::Graph graph;
  graph.opsets[""] = 20;
  const auto value = [&](const char* name) {
    return graph.add_value({name, graph::DataType::float32, {1000, 64}, std::nullopt});
  };
  const graph::ValueId x = value("x");
  const graph::ValueId y = value("y");
  graph.nodes.push_back({"op", "Relu", "", {x}, {y}, {}});
  graph.inputs = {x};
  graph.outputs = {y};
  const std::int64_t bytes = 1000 * 64 * 4;
  for (const int microbatches : {1, 2, 5}) {
    runtime::Executable executable(graph, {.threads = 1, .microbatches = microbatches});
    const std::int64_t peak = program::predict_memory(graph, microbatches).peak_bytes;
    CHECK(peak >= executable.arena_bytes());
    CHECK(peak >= 2 * microbatches * bytes);
  }
}
