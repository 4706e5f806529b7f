#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "bundle/meta_info.h"
#include "graph/tail.h"

namespace autopar::bundle {

/// The end of the model, whose shapes only a run tells: rank 0 computes it on its host when it has
/// put the ranks' outputs together. MetaInfo::outputs are then what ranks make: outputs of the
/// model, and behind them what the tail reads.
struct TailInfo {
  std::vector<FileInfo> files;  ///< model first, then data where there is one
  graph::TailSummary summary;
};

/// The version of a bundle that has a tail; a program that knows none must not run it.
inline constexpr int meta_info_version_with_tail = 4;

/// What meta-info.json says of a tail, without its files.
nlohmann::json to_json(const graph::TailSummary& tail);

/// The whole of meta-info.json.
nlohmann::json to_json(const MetaInfo& info, const std::optional<TailInfo>& tail);

/// What meta-info.json says of the tail; nullopt where the bundle has none. Throws Error as
/// load_meta_info does, which `info` is from.
std::optional<TailInfo> load_tail_info(const std::filesystem::path& bundle_dir,
                                       const MetaInfo& info);

/// Throws Error as check_files does.
void check_tail_files(const TailInfo& tail, const std::filesystem::path& bundle_dir);

/// The model's outputs in its order, whether ranks or the tail make them.
std::vector<graph::ModelOutput> model_outputs(const MetaInfo& info,
                                              const std::optional<TailInfo>& tail);

}  // namespace autopar::bundle
