#pragma once

#include <string>
#include <vector>

#include "base/unique_names.h"
#include "graph/graph.h"

namespace autopar::graph {

/// A graph whose nodes are replaced by others, in their order.
class GraphRewriter {
 public:
  explicit GraphRewriter(Graph& graph);

  Graph& graph() { return graph_; }
  const Value& value(ValueId id) const { return graph_.value(id); }
  void append(Node node) { nodes_.push_back(std::move(node)); }
  /// A name of a node that no other has.
  std::string name(const std::string& wanted) { return names_.take(wanted); }
  /// The name of a node that goes.
  void release(const std::string& name) { names_.release(name); }
  /// An integer constant of one dimension.
  ValueId integers(const std::string& wanted, const std::vector<std::int64_t>& numbers);
  /// Puts the appended nodes in place of the graph's.
  void finish();

 private:
  Graph& graph_;
  UniqueNames names_{"#"};
  std::vector<Node> nodes_;
};

/// A tensor on its way through nodes of one input and one output each.
class NodeChain {
 public:
  /// Nodes are called after `name`.
  NodeChain(GraphRewriter& rewriter, std::string name, ValueId from);

  ValueId at() const { return at_; }
  const Shape& shape() const { return rewriter_.value(at_).shape; }
  DataType type() const { return rewriter_.value(at_).type; }
  const std::string& name() const { return name_; }

  /// Nothing where the tensor has that shape already.
  NodeChain& reshape(const Shape& shape);
  /// Nothing where the permutation changes none.
  NodeChain& transpose(const std::vector<std::int64_t>& permutation);
  NodeChain& cast(DataType type);
  NodeChain& expand(const Shape& shape);
  /// The part of no elements of a tensor of one dimension.
  NodeChain& nothing();
  /// Along dimension 0.
  NodeChain& append(ValueId other);
  /// Any other node, which gives the shape; `inputs` come behind the tensor. Its name is the
  /// chain's.
  NodeChain& through(Node node, Shape shape);
  /// The last node makes `to`. A chain without nodes becomes an Identity.
  void end_in(ValueId to);

 private:
  NodeChain& add(const char* op_type, const char* suffix, std::vector<ValueId> more,
                 std::map<std::string, Attribute> attributes, Shape shape, DataType type);
  NodeChain& add(Node node, Shape shape, DataType type);

  GraphRewriter& rewriter_;
  const std::string name_;
  ValueId at_;
  std::vector<Node> nodes_;
};

}  // namespace autopar::graph
