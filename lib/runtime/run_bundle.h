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
#include "runtime/trace.h"

namespace autopar::runtime {

using NamedTensors = std::map<std::string, graph::Tensor>;

struct RunOptions {
  DeviceOptions device;
  int repeat = 1;        ///< counted runs
  bool profile = false;  ///< whether one more run is made, for RunResult::spans
  /// For a rank that does not come to a collective of a run; before it, ranks may take longer to
  /// read their weights.
  std::chrono::milliseconds timeout = std::chrono::seconds(30);
};

struct RunResult {
  NamedTensors outputs;                              ///< global tensors (rank 0 alone under MPI)
  std::vector<double> run_seconds;                   ///< the slowest rank's, by repetition
  std::vector<bundle::CollectiveTotal> collectives;  ///< of one run, summed over ranks
  std::vector<std::int64_t> arena_bytes;             ///< by rank
  std::vector<std::int64_t> peak_bytes;              ///< by rank: weights and arena, measured
  std::vector<std::int64_t> launches;                ///< by rank: of a run after the first
  std::vector<double> upload_seconds;                ///< by rank: copying weights to its device
  std::vector<std::vector<Span>> spans;              ///< by rank, of the profiled run
};

/// Throws Error for a missing, superfluous or misshapen input or one of another type.
void check_inputs(const std::vector<bundle::PortInfo>& ports, const NamedTensors& inputs);

/// Every rank in this process, a thread each.
RunResult run_in_threads(const std::filesystem::path& bundle_dir, const NamedTensors& inputs,
                         const RunOptions& options);
/// This process's rank of the world; the world's size must be the bundle's.
RunResult run_as_rank(const std::filesystem::path& bundle_dir, const NamedTensors& inputs,
                      const RunOptions& options, Communicator& world, const LocalRanks& local);
/// A whole model, for `verify` and comparison.
RunResult run_whole(const graph::Graph& graph, const NamedTensors& inputs,
                    const RunOptions& options);

}  // namespace autopar::runtime
