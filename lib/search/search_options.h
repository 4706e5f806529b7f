#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/stopwatch.h"
#include "cost/device_model.h"
#include "program/memory_prediction.h"
#include "search/partial_flow.h"
#include "search/pins.h"
#include "search/search_report.h"

namespace autopar::search {

/// `--memory`: `fair` is 1.25/N of the weights a rank (FairLimit) beside the device's capacity,
/// `device` the capacity alone, a size the limit of weights and activations together.
struct MemoryPolicy {
  enum class Kind { fair, device, bytes } kind = Kind::fair;
  std::int64_t bytes = 0;
  /// "fair", "device", "80GiB", "500MB", "1048576"; throws Error that shows the forms.
  static MemoryPolicy parse(const std::string& text);
  static MemoryPolicy unlimited() {
    return {Kind::bytes, std::numeric_limits<std::int64_t>::max()};
  }
};

/// Bytes of a device that weights and activations together may take.
std::int64_t limit_of(const MemoryPolicy& memory, const cost::DeviceModel& device);

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

/// The options with a time limit that ends when this share of the time left has passed. Time is
/// counted from the stopwatch's start.
SearchOptions within_share(const SearchOptions& options, const Stopwatch& stopwatch, double share);

}  // namespace autopar::search
