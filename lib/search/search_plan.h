#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cost/cost_model.h"
#include "graph/graph.h"
#include "graph/stage_graph.h"
#include "plan/plan.h"
#include "program/memory_prediction.h"
#include "search/memory_policy.h"
#include "search/partial_flow.h"
#include "search/pins.h"

namespace autopar::search {

/// `ilp` is exact; the others are quick and promise nothing (propagation.h, recursive.h).
enum class SearchMethod { ilp, propagation, recursive };
std::string_view name_of(SearchMethod method);  ///< "ilp", "propagation", "recursive"

struct SearchOptions {
  SearchMethod method = SearchMethod::ilp;
  bool presolve = true;  ///< false: GLPK is handed the whole ILP
  /// Searches exactly too, within the time limit, for the lower bound of a method without one. It
  /// has the sum of the operators' least costs otherwise.
  bool bound = false;
  MemoryPolicy memory;
  std::vector<Pin> pins;
  KeepPartial keep_partial = KeepPartial::where_it_may_save;  ///< anywhere if a pin asks for it
  double time_limit_seconds = 60;
  /// What a rank's graph needs for a run beside its constants. The runtime alone knows, and it
  /// stands above the search: an inversion of the modules' order, as the evaluator of constant
  /// folding is one below. With it the memory limit holds for the peak that is predicted for a
  /// plan's shards (program::predict_peak_bytes), without it for what the search sums itself.
  program::RunBytes run_bytes;
  int microbatches = 1;          ///< in flight: each takes memory on every rank
  std::int64_t rank0_bytes = 0;  ///< that rank 0 needs beside its shard: a tail's weights
  int threads = 0;               ///< 0: as many as the machine has
  bool warns = true;             ///< of operators without a rule, and of an interruption
};

/// One line that names the operators without a rule and counts them; none where there are none.
void warn_of_missing_rules(const graph::Graph& graph);

/// No plan fits the memory limit.
struct NothingFits : Error {
  NothingFits(const std::string& message, std::int64_t bytes, bool proven)
      : Error(message), least_bytes(bytes), is_proven(proven) {}
  std::int64_t least_bytes;  ///< the smallest limit that is known to be enough
  bool is_proven;            ///< false: as far as the time limit let see
};

/// The best plan of the strategy space under the cost model, or what a quicker method takes for
/// one. Throws Error where a pin names no operator or leaves one without a strategy, and
/// NothingFits. Operators without
/// a rule are run replicated and named in one warning.
plan::Plan search_plan(const graph::Graph& graph, const cost::CostModel& cost,
                       const SearchOptions& options);
/// The same for a pipeline's stage. What arrives there is stored in a spec of
/// sharding::receive_specs, however small it is, and no pin is for it.
plan::Plan search_plan(const graph::StageGraph& stage, const cost::CostModel& cost,
                       const SearchOptions& options);

}  // namespace autopar::search
