#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/kernel.h"
#include "runtime/passes/value_uses.h"

namespace autopar::runtime::passes {

/// Reads a graph from a result back to what it was computed from: how passes recognise an operator
/// that an exporter has written out. It sees the graph as it was when this was made.
class Matcher {
 public:
  explicit Matcher(const graph::Graph& graph) : graph_(graph), uses_(graph) {}

  const ValueUses& uses() const { return uses_; }
  const Shape& shape(graph::ValueId value) const { return graph_.value(value).shape; }
  DataType type(graph::ValueId value) const { return graph_.value(value).type; }

  /// The node of ONNX's domain, of that type and with that many outputs in use, that makes the
  /// value; null where another does or none.
  const graph::Node* maker(graph::ValueId value, std::string_view op_type) const;
  /// The MatMul, or FusedMatMul without bias, activation and permutation, that makes the value.
  const graph::Node* product(graph::ValueId value) const;
  /// Where the node's operands may stand either way round: the other operand, where `is_wanted`
  /// holds for one of the two.
  template <typename Predicate>
  std::optional<graph::ValueId> beside(const graph::Node* node, Predicate is_wanted) const {
    if (node == nullptr || node->inputs.size() != 2) return std::nullopt;
    if (is_wanted(node->inputs[1])) return node->inputs[0];
    if (is_wanted(node->inputs[0])) return node->inputs[1];
    return std::nullopt;
  }

  /// The only element of a constant of numbers.
  std::optional<double> number(graph::ValueId value) const;
  /// Whether it is that number exactly.
  bool is_number(graph::ValueId value, double expected) const;
  /// Whether a float attribute says the number as exactly as a value of this type would.
  static bool is_attribute(double number, DataType type) {
    return type != DataType::float64 || static_cast<double>(static_cast<float>(number)) == number;
  }
  /// The value that this is a multiple of, and the multiple: through Mul and Div by numbers.
  struct Multiple {
    graph::ValueId of = graph::no_value;
    double factor = 1;
  };
  /// Itself, once, where it is not made so.
  Multiple multiple(graph::ValueId value) const;
  /// The value before all Casts from one floating type to another.
  graph::ValueId uncast(graph::ValueId value) const;
  /// The input of a mean over the last dimension alone, which is kept.
  std::optional<graph::ValueId> mean_of(graph::ValueId value) const;

  /// Whether all that lies between the leaves and the node that makes `root`, constants apart, is
  /// read there alone: then nothing is computed twice when one node replaces it.
  bool is_closed(graph::ValueId root, std::span<const graph::ValueId> leaves) const;

 private:
  const graph::Graph& graph_;
  ValueUses uses_;
};

/// A kernel's request.
TensorView view_of(const graph::Graph& graph, graph::ValueId value);

/// Whether the device has a kernel for a node of the graph as it would be, and it pays.
bool can_run(const KernelTable& kernels, const graph::Graph& graph, const graph::Node& node);

/// A Reshape of `from` that makes `to`, whose shape it takes.
graph::Node reshape_node(graph::Graph& graph, const std::string& name, graph::ValueId from,
                         graph::ValueId to);

/// Nodes that a pass puts between those of the graph, whose numbers hold until apply().
class Insertions {
 public:
  void before(graph::NodeId node, graph::Node inserted) {
    inserted_.emplace_back(node, std::move(inserted));
  }
  /// A Reshape of the value, whose name ends in `suffix`; itself where it has the shape.
  graph::ValueId reshape_before(graph::NodeId node, graph::Graph& graph, graph::ValueId value,
                                const Shape& shape, std::string_view suffix);
  void append(Insertions more);
  /// The new nodes stand in the order in which they came.
  void apply(graph::Graph& graph);

 private:
  std::vector<std::pair<graph::NodeId, graph::Node>> inserted_;
};

}  // namespace autopar::runtime::passes
