#pragma once

#include <filesystem>

#include "graph/graph.h"

namespace autopar::graph {

/// Reads rank `rank`'s file that was written for another runtime (runtime_collectives.h), of a
/// world of so many ranks, with autopar's collectives in place of the runtime's: autopar runs it as
/// a shard of its own. Throws Error as load_onnx, and where a collective is not as
/// runtime_collectives.h has it.
Graph load_runtime_shard(const std::filesystem::path& file, int rank, int ranks);

}  // namespace autopar::graph
