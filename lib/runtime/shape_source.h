#pragma once

#include <functional>
#include <string>

#include "bundle/meta_info.h"
#include "graph/graph.h"
#include "runtime/session_options.h"

namespace autopar::runtime {

/// What the ranks of a bundle run for inputs of some shapes: what a ShapeSource makes.
struct ShapedProgram {
  bundle::ProfileInfo profile;
  /// A rank's graph. Constants that the rank's files have need no data here.
  std::function<graph::Graph(int rank)> shard;
  /// Tells all ranks' graphs from others: ranks that made different ones must not talk. Empty where
  /// they are files of the bundle.
  std::string digest{};
};

}  // namespace autopar::runtime
