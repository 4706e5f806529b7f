#pragma once

#include <filesystem>
#include <string>

#include "graph/graph.h"
#include "search/plan.h"

namespace autopar::partition {

struct BundleOptions {
  std::filesystem::path out;
  std::string model_name;
  bool force = false;  ///< replace `out` where it exists
};

/// Writes one shard a rank, plan.json and meta-info.json into a temporary folder beside `out` and
/// renames it, so that a bundle is whole or absent. Throws Error where `out` exists without
/// `force`, where it is not a bundle (never replaced), or where writing fails (a full disk).
void write_bundle(const graph::Graph& graph, const search::Plan& plan,
                  const BundleOptions& options);

}  // namespace autopar::partition
