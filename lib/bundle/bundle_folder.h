#pragma once

#include <filesystem>
#include <string>

namespace autopar::bundle {

/// The whole model with annotations of `--shards annotated`, in a folder without meta-info.json.
inline constexpr const char* annotated_file = "annotated.onnx";
inline constexpr const char* annotated_data_file = "annotated.data";

/// Throws Error where the folder is nothing that `partition` writes (it has neither meta-info.json
/// nor an annotated model with its plan) or has anything else: such a folder is not replaced.
/// `shown` is what the user calls it.
void check_only_bundle(const std::filesystem::path& folder, const std::string& shown);

}  // namespace autopar::bundle
