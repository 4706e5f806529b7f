#include "planner/shape_source.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "base/temporary_folder.h"
#include "bundle/meta_info.h"
#include "graph/onnx/onnx_import.h"
#include "planner/planner.h"
#include "runtime/shape_source.h"

using namespace autopar;
using namespace autopar::planner;

namespace {

const std::filesystem::path models = std::filesystem::path(AUTOPAR_SOURCE_DIR) / "models/tiny";

/// What a rank's collectives do, in order, without their names.
std::vector<std::string> collectives_of(const graph::Graph& shard) {
  std::vector<std::string> collectives;
  for (const graph::Node& node : shard.nodes) {
    if (node.domain != graph::collective_domain) continue;
    std::string text = node.op_type + " " + graph::to_string(shard.value(node.inputs[0]).shape);
    for (const char* name : {"dim", "split_dim", "concat_dim"})
      text += " " + std::to_string(node.int_attribute(name, -1));
    collectives.push_back(std::move(text));
  }
  return collectives;
}

}  // namespace

TEST_CASE("shapes that were planned are made anew with the very collectives of their plan") {
  struct Planned {
    const char* model;
    PlanOptions options;
  };
  for (const auto& [model, options] : {
           Planned{"resnet50-dynamo", {.ngpus = 2, .device = "cpu"}},
           Planned{"resnet50-dynamo", {.ngpus = 4, .mesh = "2x2", .device = "cpu"}},
           Planned{"unet-dynamo", {.ngpus = 6, .mesh = "2x3", .device = "cpu"}},
           Planned{"gpt2-dynamo", {.ngpus = 4, .device = "cpu"}},
       }) {
    INFO(model);
    const TemporaryFolder folder;
    const std::filesystem::path dir = folder.path() / "bundle";
    write_bundle(plan(load_model({.file = models / model / "model.onnx"}), options), {.out = dir});
    const bundle::ProfileInfo written = bundle::load_meta_info(dir).profiles.front();
    runtime::InputShapes inputs;
    for (const bundle::PortInfo& port : written.inputs) inputs[port.name] = port.shape;
    const runtime::ShapedProgram made = shape_source(dir)(inputs);
    CHECK(made.profile.collectives == written.collectives);
    for (int rank = 0; rank < options.ngpus; ++rank)
      CHECK(collectives_of(made.shard(rank)) ==
            collectives_of(graph::load_onnx(dir / bundle::graph_file(rank, 0), {})));
  }
}
