#pragma once

#include <filesystem>

#include "bundle/meta_info.h"
#include "graph/graph.h"

namespace autopar::runtime {

/// One rank's file, with the states of meta-info.json. Throws Error where files are missing or
/// damaged, and where the shard does not have the inputs, outputs and messages that meta-info.json
/// tells, so that stages would wait for each other.
graph::Graph load_shard(const bundle::MetaInfo& info, std::size_t profile,
                        const std::filesystem::path& bundle_dir, int rank);

}  // namespace autopar::runtime
