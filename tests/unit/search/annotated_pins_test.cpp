#include "search/annotated_pins.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

using namespace autopar;
using Catch::Matchers::Contains;
using graph::AnnotatedNode;
using graph::DeviceAnnotations;
using graph::ShardedTensor;
using search::Pin;
using sharding::DeviceMesh;

namespace {

/// up: h = x w, act: y = relu(h), each tensor 8x6.
graph::Graph small_graph() {
  graph::Graph graph;
  const auto value = [&](const std::string& name) {
    return graph.add_value({name, graph::DataType::float32, {8, 6}, std::nullopt});
  };
  const auto x = value("x"), w = value("w"), h = value("h"), y = value("y");
  graph.nodes = {{"up", "MatMul", "", {x, w}, {h}, {}}, {"act", "Relu", "", {h}, {y}, {}}};
  graph.inputs = {x, w};
  graph.outputs = {y};
  return graph;
}

DeviceAnnotations annotations(int devices, std::vector<AnnotatedNode> nodes) {
  return {.configuration = "mine", .num_devices = devices, .nodes = std::move(nodes)};
}

AnnotatedNode act(std::vector<ShardedTensor> tensors, std::optional<int> stage = std::nullopt) {
  return {.name = "act", .op_type = "Relu", .tensors = std::move(tensors), .stage = stage};
}

AnnotatedNode up(std::vector<ShardedTensor> tensors, std::optional<int> stage = std::nullopt) {
  return {.name = "up", .op_type = "MatMul", .tensors = std::move(tensors), .stage = stage};
}

/// On each of `meshes` that has as many devices.
std::vector<Pin> pins(const DeviceAnnotations& annotations,
                      const std::vector<std::string>& meshes) {
  const auto of_size = [&](int devices) {
    std::vector<DeviceMesh> fitting;
    for (const std::string& text : meshes)
      if (const DeviceMesh mesh = DeviceMesh::parse(text); mesh.num_devices() == devices)
        fitting.push_back(mesh);
    return fitting;
  };
  return search::pins_of(annotations, small_graph(), of_size, "here");
}

}  // namespace

TEST_CASE("an annotated tensor is pinned on the first mesh that has its shards") {
  const ShardedTensor columns{.name = "h", .dims = {{-1, 2}}, .devices = {{0, 2}, {1, 3}}};
  const auto found = pins(annotations(4, {act({columns})}), {"4", "2x2"});
  REQUIRE(found.size() == 1);
  CHECK(found.front().mesh == DeviceMesh({2, 2}));
  REQUIRE(found.front().some_inputs.size() == 1);
  CHECK(to_string(found.front().some_inputs.at(0)) == "RS1");
  CHECK(found.front().some_outputs.empty());
  CHECK_FALSE(found.front().in_stage.has_value());
  CHECK_THROWS_WITH(pins(annotations(4, {act({columns})}), {"4"}),
                    Contains("here: node 'act' (Relu): tensor 'h': no axes of a mesh 4"));
}

TEST_CASE("shards are row-major over the dimensions in the order that the file has them") {
  const ShardedTensor both{.name = "h", .dims = {{1, 2}, {0, 2}}, .devices = {{0}, {1}, {2}, {3}}};
  const auto found = pins(annotations(4, {act({both})}), {"2x2"});
  CHECK(to_string(found.front().some_inputs.at(0)) == "S1S0");
}

TEST_CASE("metadata say what is partial, and agree with what is annotated") {
  const ShardedTensor whole{.name = "h", .dims = {}, .devices = {{0, 1}}};
  AnnotatedNode node = up({whole});
  node.properties["autopar.output.0"] = "RR+P0";
  CHECK(to_string(pins(annotations(2, {node}), {"2"}).front().some_outputs.at(0)) == "RR+P0");
  node.properties["autopar.output.0"] = "S0R";
  CHECK_THROWS_WITH(pins(annotations(2, {node}), {"2"}), Contains("not what is annotated"));
  node.properties["autopar.output.0"] = "S3R";
  CHECK_THROWS_WITH(pins(annotations(2, {node}), {"2"}), Contains("has no axis 3"));
  node.properties["autopar.output.0"] = "R";
  CHECK_THROWS_WITH(pins(annotations(2, {node}), {"2"}), Contains("it has 2 dimensions"));
}

TEST_CASE("stages are numbered in the order of their numbers") {
  const ShardedTensor first{.name = "h", .dims = {}, .devices = {{0}}};
  const ShardedTensor second{.name = "y", .dims = {{0, 2}}, .devices = {{1}, {2}}};
  const auto staged = annotations(3, {up({first}, 4), act({second}, 9)});
  CHECK(search::stages_in(staged, "here") == 2);
  const auto found = pins(staged, {"1", "2"});
  REQUIRE(found.size() == 2);
  CHECK(found[0].in_stage == 0);
  CHECK(found[0].mesh == DeviceMesh({1}));
  CHECK(found[1].in_stage == 1);
  CHECK(to_string(found[1].some_outputs.at(0)) == "S0R");
}

TEST_CASE("stages without tensors leave the devices to the search") {
  const auto found = pins(annotations(3, {up({}, 0), act({}, 1)}), {});
  REQUIRE(found.size() == 2);
  CHECK_FALSE(found[0].mesh.has_value());
  CHECK(found[1].in_stage == 1);
}

TEST_CASE("stages have all devices, one after the other") {
  const auto on = [](std::vector<std::int64_t> devices) {
    return std::vector{ShardedTensor{.name = "h", .dims = {}, .devices = {std::move(devices)}}};
  };
  const auto refused = [&](int devices, const auto& of_up, const auto& of_act) {
    const std::vector<std::string> meshes = {"1", "2"};
    try {
      pins(annotations(devices, {up(of_up, 0), act(of_act, 1)}), meshes);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refused(2, on({0}), on({1})).empty());
  CHECK_THAT(refused(2, on({1}), on({0})), Contains("the first device of stage 0 is 1"));
  CHECK_THAT(refused(4, on({0, 1}), on({1, 2})), Contains("the first device of stage 1 is 1"));
  CHECK_THAT(refused(4, on({0, 1}), on({2})), Contains("the stages have 3 of 4 devices"));
  CHECK_THAT(refused(2, on({0}), std::vector<ShardedTensor>{}), Contains("no node of stage 1"));
  const auto some = annotations(2, {up(on({0}), 0), act({})});
  CHECK_THROWS_WITH(search::stages_in(some, "here"), Contains("node 'act' (Relu) has no"));
}
