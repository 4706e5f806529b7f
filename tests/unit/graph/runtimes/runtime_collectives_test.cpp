#include "graph/runtimes/runtime_collectives.h"

#include <catch2/catch.hpp>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "graph/onnx/onnx_export.h"
#include "graph/runtimes/autopar_collectives.h"

using namespace autopar;
using graph::Graph;
using graph::Shape;
using graph::ValueId;
using Ints = std::vector<std::int64_t>;

namespace {

/// x -> collectives of two ranks, each of the model's input.
struct Collectives {
  Graph graph{};
  ValueId x;

  explicit Collectives(Shape shape, graph::DataType type = graph::DataType::float32)
      : x(graph.add_value({"x", type, std::move(shape), std::nullopt})) {
    graph.opsets = {{"", 20}, {graph::collective_domain, 1}};
    graph.inputs = {x};
  }

  ValueId add(const char* op_type, std::map<std::string, graph::Attribute> attributes,
              const Shape& shape, Ints ranks = {0, 1}) {
    attributes["ranks"] = std::move(ranks);
    attributes["rank"] = std::int64_t{0};
    attributes["mesh_axes"] = Ints{0};
    const std::string name = "y" + std::to_string(graph.nodes.size());
    const ValueId made = graph.add_value({name, graph.value(x).type, shape, std::nullopt});
    graph.nodes.push_back(
        {name + "/collective", op_type, graph::collective_domain, {x}, {made}, attributes});
    graph.outputs.push_back(made);
    return made;
  }
};

std::vector<std::string> types_of(const Graph& graph) {
  std::vector<std::string> types;
  for (const graph::Node& node : graph.nodes) types.push_back(qualified_op_type(node));
  return types;
}

const graph::Node& node_of(const Graph& graph, const std::string& type) {
  return *std::ranges::find(graph.nodes, type, &graph::qualified_op_type);
}

Graph through_file(const Graph& graph, int ranks) {
  const TemporaryFolder folder;
  save_onnx(graph, folder / "rank0.onnx", folder / "rank0.data");
  return graph::load_runtime_shard(folder / "rank0.onnx", 0, ranks);
}

}  // namespace

TEST_CASE("ONNX Runtime gathers along any dimension and exchanges dimension 0") {
  Collectives gather({4, 6});
  gather.add("AllGather", {{"dim", std::int64_t{1}}, {"sizes", Ints{6, 6}}}, {4, 12});
  graph::use_onnx_runtime_collectives(gather.graph, 2);
  CHECK(types_of(gather.graph) == std::vector<std::string>{"com.microsoft::AllGather"});
  const graph::Node& node = gather.graph.nodes.front();
  CHECK(node.int_attribute("axis", -1) == 1);
  CHECK(node.int_attribute("group_size", -1) == 2);
  CHECK(node.name == "y0/collective");
  CHECK_FALSE(gather.graph.opsets.contains(graph::collective_domain));

  Collectives exchange({4, 6});
  exchange.add("AllToAll",
               {{"split_dim", std::int64_t{1}},
                {"concat_dim", std::int64_t{0}},
                {"split_sizes", Ints{3, 3}},
                {"concat_sizes", Ints{4, 4}}},
               {8, 3});
  graph::use_onnx_runtime_collectives(exchange.graph, 2);
  CHECK(types_of(exchange.graph) ==
        std::vector<std::string>{"Reshape", "Transpose", "com.microsoft::AllToAll", "Reshape"});
  check_invariants(exchange.graph);
  const graph::Node& middle = node_of(exchange.graph, "com.microsoft::AllToAll");
  CHECK(exchange.graph.value(middle.inputs[0]).shape == Shape{2, 4, 3});
  CHECK(types_of(through_file(exchange.graph, 2)) ==
        std::vector<std::string>{"Reshape", "Transpose", "Reshape", "autopar::AllToAll", "Reshape",
                                 "Reshape"});
}

