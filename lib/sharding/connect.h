#pragma once

#include <vector>

#include "sharding/reshard_step.h"

namespace autopar::sharding {

struct Connection {
  std::vector<ReshardStep> steps;
  double seconds = 0;
};

/// Whether some chain of steps leads from `src` to `dst`: values can be reduced, but what is not
/// partial over an axis does not become so, a replicated value least of all.
bool can_connect(const TensorShardSpec& src, const TensorShardSpec& dst);

/// The cheapest chain of steps from `src` to `dst`, by Dijkstra's algorithm over the specs that
/// single steps reach. InternalError where can_connect says no, or no step that there is leads on.
Connection connect(const TensorShardSpec& src, const TensorShardSpec& dst, const Shape& shape,
                   graph::DataType type, const DeviceMesh& mesh, const StepPrice& price);

}  // namespace autopar::sharding
