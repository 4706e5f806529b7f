#include "sharding/rewrites/rewrites.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "unit/sharding/node_sketch.h"

using namespace autopar;
using namespace autopar::sharding;

namespace {

graph::Graph product(graph::Tensor scales, std::optional<graph::Tensor> zeros) {
  graph::Graph graph =
      sketch("MatMulNBits", {of({4, 64}), of({6, 4, 8}, graph::DataType::uint8)}, {of({4, 6})},
             {{"K", std::int64_t{64}},
              {"N", std::int64_t{6}},
              {"block_size", std::int64_t{16}},
              {"bits", std::int64_t{4}}});
  graph.nodes[0].domain = "com.microsoft";
  graph.nodes[0].inputs.push_back(graph.add_constant("scales", std::move(scales)));
  if (zeros) graph.nodes[0].inputs.push_back(graph.add_constant("zeros", std::move(*zeros)));
  return graph;
}

graph::Tensor counting(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(graph::num_elements(shape)));
  std::iota(values.begin(), values.end(), 0.0F);
  return graph::Tensor::of_float(shape, values);
}

}  // namespace

TEST_CASE("flat scales and zero points of packed weights get a row for each column") {
  graph::Graph graph = product(counting({24}), graph::Tensor::zeros(graph::DataType::uint8, {12}));
  CHECK(texts_of(graph) ==
        std::vector<std::string>{"RR,RRR,R,R->RR", "S0R,RRR,R,R->S0R", "RR,S0RR,S0,S0->RS0"});
  unflatten_packed_scales(graph);
  graph::check_invariants(graph);
  const graph::Node& node = graph.nodes[0];
  CHECK(graph.value(node.inputs[2]).shape == Shape{6, 4});
  CHECK(graph.value(node.inputs[3]).shape == Shape{6, 2});
  const graph::Tensor& scales = *graph.value(node.inputs[2]).constant;
  CHECK(scales.values<float>()[23] == 23);
  // Two blocks share a byte of zero points, so that a share has a multiple of two.
  CHECK(texts_of(graph) == std::vector<std::string>{"RR,RRR,RR,RR->RR", "S0R,RRR,RR,RR->S0R",
                                                    "RS0,RS0R,RS0,RS0->RR all-reduce",
                                                    "RS0,RS0R,RS0,RS0->S0R reduce-scatter",
                                                    "RS0,RS0R,RS0,RS0->RS0 reduce-scatter",
                                                    "RR,S0RR,S0R,S0R->RS0"});
  CHECK(texts_of(graph, DeviceMesh({4})).size() == 2);
}

TEST_CASE("what has rows already, or no sense, stays as it is") {
  graph::Graph by_row = product(counting({6, 4}), std::nullopt);
  const auto inputs = by_row.nodes[0].inputs;
  unflatten_packed_scales(by_row);
  CHECK(by_row.nodes[0].inputs == inputs);
  graph::Graph odd = product(counting({23}), std::nullopt);
  unflatten_packed_scales(odd);
  CHECK(odd.value(odd.nodes[0].inputs[2]).shape == Shape{23});
}
