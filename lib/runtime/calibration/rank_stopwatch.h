#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "graph/graph.h"
#include "runtime/collectives.h"
#include "runtime/rank_device.h"

namespace autopar::runtime {

/// How long a graph is timed for.
struct TimingOptions {
  double seconds = 0.1;  ///< about so long, by the slowest rank's first run
  int least_runs = 5;
  int most_runs = 200;
};

/// One rank that takes the time of graphs, while all others do the same: they share memory's
/// bandwidth, as in a run. Every rank calls each function, in the same order.
class RankStopwatch {
 public:
  /// The arguments are those of RankDevice.
  RankStopwatch(const DeviceOptions& options, HostCommunicator& host, const LocalRanks& local,
                std::chrono::milliseconds timeout);

  /// Seconds of one run of the graph as it is, without fusions: the slowest rank's, low among
  /// several runs. nullopt where some rank's device has no kernel for it. Inputs hold small
  /// numbers.
  std::optional<double> time(const graph::Graph& graph, const TimingOptions& options);

  bool is_cpu() { return device_.device().shares_host_memory(); }
  /// Memory that each rank may use, the least of all ranks': what is free on a GPU, or the rank's
  /// share of the machine's.
  std::int64_t memory_bytes();

 private:
  HostCommunicator& host_;
  LocalRanks local_;
  RankDevice device_;
  CollectiveContext collectives_;
};

}  // namespace autopar::runtime
