#include <algorithm>
#include <catch2/catch.hpp>

#include "graph/arena.h"
#include "program/memory_prediction.h"
#include "unit/program/random_graph.h"

using namespace autopar;

namespace {

/// A graph that is run as it is, node for node, with the memory of most_run_bytes.
program::RunGraph run_as_written(const graph::Graph& rank_graph) {
  return {rank_graph, graph::value_lifetimes(rank_graph), program::predict_memory(rank_graph)};
}

/// x -> narrow -> wide -> narrow -> y, with a weight at the second step.
graph::Graph hourglass() {
  graph::Graph graph;
  graph.opsets[""] = 20;
  const auto value = [&](const std::string& name, const graph::Shape& shape) {
    return graph.add_value({name, graph::DataType::float32, shape, std::nullopt});
  };
  const auto x = value("x", {16, 8});
  const auto a = value("a", {16, 8});
  const auto b = value("b", {16, 64});
  const auto y = value("y", {16});
  const auto w = graph.add_constant("w", graph::Tensor::zeros(graph::DataType::float32, {8, 64}));
  graph.nodes = {{"first", "Relu", "", {x}, {a}, {}},
                 {"widen", "MatMul", "", {a, w}, {b}, {}},
                 {"last", "ReduceSum", "", {b}, {y}, {}}};
  graph.inputs = {x};
  graph.outputs = {y};
  return graph;
}

/// Bytes of what is made up to the step and read at it or later, straight from the definition.
std::int64_t alive_at(const graph::Graph& graph, std::size_t step) {
  const auto producers = graph::producers(graph);
  const auto readers = graph::consumers(graph);
  std::int64_t bytes = 0;
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const auto value = static_cast<graph::ValueId>(id);
    if (graph.is_constant(value)) continue;
    const bool is_input = std::ranges::find(graph.inputs, value) != graph.inputs.end();
    const bool is_output = std::ranges::find(graph.outputs, value) != graph.outputs.end();
    if (readers[id].empty() && !is_output && producers[id] == graph::no_node) continue;
    const int made = is_input ? 0 : producers[id];
    int last = made;
    for (const graph::NodeId reader : readers[id]) last = std::max(last, reader);
    if (is_output) last = static_cast<int>(graph.nodes.size()) - 1;
    if (made <= static_cast<int>(step) && static_cast<int>(step) <= last) {
      bytes += bytes_of(graph.values[id].type, graph::num_elements(graph.values[id].shape));
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("the peak is where most is alive, and lists what is, largest first") {
  const program::MemoryPeak peak = program::find_memory_peak(run_as_written(hourglass()), 1);
  CHECK(peak.node == "widen");
  CHECK(peak.op_type == "MatMul");
  CHECK(peak.weight_bytes == 8 * 64 * 4);
  CHECK(peak.activation_bytes == (16 * 8 + 16 * 64) * 4);
  REQUIRE(peak.largest.size() == 1);
  CHECK(peak.largest[0].name == "b");
  CHECK(peak.largest[0].shape == graph::Shape{16, 64});
  CHECK(peak.largest[0].bytes == 16 * 64 * 4);
}

TEST_CASE("weights, values and reserve make the predicted peak") {
  Random random(11);
  for (int round = 0; round < 50; ++round) {
    const graph::Graph graph = RandomGraph(random).grow(pick(random, 1, 6));
    CAPTURE(round);
    const program::MemoryPeak peak = program::find_memory_peak(run_as_written(graph), 100);
    CHECK(peak.weight_bytes + peak.activation_bytes + peak.reserve_bytes ==
          program::predict_memory(graph).peak_bytes);
    CHECK(peak.reserve_bytes >= 0);
    std::int64_t most = 0;
    std::string where;
    for (std::size_t step = 0; step < graph.nodes.size(); ++step) {
      const std::int64_t alive = alive_at(graph, step);
      if (alive > most) where = graph.nodes[step].name;
      most = std::max(most, alive);
    }
    CHECK(peak.activation_bytes == most);
    CHECK(peak.node == where);
    std::int64_t listed = 0;
    for (const auto& buffer : peak.largest) listed += buffer.bytes;
    CHECK(listed == most);
    CHECK(std::ranges::is_sorted(peak.largest, std::ranges::greater{},
                                 &program::MemoryPeak::Buffer::bytes));
  }
}

TEST_CASE("a graph without operators has its peak nowhere") {
  const program::MemoryPeak peak = program::find_memory_peak(run_as_written({}), 3);
  CHECK(peak.node.empty());
  CHECK(peak.largest.empty());
}
