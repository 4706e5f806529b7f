#pragma once

#include <filesystem>
#include <string>

#include "bundle/meta_info.h"
#include "graph/graph.h"
#include "search/plan.h"
#include "sharding/connect.h"

namespace autopar::partition {

struct BundleOptions {
  std::filesystem::path out;
  std::string model_name;
  bool force = false;  ///< replace `out` where it exists
};

/// Throws Error where `out` exists and may not be replaced: without `force`, or where it is no
/// bundle. Asked before a long search, and again by write_bundle.
void check_output_folder(const BundleOptions& options);

/// Writes one shard a rank, plan.json and meta-info.json into a temporary folder beside `out` and
/// renames it, so that a bundle is whole or absent. Throws Error where check_output_folder does or
/// where writing fails (a full disk); then nothing is left behind. `price` is the search's.
bundle::MetaInfo write_bundle(const graph::Graph& graph, const search::Plan& plan,
                              const sharding::StepPrice& price, const BundleOptions& options);

}  // namespace autopar::partition
