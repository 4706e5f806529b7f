#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "graph/graph.h"

namespace autopar::graph {

/// The name that a value gets. The model's own names belong to its values alone; names made up for
/// what comes from inside functions give way to them.
struct ValueName {
  std::string text;
  bool is_models = false;
};

/// A value that a scope's name stands for, and the depth of the graph that has it.
struct ScopedValue {
  ValueId id = no_value;
  int depth = 0;
};

/// The names that nodes of one ONNX graph or function body see, and how they are called outside.
struct Scope {
  const Scope* parent = nullptr;  ///< what the branches of an If see as well
  std::map<std::string, std::int64_t> opsets;
  int depth = 0;    ///< of the graph that its values are in: 0 the model's, 1 a loop's body there
  int nesting = 0;  ///< functions and nested graphs that it is within
  std::string prefix;  ///< of names from inside, "layer_0/"; empty in the model's own graph
  std::unordered_map<std::string, ValueId> values;  ///< no_value: an input that is left out
  /// What the body's results are called by its caller.
  std::unordered_map<std::string, ValueName> outer_names;

  /// Nothing where the name is not defined.
  std::optional<ScopedValue> find(const std::string& name) const;
  ValueName name_outside(const std::string& name) const;
};

}  // namespace autopar::graph
