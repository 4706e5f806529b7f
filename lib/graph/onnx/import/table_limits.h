#pragma once

#include <optional>

#include "graph/onnx/node_inference.h"

namespace autopar::graph {

/// A node that reads beyond the end of what it reads from.
struct BrokenLimit {
  std::string table;        ///< what it reads from
  std::int64_t needed = 0;  ///< rows
  std::int64_t rows = 0;    ///< that there are
};

/// A read of the node that is known, before a run, to go wrong: by constant indices, or beyond a
/// table of positions. Shapes that somebody gave may be buffers of which a run fills a part,
/// so that this is asked where shapes are assumed.
std::optional<BrokenLimit> find_broken_limit(const NodeInContext& context);

}  // namespace autopar::graph
