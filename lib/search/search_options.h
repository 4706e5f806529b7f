#pragma once

#include <cstdint>
#include <vector>

#include "program/memory_prediction.h"
#include "search/memory_policy.h"
#include "search/partial_flow.h"
#include "search/pins.h"
#include "search/search_report.h"

namespace autopar::search {

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
  /// What a rank's graph needs for a run beside its constants. Only the runtime knows, and it
  /// stands above the search: an inversion of the modules' order, as the evaluator of constant
  /// folding is one. With it the memory limit holds for the peak that is predicted for a plan's
  /// shards (program::predict_peak_bytes), without it for what the search sums itself.
  program::RunBytes run_bytes;
  int microbatches = 1;          ///< in flight: each takes memory on every rank
  std::int64_t rank0_bytes = 0;  ///< that rank 0 needs beside its shard: a tail's weights
  int threads = 0;               ///< 0: as many as the machine has
  bool warns = true;             ///< of operators without a rule, and of an interruption
};

}  // namespace autopar::search