TEST_CASE("collectives that do not need each other are put in an order for ONNX Runtime") {
  Collectives two({4, 6});
  two.add("AllReduce", {{"reduce", std::string("sum")}}, {4, 6});
  two.add("AllGather", {{"dim", std::int64_t{0}}, {"sizes", Ints{4, 4}}}, {8, 6});
  Graph for_tensorrt = two.graph;
  graph::use_onnx_runtime_collectives(two.graph, 2);
  check_invariants(two.graph);
  const graph::Node& gather = node_of(two.graph, "com.microsoft::AllGather");
  CHECK(two.graph.value(gather.inputs[0]).shape == Shape{4, 6});
  CHECK(gather.inputs[0] != two.x);
  const graph::Node& append = node_of(two.graph, "Concat");
  CHECK(two.graph.value(append.inputs[1]).shape == Shape{0});
  graph::use_tensorrt_collectives(for_tensorrt, 2);
  CHECK(types_of(for_tensorrt) == std::vector<std::string>{"DistCollective", "DistCollective"});
}

TEST_CASE("TensorRT's collectives are along dimension 0, and come back as autopar's") {
  Collectives all({4, 6});
  all.add("AllReduce", {{"reduce", std::string("max")}}, {4, 6});
  all.add("AllGather", {{"dim", std::int64_t{1}}, {"sizes", Ints{6, 6}}}, {4, 12});
  all.add("ReduceScatter",
          {{"reduce", std::string("mean")}, {"dim", std::int64_t{0}}, {"sizes", Ints{2, 2}}},
          {2, 6});
  graph::use_tensorrt_collectives(all.graph, 4);  // a group of four ranks' first two
  check_invariants(all.graph);
  CHECK(types_of(all.graph) == std::vector<std::string>{"DistCollective", "Transpose",
                                                        "DistCollective", "Transpose",
                                                        "DistCollective"});
  const graph::Node& reduce = all.graph.nodes.front();
  CHECK(reduce.string_attribute("collective_operation", "") == "all_reduce");
  CHECK(reduce.string_attribute("reduce_op", "") == "max");
  CHECK(reduce.int_attribute("root", 0) == -1);
  CHECK(reduce.int_attribute("nb_rank", 0) == 2);
  CHECK(reduce.ints_attribute("groups", {}) == Ints{0, 1});
  CHECK(reduce.int_attribute("group_size", 0) == 2);

  const Graph back = through_file(all.graph, 4);
  CHECK(types_of(back) == std::vector<std::string>{"autopar::AllReduce", "Transpose",
                                                   "autopar::AllGather", "Transpose",
                                                   "autopar::ReduceScatter"});
  const graph::Node& gather = node_of(back, "autopar::AllGather");
  CHECK(gather.int_attribute("dim", -1) == 0);
  CHECK(gather.ints_attribute("sizes", {}) == Ints{6, 6});
  const graph::Node& scatter = node_of(back, "autopar::ReduceScatter");
  CHECK(scatter.string_attribute("reduce", "") == "mean");
  CHECK(scatter.ints_attribute("sizes", {}) == Ints{2, 2});
}

TEST_CASE("all ranks are no group, and a scalar is reduced as a tensor of one element") {
  Collectives scalar({});
  scalar.add("AllReduce", {{"reduce", std::string("sum")}}, {});
  graph::use_tensorrt_collectives(scalar.graph, 2);
  CHECK(types_of(scalar.graph) == std::vector<std::string>{"Reshape", "DistCollective", "Reshape"});
  const graph::Node& reduce = scalar.graph.nodes[1];
  CHECK(scalar.graph.value(reduce.inputs[0]).shape == Shape{1});
  CHECK_FALSE(reduce.has_attribute("groups"));
  CHECK(reduce.int_attribute("group_size", -1) == 0);
}

TEST_CASE("a file of another world is refused") {
  Collectives one({4, 6});
  one.add("AllGather", {{"dim", std::int64_t{0}}, {"sizes", Ints{4, 4}}}, {8, 6});
  graph::use_onnx_runtime_collectives(one.graph, 2);
  CHECK_THROWS_WITH(through_file(one.graph, 3), Catch::Matchers::Contains("another group"));
}
