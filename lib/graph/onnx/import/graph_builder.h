#pragma once

#include <algorithm>

#include "base/unique_names.h"
#include "graph/graph.h"

namespace autopar::graph {

/// The name that a value gets. The model's own names belong to its values alone; names made up for
/// what comes from inside functions give way to them.
struct ValueName {
  std::string text;
  bool is_models = false;
};

/// The names of values and nodes of a graph and the bodies of its loops together.
struct TakenNames {
  std::unordered_set<std::string> reserved;  ///< kept for values of the model
  UniqueNames values;
  UniqueNames nodes;
};

/// A Graph in the making: keeps the names of values and nodes unique.
class GraphBuilder {
 public:
  GraphBuilder() : names_(std::make_shared<TakenNames>()) {}
  /// A builder for the body of a loop of this graph, whose names differ from all others.
  GraphBuilder for_body() const;

  /// Keeps a name for the value of the model that bears it.
  void reserve(const std::string& name);

  ValueId add_value(const ValueName& name, DataType type, Shape shape);
  ValueId add_input(const ValueName& name, DataType type, Shape shape);
  /// `from_file` marks tensors that the file holds, as against folded ones.
  ValueId add_constant(const ValueName& name, Tensor tensor, bool from_file);
  /// Gives the node a name where it has none and a suffix where it is taken.
  void add_node(Node node);

  std::size_t nodes() const { return graph_.nodes.size(); }
  const Value& value(ValueId id) const { return graph_.value(id); }
  bool is_constant(ValueId id) const { return graph_.is_constant(id); }
  bool is_input(ValueId id) const {
    return std::ranges::find(graph_.inputs, id) != graph_.inputs.end();
  }
  /// Whether the file holds the constant.
  bool is_from_file(ValueId id) const { return from_file_.contains(id); }
  const std::unordered_set<ValueId>& constants_from_file() const { return from_file_; }
  /// A matrix (or more) of numbers from the file that training may have made.
  bool is_weight_matrix(ValueId id) const;

  /// The graph, whose outputs are called as given; an Identity makes those that no node makes or
  /// that are outputs already. Nothing may be added afterwards.
  Graph finish(const std::vector<std::pair<std::string, ValueId>>& outputs);
  /// The graph of a loop's body, whose outputs keep their names: an Identity makes those that no
  /// node makes or that are outputs already.
  Graph finish_body(const std::vector<ValueId>& outputs);

  /// The names of this graph and the loops' bodies around it.
  TakenNames& names() const { return *names_; }
  /// Gives back the names of all that was added here: it is thrown away.
  void release_names();

 private:
  std::string take(const ValueName& name);

  /// Appends an Identity that makes a copy of the value under the name.
  void add_copied_output(ValueId id, const std::string& name);

  Graph graph_;
  std::shared_ptr<TakenNames> names_;
  std::unordered_set<ValueId> from_file_;
};

}  // namespace autopar::graph
