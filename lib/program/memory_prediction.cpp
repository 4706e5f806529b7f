#include "program/memory_prediction.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/arena.h"
#include "program/rank_graph.h"

namespace autopar::program {

namespace {

using Kind = std::pair<sharding::TensorShardSpec, graph::Shape>;

/// All that a rank's memory follows from: the extent of each share, and whether the share begins at
/// 0 (ShardingRule::localize may look at no more).
std::vector<std::int64_t> likeness(const std::set<Kind>& kinds, const sharding::DeviceMesh& mesh,
                                   int rank) {
  std::vector<std::int64_t> likeness;
  for (const auto& [spec, shape] : kinds) {
    for (const graph::Range& range : sharding::local_ranges(spec, shape, mesh, rank)) {
      likeness.push_back(range.size());
      likeness.push_back(range.begin == 0 ? 1 : 0);
    }
  }
  return likeness;
}

}  // namespace

std::vector<std::vector<int>> alike_ranks(const Program& program) {
  std::set<Kind> kinds;
  for (const Version& version : program.versions) {
    kinds.emplace(version.spec, program.graph.value(version.value).shape);
  }
  std::map<std::vector<std::int64_t>, std::vector<int>> classes;
  for (int rank = 0; rank < program.mesh.num_devices(); ++rank) {
    classes[likeness(kinds, program.mesh, rank)].push_back(rank);
  }
  std::vector<std::vector<int>> result;
  for (auto& [likeness, ranks] : classes) result.push_back(std::move(ranks));
  return result;
}

std::int64_t most_run_bytes(const graph::Graph& rank_graph, int microbatches) {
  return graph::arena_bound(rank_graph) + graph::slot_bytes(rank_graph, microbatches);
}

MemoryPrediction predict_memory(const graph::Graph& rank_graph, int microbatches,
                                const RunBytes& run_bytes) {
  const std::int64_t weight_bytes = graph::constant_bytes(rank_graph);
  return {weight_bytes, weight_bytes + run_bytes(rank_graph, microbatches)};
}

}  // namespace autopar::program
