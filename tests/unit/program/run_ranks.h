#pragma once

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <vector>

#include "bundle/meta_info.h"
#include "graph/graph.h"
#include "runtime/collectives.h"
#include "runtime/comm/ranks.h"
#include "runtime/executable.h"

namespace autopar {

/// What a run of one graph gave: outputs (float32) in the graph's order, what it communicated, and
/// its arena without kernels' scratch memory.
struct RankResult {
  std::vector<graph::Tensor> outputs;
  std::vector<bundle::CollectiveTotal> counted;
  std::int64_t arena_bytes = 0;
};

inline RankResult run_graph(const graph::Graph& graph, const std::vector<graph::Tensor>& inputs,
                            runtime::CollectiveContext* collectives) {
  runtime::Executable executable(graph, {.threads = 1, .collectives = collectives});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    executable.write_input(i, inputs[i]);
  }
  executable.run();
  RankResult result;
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    result.outputs.push_back(executable.read_output(i));
  }
  if (collectives != nullptr) result.counted = collectives->totals();
  result.arena_bytes = executable.arena_bytes() - executable.scratch_bytes();
  return result;
}

/// Runs every rank's graph in a thread of its own. Throws the first error of any.
inline std::vector<RankResult> run_ranks(const std::vector<graph::Graph>& shards,
                                         const std::vector<std::vector<graph::Tensor>>& inputs) {
  const int count = static_cast<int>(shards.size());
  std::vector<RankResult> results(shards.size());
  runtime::Ranks::in_threads(count, std::chrono::minutes(1))
      .run_as_rank([&](runtime::HostCommunicator& world, const runtime::LocalRanks&) {
        const auto rank = static_cast<std::size_t>(world.rank());
        runtime::CollectiveContext collectives(world);
        results[rank] = run_graph(shards[rank], inputs[rank], &collectives);
      });
  return results;
}

}  // namespace autopar
