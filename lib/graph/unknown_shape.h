#pragma once

#include "graph/error.h"

namespace autopar::graph {

/// Some shape, or how often something is done, depends on values that are known in a run alone.
struct UnknownShape : Error {
  using Error::Error;
};

}  // namespace autopar::graph
