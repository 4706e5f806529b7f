#include <catch2/catch.hpp>

#include "runtime/passes/passes.h"
#include "unit/runtime/kernels_under_test.h"

// Chains of element-wise operators on the device under test, beside the same operators one by one
// on the CPU.

namespace autopar::runtime {
namespace {

using namespace testing;
using graph::Graph;
using graph::ValueId;

/// Random operators whose results are rounded as IEEE 754 tells, so that all devices agree in every
/// bit.
class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : random_(seed) {
    graph_.opsets = {{"", 20}};
    shape_.resize(1 + random_() % 4);
    for (auto& extent : shape_) extent = 1 + random_() % 9;
    if (random_() % 3 == 0) shape_.back() = 8 * (1 + random_() % 12);
    if (random_() % 3 == 0) shape_.back() = 100 + random_() % 400;
    for (auto left = 1 + random_() % 4; left > 0; --left) add_input();
    for (auto left = 1 + random_() % 12; left > 0; --left) add_node();
    graph_.outputs = {values_.back()};
  }

  Graph& graph() { return graph_; }
  const std::vector<Tensor>& inputs() const { return inputs_; }

 private:
  using Names = std::vector<const char*>;

  template <typename T>
  const T& one_of(const std::vector<T>& list) {
    return list[random_() % list.size()];
  }

  DataType random_type() {
    std::vector<DataType> types = float_types;
    types.insert(types.end(), integer_types.begin(), integer_types.end());
    types.push_back(DataType::boolean);
    return random_() % 2 ? one_of(float_types) : one_of(types);
  }

  void add_input() {
    Shape shape = shape_;
    for (auto& extent : shape)
      if (random_() % 3 == 0) extent = 1;
    if (random_() % 4 == 0) shape.erase(shape.begin());
    const DataType type = random_type();
    Tensor tensor = random_in(type, shape, random_, graph::is_floating_point(type) ? -3 : 0, 100);
    if (graph::is_floating_point(type) && tensor.elements() > 2) {
      auto values = doubles(tensor);
      values[0] = NAN;
      values[1] = INFINITY;
      tensor = tensor_of(type, shape, values);
    }
    const auto name = "x" + std::to_string(inputs_.size());
    const ValueId id = graph_.add_value({name, type, shape, std::nullopt});
    graph_.inputs.push_back(id);
    values_.push_back(id);
    inputs_.push_back(std::move(tensor));
  }

  ValueId random_value(DataType type) {
    std::vector<ValueId> fitting;
    for (const ValueId id : values_)
      if (graph_.value(id).type == type) fitting.push_back(id);
    return fitting.empty() ? graph::no_value : one_of(fitting);
  }

  void add_node() {
    // The last result more often than not, so that little is left unread.
    const ValueId x = random_() % 3 ? values_.back() : one_of(values_);
    const DataType type = graph_.value(x).type;
    const ValueId y = random_value(type);
    const ValueId condition = random_value(DataType::boolean);
    const bool is_float = graph::is_floating_point(type);
    const bool is_unsigned = name_of(type)[0] == 'u';
    if (condition != graph::no_value && random_() % 5 == 0)
      return add("Where", {condition, x, y}, type);
    if (random_() % 5 == 0) return add("Cast", {x}, random_type());
    if (type == DataType::boolean) {
      const Names names{"And", "Or", "Xor", "Not", "Equal"};
      const std::string name = one_of(names);
      return add(name, name == "Not" ? std::vector{x} : std::vector{x, y}, type);
    }
    switch (random_() % 5) {
      case 0: {
        const Names names{"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"};
        return add(one_of(names), {x, y}, DataType::boolean);
      }
      case 1:
        return add("Clip", {x, random_() % 2 ? y : graph::no_value, random_value(type)}, type);
      case 2: {
        const Names names = is_float      ? Names{"Abs", "Floor", "Ceil", "Sqrt", "Neg", "Relu"}
                            : is_unsigned ? Names{"Abs", "Sign", "BitwiseNot"}
                                          : Names{"Abs", "Neg", "Relu", "Sign", "BitwiseNot"};
        return add(one_of(names), {x}, type);
      }
      default: {
        const Names all{"Add", "Sub", "Mul", "Div", "Min", "Max", "PRelu"};
        const Names whole{"Add", "Sub", "Mul", "Div", "Mod", "Pow", "BitwiseAnd", "BitwiseXor"};
        return add(one_of(is_float ? all : whole), {x, y}, type);
      }
    }
  }

  void add(const std::string& op_type, const std::vector<ValueId>& inputs, DataType result) {
    const std::string name = op_type + std::to_string(graph_.nodes.size());
    const ValueId output = graph_.add_value({name, result, shape_, std::nullopt});
    graph_.nodes.push_back({name, op_type, "", inputs, {output}, {}});
    values_.push_back(output);
  }

