#include "graph/runtimes/attention_masks.h"

#include <catch2/catch.hpp>

using namespace autopar;
using graph::Graph;
using graph::Shape;
using graph::ValueId;

namespace {

/// Attention of 4 queries and 6 keys, 2 heads of 8, with a mask of that shape.
Graph attention(const Shape& query, const Shape& mask) {
  Graph g;
  g.opsets = {{"", 23}};
  const auto input = [&](const char* name, const Shape& shape) {
    const ValueId id = g.add_value({name, graph::DataType::float32, shape, std::nullopt});
    g.inputs.push_back(id);
    return id;
  };
  Shape key = query;
  key[key.size() - 2] = 6;
  const std::vector<ValueId> inputs = {input("q", query), input("k", key), input("v", key),
                                       input("mask", mask)};
  const ValueId y = g.add_value({"y", graph::DataType::float32, query, std::nullopt});
  g.nodes.push_back({"attention", "Attention", "", inputs, {y}, {}});
  g.outputs = {y};
  return g;
}

Shape mask_of(const Graph& graph) { return graph.value(graph.nodes.back().inputs.at(3)).shape; }

/// The shape of the mask that the Attention reads with its rows repeated.
Shape mask_read(Graph graph) {
  const Shape before = mask_of(graph);
  repeat_rows_of_attention_masks(graph);
  check_invariants(graph);
  Shape repeated = mask_of(graph);
  drop_repeated_rows_of_attention_masks(graph);
  check_invariants(graph);
  CHECK(mask_of(graph) == before);
  CHECK(graph.nodes.size() == 1);
  CHECK(graph.values.size() == 5);
  return repeated;
}

}  // namespace

TEST_CASE("A mask of one row is repeated for all queries, and others are left as they are") {
  CHECK(mask_read(attention({2, 4, 16}, {2, 1, 1, 6})) == Shape{2, 1, 4, 6});
  CHECK(mask_read(attention({2, 2, 4, 8}, {1, 6})) == Shape{4, 6});
  for (const Shape& mask : {Shape{4, 6}, Shape{1, 4, 6}, Shape{2, 2, 4, 6}}) {
    Graph graph = attention({2, 4, 16}, mask);
    repeat_rows_of_attention_masks(graph);
    CHECK(graph.nodes.size() == 1);
  }
}

TEST_CASE("A mask that is repeated for keys or heads stays as it is") {
  for (const Shape& narrow : {Shape{2, 1, 4, 1}, Shape{1, 1, 4, 6}}) {
    Graph graph = attention({2, 4, 16}, narrow);
    const ValueId wide =
        graph.add_value({"wide", graph::DataType::float32, {2, 1, 4, 6}, std::nullopt});
    const ValueId shape = graph.add_constant(
        "shape", graph::Tensor::of_int64({4}, std::vector<std::int64_t>{2, 1, 4, 6}));
    graph.nodes.insert(graph.nodes.begin(),
                       {"expand", "Expand", "", {graph.inputs[3], shape}, {wide}, {}});
    graph.nodes.back().inputs[3] = wide;
    drop_repeated_rows_of_attention_masks(graph);
    CHECK(graph.nodes.size() == 2);
    CHECK(mask_of(graph) == Shape{2, 1, 4, 6});
  }
}

TEST_CASE("A mask of one query's row is not repeated") {
  CHECK(mask_read(attention({2, 1, 16}, {2, 1, 1, 6})) == Shape{2, 1, 1, 6});
}
