#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/cost_model.h"
#include "graph/graph.h"
#include "search/plan.h"

namespace autopar::search {

/// `--memory`: `fair` is 1.25/N of the weights a rank beside the device's capacity, `device` the
/// capacity alone, a size the limit of weights and activations together.
struct MemoryPolicy {
  enum class Kind { fair, device, bytes } kind = Kind::fair;
  std::int64_t bytes = 0;
  /// "fair", "device", "80GiB", "500MB", "1048576"; throws Error that shows the forms.
  static MemoryPolicy parse(const std::string& text);
};

struct SearchOptions {
  MemoryPolicy memory;
  std::vector<Pin> pins;
  double time_limit_seconds = 60;
};

/// The best plan of the strategy space under the cost model. Throws Error where a pin names no
/// operator or leaves one without a strategy, and where nothing fits the memory limit (with the
/// smallest limit that something fits). Operators without a rule are run replicated and named in
/// one warning.
Plan search_plan(const graph::Graph& graph, const cost::CostModel& cost,
                 const SearchOptions& options);

}  // namespace autopar::search