  std::mt19937 random_;
  Shape shape_;
  Graph graph_;
  std::vector<ValueId> values_;
  std::vector<Tensor> inputs_;
};

std::string names_of(const Graph& graph) {
  std::string text;
  for (const graph::Node& node : graph.nodes) {
    text += std::string(name_of(graph.value(node.outputs[0]).type)) + " " + node.op_type + "(";
    for (const ValueId input : node.inputs)
      if (input != graph::no_value) text += " " + graph.value(input).name;
    text += " ) ";
  }
  return text;
}

TEST_CASE("Chains of random operators have the bits of the operators one by one on the CPU") {
  int chains = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    RandomGraph random(seed);
    Graph& graph = random.graph();
    const std::string names = names_of(graph);
    Executable apart(graph, {.optimize = false});
    const Tensor truth = run(apart, graph, random.inputs())[0];
    passes::fuse_elementwise_chains(graph, kernels_under_test());
    remove_dead_nodes(graph);
    for (const graph::Node& node : graph.nodes) chains += node.op_type == "ElementwiseChain";
    Executable fused(graph, {.optimize = false, .device = device_under_test()});
    const Tensor result = run(fused, graph, random.inputs())[0];
    const auto expected = doubles(truth);
    const auto found = doubles(result);
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (found[i] != expected[i] && !(std::isnan(found[i]) && std::isnan(expected[i])))
        FAIL("seed " << seed << ", " << names << "of " << graph::to_string(truth.shape()) << ": "
                     << found[i] << ", not " << expected[i] << " at " << i);
  }
  CHECK(chains > 200);
}

/// tanh-GELU as GPT-2 spells it.
Graph spelled_gelu(DataType type, const Shape& shape) {
  Graph graph;
  graph.opsets = {{"", 20}};
  const auto add = [&](const std::string& op_type, const std::vector<ValueId>& inputs) {
    const std::string name = op_type + std::to_string(graph.nodes.size());
    const ValueId output = graph.add_value({name, type, shape, std::nullopt});
    graph.nodes.push_back({name, op_type, "", inputs, {output}, {}});
    return output;
  };
  const auto scalar = [&](const std::string& name, double value) {
    return graph.add_constant(name, tensor_of(type, {}, {value}));
  };
  const ValueId x = graph.add_value({"x", type, shape, std::nullopt});
  const ValueId half = add("Mul", {x, scalar("half", 0.5)});
  const ValueId scaled = add("Mul", {add("Pow", {x, scalar("three", 3)}), scalar("c", 0.044715)});
  const ValueId inner = add("Mul", {add("Add", {x, scaled}), scalar("root", 0.7978845608)});
  const ValueId shifted = add("Add", {add("Tanh", {inner}), scalar("one", 1)});
  graph.inputs = {x};
  graph.outputs = {add("Mul", {half, shifted})};
  return graph;
}

TEST_CASE("GELU in eight nodes is one chain with the bits of the eight") {
  std::mt19937 random(1);
  for (const DataType type : float_types) {
    Graph graph = spelled_gelu(type, {5, 1001});
    const Tensor x = random_in(type, {5, 1001}, random, -4, 4);
    Executable apart(graph, {.optimize = false, .device = device_under_test()});
    const auto truth = doubles(run(apart, graph, {x})[0]);
    passes::fuse_elementwise_chains(graph, kernels_under_test());
    remove_dead_nodes(graph);
    CHECK(graph.nodes.size() == 1);
    Executable fused(graph, {.optimize = false, .device = device_under_test()});
    CHECK(doubles(run(fused, graph, {x})[0]) == truth);
  }
}

TEST_CASE("Chains are as long as the device serves, and keep as many results as they read") {
  // A tree of sums, its leaves first: all leaves wait for the inner nodes.
  for (std::size_t leaves = 2; leaves < 40; ++leaves) {
    Graph graph;
    graph.opsets = {{"", 20}};
    const ValueId x = graph.add_value({"x", DataType::float32, {333}, std::nullopt});
    const auto add = [&](const std::string& op_type, const std::vector<ValueId>& inputs) {
      const std::string name = op_type + std::to_string(graph.nodes.size());
      const ValueId output = graph.add_value({name, DataType::float32, {333}, std::nullopt});
      graph.nodes.push_back({name, op_type, "", inputs, {output}, {}});
      return output;
    };
    std::vector<ValueId> waiting;
    for (std::size_t i = 0; i < leaves; ++i) {
      const ValueId before = waiting.empty() ? x : waiting.back();
      waiting.push_back(add(i % 2 ? "Neg" : "Floor", {i % 3 ? before : x}));
    }
    while (waiting.size() > 1) {
      const ValueId sum = add("Sub", {waiting.front(), waiting.back()});
      waiting.pop_back();
      waiting.front() = sum;
    }
    graph.inputs = {x};
    graph.outputs = {waiting[0]};
    std::mt19937 random(1);
    const Tensor input = random_in(DataType::float32, {333}, random, -4, 4);
    Executable apart(graph, {.optimize = false});
    const auto truth = doubles(run(apart, graph, {input})[0]);
    passes::fuse_elementwise_chains(graph, kernels_under_test());
    remove_dead_nodes(graph);
    Executable fused(graph, {.optimize = false, .device = device_under_test()});
    CAPTURE(leaves);
    CHECK(doubles(run(fused, graph, {input})[0]) == truth);
    CHECK((graph.nodes.size() == 1) ==
          (2 * leaves <= static_cast<std::size_t>(kernels_under_test().max_chain_slots)));
  }
}

}  // namespace
}  // namespace autopar::runtime
