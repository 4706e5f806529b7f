#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace autopar::graph {

/// The name that a value gets. The model's own names belong to its values alone; names made up for
/// what comes from inside functions give way to them.
struct ValueName {
  std::string text;
  bool is_models = false;
};

/// The names that nodes of one ONNX graph or function body see, and how they are called outside.
struct Scope {
  const Scope* parent = nullptr;  ///< what the branches of an If see as well
  std::map<std::string, std::int64_t> opsets;
  std::string prefix;  ///< of names from inside, "layer_0/"; empty in the model's own graph
  std::unordered_map<std::string, ValueId> values;  ///< no_value: an input that is left out
  /// What the body's results are called by its caller.
  std::unordered_map<std::string, ValueName> outer_names;

  /// Nothing where the name is not defined.
  std::optional<ValueId> find(const std::string& name) const;
  ValueName name_outside(const std::string& name) const;
};

/// A Graph in the making: keeps the names of values and nodes unique.
class GraphBuilder {
 public:
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
  /// A matrix (or more) of numbers from the file that training may have made.
  bool is_weight_matrix(ValueId id) const;

  /// The graph, whose outputs are called as given; an Identity makes those that no node makes or
  /// that are outputs already. Nothing may be added afterwards.
  Graph finish(const std::vector<std::pair<std::string, ValueId>>& outputs);

 private:
  static std::string unique(const std::string& name, std::unordered_set<std::string>& taken);
  std::string take(const ValueName& name);

  Graph graph_;
  std::unordered_set<std::string> reserved_names_;
  std::unordered_set<std::string> value_names_;
  std::unordered_set<std::string> node_names_;
  std::unordered_set<ValueId> from_file_;
};

}  // namespace autopar::graph
