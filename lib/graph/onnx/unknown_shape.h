#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace autopar::graph {

/// Some shape, or how often something is done, depends on values that are known in a run alone.
struct UnknownShape : Error {
  using Error::Error;
};

/// Throws UnknownShape for an output of a node, which `node` names with its file. Integers among
/// the inputs that are no constants are what the shape may depend on; null for one that is left
/// out.
[[noreturn]] void fail_without_shape(const std::string& node, const std::string& output,
                                     const std::vector<const Value*>& inputs);

}  // namespace autopar::graph
