#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bundle/meta_info.h"
#include "graph/tensor.h"
#include "runtime/comm/communicator.h"
#include "runtime/rank_device.h"
#include "runtime/step_loop.h"
#include "runtime/trace.h"

namespace autopar::runtime {

struct RunOptions {
  DeviceOptions device;
  int repeat = 1;  ///< counted runs
  LoopOptions loop = {};
  bool profile = false;  ///< whether one more run is made, for RunResult::spans
  /// For a rank that does not come to a collective of a run; before it, ranks may take longer to
  /// read their weights.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
};

struct RunResult {
  /// The model's, global tensors of the last step (rank 0 alone where ranks are processes); of a
  /// whole graph, its own.
  NamedTensors outputs;
  /// By input: what each step of a loop chose for the next, an entry a step in front.
  NamedTensors choices;
  std::vector<double> run_seconds;     ///< the slowest rank's, of all steps, by repetition
  std::vector<double> device_seconds;  ///< the same by the devices' own clocks; 0 on CPUs
  std::vector<double> tail_seconds;    ///< by repetition; none where there is no tail
  std::vector<bundle::CollectiveTotal> collectives;  ///< of one run, summed over ranks
  std::vector<std::int64_t> arena_bytes;             ///< by rank
  std::vector<std::int64_t>
      peak_bytes;  ///< by rank: weights (rank 0's with the tail's) and arena, measured
  std::vector<std::int64_t> launches;    ///< by rank: of a run after the first
  std::vector<double> upload_seconds;    ///< by rank: copying weights to its device
  std::vector<std::vector<Span>> spans;  ///< by rank, of the profiled run
};

/// Every rank in this process, a thread each.
RunResult run_in_threads(const std::filesystem::path& bundle_dir, const NamedTensors& inputs,
                         const RunOptions& options);
/// This process's rank of the world; the world's size must be the bundle's.
RunResult run_as_rank(const std::filesystem::path& bundle_dir, const NamedTensors& inputs,
                      const RunOptions& options, Communicator& world, const LocalRanks& local);
/// A whole graph, for `verify` and comparison.
RunResult run_whole(const graph::Graph& graph, const NamedTensors& inputs,
                    const RunOptions& options);

}  // namespace autopar::runtime
