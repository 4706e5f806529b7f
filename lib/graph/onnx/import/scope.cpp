#include "graph/onnx/import/scope.h"

namespace autopar::graph {

std::optional<ScopedValue> Scope::find(const std::string& name) const {
  for (const Scope* scope = this; scope; scope = scope->parent)
    if (const auto found = scope->values.find(name); found != scope->values.end())
      return ScopedValue{found->second, scope->depth};
  return std::nullopt;
}

ValueName Scope::name_outside(const std::string& name) const {
  if (prefix.empty()) return {name, true};
  const auto found = outer_names.find(name);
  return found != outer_names.end() ? found->second : ValueName{prefix + name, false};
}

}  // namespace autopar::graph
