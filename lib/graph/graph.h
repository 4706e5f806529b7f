#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <variant>
#include <vector>

#include "graph/tensor.h"

namespace autopar::graph {

using ValueId = std::int32_t;
using NodeId = std::int32_t;
/// An optional input or output that is left out.
inline constexpr ValueId no_value = -1;
inline constexpr NodeId no_node = -1;

/// The ONNX domain of the collective operators (see graph/onnx/collective_schemas.h).
inline constexpr const char* collective_domain = "autopar";

using Attribute = std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>,
                               std::vector<float>, std::vector<std::string>, Tensor>;

/// A tensor of the graph: an input, a constant (a weight, or folded) or a node's output.
struct Value {
  std::string name;
  DataType type = DataType::undefined;
  Shape shape;
  std::optional<Tensor> constant;
};

struct LoopBody;  // graph/loop_body.h

struct Node {
  std::string name;
  std::string op_type;
  std::string domain;  ///< "" is ONNX's default domain.
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::map<std::string, Attribute> attributes;
  /// What a Loop that runs as one node computes each round; null for every other node.
  std::shared_ptr<const LoopBody> body = nullptr;

  bool has_attribute(const std::string& key) const { return attributes.contains(key); }
  /// The attribute, or the default where it is absent. Throws Error when it has another type.
  std::int64_t int_attribute(const std::string& key, std::int64_t otherwise) const;
  float float_attribute(const std::string& key, float otherwise) const;
  std::string string_attribute(const std::string& key, const std::string& otherwise) const;
  std::vector<std::int64_t> ints_attribute(const std::string& key,
                                           std::vector<std::int64_t> otherwise) const;
};

/// An output that takes an input's place in the next step of a loop (graph/state.h): a decoder's
/// cache. Indices into Graph::outputs and Graph::inputs.
struct State {
  std::size_t output = 0;
  std::size_t input = 0;
};

/// A model after import: static shapes, no symbolic dimension, no function, no dead node, no nested
/// graph but a Loop's body; names of nodes and values are unique; nodes stand in topological order.
/// Every operator has the form of opset 18 or newer (`opsets` tells which).
struct Graph {
  std::string name;
  std::map<std::string, std::int64_t> opsets;  ///< version by domain
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  /// Their inputs keep their place until the run's end, when the outputs follow them.
  std::vector<State> states;

  const Value& value(ValueId id) const { return values[static_cast<std::size_t>(id)]; }
  Value& value(ValueId id) { return values[static_cast<std::size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes[static_cast<std::size_t>(id)]; }
  Node& node(NodeId id) { return nodes[static_cast<std::size_t>(id)]; }
  ValueId add_value(Value value);
  /// A constant of the wanted name; the name is made unique by a suffix where it is taken. Values
  /// keep their names from the first such call on.
  ValueId add_constant(std::string wanted, Tensor tensor);
  bool is_constant(ValueId id) const { return id != no_value && value(id).constant.has_value(); }

 private:
  friend void remove_dead_nodes(Graph& graph);

  std::unordered_set<std::string> names_;  // of the first `named_` values
  std::size_t named_ = 0;
};

/// "MatMul", or "com.microsoft::FastGelu" outside the default domain.
std::string qualified_op_type(const Node& node);

/// The node that makes each value; no_node for inputs and constants.
std::vector<NodeId> producers(const Graph& graph);
/// The nodes that read each value, in order, a node once for each reading input.
std::vector<std::vector<NodeId>> consumers(const Graph& graph);
/// Bytes of all constants, those of loops' bodies among them.
std::int64_t constant_bytes(const Graph& graph);
/// Only what stands for a trained number counts as a weight: not indices, shapes and masks.
bool holds_weights(DataType type);
/// Bytes of all constants with floating-point or quantised (8 bits or fewer) data, tied ones once.
std::int64_t weight_bytes(const Graph& graph);

/// Throws InternalError where the graph breaks what `Graph` promises.
void check_invariants(const Graph& graph);
/// Drops nodes and values that no output needs, and renumbers. Graph inputs stay, and so do
/// collectives, which other ranks wait for, and nodes without outputs.
void remove_dead_nodes(Graph& graph);

}  // namespace autopar::graph
