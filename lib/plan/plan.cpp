#include "plan/plan.h"

#include <algorithm>

#include "base/error.h"

namespace autopar::plan {

const sharding::TensorShardSpec& Plan::spec_of(const graph::Graph& graph,
                                               graph::ValueId value) const {
  if (const auto found = stored.find(value); found != stored.end()) return found->second;
  for (std::size_t id = 0; id < graph.nodes.size(); ++id) {
    const auto& outputs = graph.nodes[id].outputs;
    const auto found = std::ranges::find(outputs, value);
    if (found != outputs.end()) {
      return operators[id].outputs[found - outputs.begin()];
    }
  }
  throw InternalError("internal error: a value is stored or has a producer");
}

}  // namespace autopar::plan
