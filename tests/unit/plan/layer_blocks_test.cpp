#include "plan/layer_blocks.h"

#include <catch2/catch.hpp>
#include <string>

using namespace autopar;
using plan::LayerBlock;

namespace {

/// Operators one behind the other, on tensors of one shape.
class Chain {
 public:
  Chain() { graph_.inputs = {last_ = value("x")}; }

  Chain& add(const std::string& name, const std::string& op_type) {
    const graph::ValueId made = value(name + ":0");
    graph_.nodes.push_back({name, op_type, "", {last_}, {made}, {}});
    last_ = made;
    plan_.operators.emplace_back();
    return *this;
  }
  Chain& add_layers(int count, const std::string& name) {
    for (int layer = 0; layer < count; ++layer)
      for (const char* op_type : {"MatMul", "Gelu", "Softmax", "Add", "Relu"})
        add(name + std::to_string(layer) + "/" + op_type, op_type);
    return *this;
  }
  /// The operator is split otherwise than others.
  Chain& split(std::size_t node) {
    plan_.operators[node].computed = {sharding::TensorShardSpec::parse("S0R")};
    return *this;
  }
  std::vector<LayerBlock> blocks() {
    graph_.outputs = {last_};
    return plan::layer_blocks(graph_, plan_);
  }

 private:
  graph::ValueId value(const std::string& name) {
    return graph_.add_value({name, graph::DataType::float32, {4, 4}, std::nullopt});
  }

  graph::Graph graph_;
  plan::Plan plan_;
  graph::ValueId last_ = graph::no_value;
};

}  // namespace

TEST_CASE(
    "repeated layers are one block, with what is before and behind them in blocks of its own") {
  const auto blocks =
      Chain().add("embed", "Tanh").add_layers(6, "/h.").add("head", "Sigmoid").blocks();
  REQUIRE(blocks.size() == 3);
  CHECK(blocks[1].first == 1);
  CHECK(blocks[1].operators == 5);
  CHECK(blocks[1].repeats == 6);
  CHECK(blocks[1].name == "/h.*");
  CHECK(blocks[2].first == 31);
  CHECK(blocks[2].end() == 32);
}

TEST_CASE("a layer that is split otherwise begins a new block") {
  const auto blocks = Chain().add_layers(6, "/h.").split(12).blocks();  // in layer 2
  REQUIRE(blocks.size() == 3);
  CHECK(blocks[0].repeats == 2);
  CHECK(blocks[0].name == "/h.*");
  CHECK(blocks[1].repeats == 1);
  CHECK(blocks[1].name == "/h.2");
  CHECK(blocks[2].repeats == 3);
}

TEST_CASE("encoder and decoder are found one by one") {
  const auto blocks = Chain()
                          .add_layers(4, "/encoder/")
                          .add("bridge", "Tanh")
                          .add("a", "Sigmoid")
                          .add("b", "Exp")
                          .add_layers(3, "/decoder/")
                          .blocks();
  REQUIRE(blocks.size() == 3);
  CHECK(blocks[0].repeats == 4);
  CHECK(blocks[1].operators == 3);
  CHECK(blocks[2].repeats == 3);
}

TEST_CASE("what is not repeated is cut into pieces; blocks cover the graph in order") {
  Chain chain;
  for (int i = 0; i < 100; ++i) chain.add("n" + std::to_string(i), "Op" + std::to_string(i));
  const auto blocks = chain.blocks();
  CHECK(blocks.size() > 2);
  graph::NodeId next = 0;
  for (const LayerBlock& block : blocks) {
    CHECK(block.first == next);
    CHECK(block.repeats == 1);
    CHECK(block.operators <= 36);
    next = block.end();
  }
  CHECK(next == 100);
  CHECK(Chain().blocks().empty());
}
