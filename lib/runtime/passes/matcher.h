#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/passes/passes.h"

namespace autopar::runtime::passes {

/// A node of ONNX's domain, of that type.
inline bool is_onnx(const Node& node, std::string_view op_type) {
  return node.domain.empty() && node.op_type == op_type;
}

inline bool has_input(const Node& node, std::size_t i) {
  return node.inputs.size() > i && node.inputs[i] != graph::no_value;
}

/// Whether a Gemm multiplies its product or its addend.
inline bool is_scaled(const Node& gemm) {
  return gemm.float_attribute("alpha", 1) != 1 ||
         (has_input(gemm, 2) && gemm.float_attribute("beta", 1) != 1);
}

/// Whether `wide` is float32 or float64 and has all numbers of `narrow`, a floating type of fewer
/// bits.
bool holds_all_of(DataType wide, DataType narrow);

/// Whether it is 0 or far from the ends of every floating type but the half ones: a product of a
/// few such numbers neither overflows nor vanishes.
bool is_moderate(double factor);

/// Reads a graph from a result back to what it was computed from: how passes recognise an operator
/// that an exporter has written out. Who makes and who reads a value is told of the graph as it was
/// when this was made; values that came later have no maker and no readers.
class Matcher {
 public:
  explicit Matcher(const Graph& graph);

  const graph::Value& value(ValueId id) const { return graph_.value(id); }
  const std::map<std::string, std::int64_t>& opsets() const { return graph_.opsets; }
  const Shape& shape(ValueId value) const { return graph_.value(value).shape; }
  DataType type(ValueId value) const { return graph_.value(value).type; }
  bool is_constant(ValueId value) const { return graph_.is_constant(value); }
  /// Whether it is a constant that can be read: where memory is predicted it may be absent.
  bool has_data(ValueId value) const {
    return is_constant(value) && graph_.value(value).constant->has_data();
  }
  /// A contiguous copy of such a constant; nullopt for other values.
  std::optional<graph::Tensor> data(ValueId value) const;

  /// no_node for inputs and constants.
  NodeId producer(ValueId value) const;
  const std::vector<NodeId>& readers(ValueId value) const;
  /// The only one of a value that is read once.
  const Node& reader(ValueId value) const { return graph_.node(readers(value)[0]); }
  /// Whether the value is an output of the graph.
  bool is_output(ValueId value) const {
    return is_known(value) && is_output_[static_cast<std::size_t>(value)];
  }
  bool is_read_once(ValueId value) const { return readers(value).size() == 1 && !is_output(value); }

  /// The node that makes the value; null where none does.
  const Node* maker(ValueId value) const;
  /// The same; null too where it is not a node of ONNX's domain and that type.
  const Node* maker(ValueId value, std::string_view op_type) const;
  /// Whether it is a MatMul or FusedMatMul of matrices.
  bool is_product(const Node& node) const;
  /// The MatMul, or FusedMatMul without bias, activation and permutation, that makes the value.
  const Node* product(ValueId value) const;
  /// Where the node's operands may stand either way round: the other operand, where `is_wanted`
  /// holds for one of the two.
  template <typename Predicate>
  std::optional<ValueId> beside(const Node* node, Predicate is_wanted) const {
    if (node == nullptr || node->inputs.size() != 2) return std::nullopt;
    if (is_wanted(node->inputs[1])) return node->inputs[0];
    if (is_wanted(node->inputs[0])) return node->inputs[1];
    return std::nullopt;
  }

  /// The only element of a constant of numbers.
  std::optional<double> number(ValueId value) const;
  /// Whether it is that number exactly.
  bool is_number(ValueId value, double expected) const { return number(value) == expected; }
  /// Whether a float attribute says the number as exactly as a value of this type would.
  static bool is_attribute(double number, DataType type) {
    return type != DataType::float64 || static_cast<double>(static_cast<float>(number)) == number;
  }
  /// The value that this is a multiple of, and the multiple: through Mul and Div by numbers, as
  /// long as all factors together are moderate.
  struct Multiple {
    ValueId of = graph::no_value;
    double factor = 1;
  };
  /// Itself, once, where it is not made so.
  Multiple multiple(ValueId value) const;
  /// The value before all Casts to floating types that hold its numbers: the same numbers.
  ValueId before_widening(ValueId value) const;
  /// The value before all Casts from one floating type to another, which may have rounded it.
  ValueId uncast(ValueId value) const;
  /// The dimensions that a reduction (ReduceMax, ...) is over, in order; nullopt where these are
  /// not constant. Empty where the node names none.
  std::optional<std::vector<std::int64_t>> reduced_axes(const Node& reduction) const;
  /// The input of a mean over the last dimension alone, which is kept.
  std::optional<ValueId> mean_of(ValueId value) const;

  /// Whether all that lies between the leaves and the node that makes `root`, constants apart, is
  /// read there alone: then nothing is computed twice when one node replaces it.
  bool is_closed(ValueId root, std::span<const ValueId> leaves) const;

 private:
  /// Through one Mul or Div.
  std::optional<Multiple> one_multiple(ValueId value) const;
  bool is_known(ValueId value) const { return static_cast<std::size_t>(value) < producers_.size(); }

  const Graph& graph_;
  std::vector<NodeId> producers_;
  std::vector<std::vector<NodeId>> readers_;
  std::vector<bool> is_output_;
};

/// Nodes that a pass puts between those of the graph, whose numbers hold until apply().
class Insertions {
 public:
  /// `node` may be the one behind the last.
  void before(NodeId node, Node inserted) { inserted_.emplace_back(node, std::move(inserted)); }
  /// A Reshape of the value, whose name ends in `suffix`; itself where it has the shape.
  ValueId reshape_before(NodeId node, Graph& graph, ValueId value, const Shape& shape,
                         std::string_view suffix);
  void append(Insertions more);
  /// The new nodes stand in the order in which they came.
  void apply(Graph& graph);

 private:
  std::vector<std::pair<NodeId, Node>> inserted_;
};

/// A pass at work on a graph, for a device.
struct Pass : Matcher {
  Pass(Graph& of, const KernelTable& table) : Matcher(of), graph(of), kernels(table) {}
  /// Whether the device has a kernel for a node of the graph as it would be, and it pays.
  bool can_run(const Node& node) const;
  std::optional<Node> if_it_runs(Node node) const;

  Graph& graph;
  const KernelTable& kernels;
  Insertions insertions;  ///< which are made when the pass ends
};

/// What a node gives way to: one with the same outputs. nullopt where it stays.
using NodeRewrite = std::function<std::optional<Node>(Pass& pass, const Node& node)>;
/// Rewrites node after node, in this order or the other way round.
void rewrite_nodes(Graph& graph, const KernelTable& kernels, const NodeRewrite& rewrite);
void rewrite_nodes_from_last(Graph& graph, const KernelTable& kernels, const NodeRewrite& rewrite);

/// A kernel's request.
TensorView view_of(const Graph& graph, ValueId value);
bool can_run(const KernelTable& kernels, const Graph& graph, const Node& node);

/// A Reshape of `from` that makes `to`, whose shape it takes.
Node reshape_node(Graph& graph, const std::string& name, ValueId from, ValueId to);

}  // namespace autopar::runtime::passes
