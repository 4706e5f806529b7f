#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>

namespace autopar::runtime {

/// The files of tensors in a folder, by name, of those that have one: `NAME.npy` or `NAME.pb`, the
/// name made safe (safe_file_name), or as the folders of ONNX's tests have them, `KIND_0.pb`,
/// `KIND_1.pb` and so on, which hold their tensor's name, or else have the place of `names`. Throws
/// Error naming a file of the latter that cannot be read.
std::map<std::string, std::filesystem::path> find_tensor_files(const std::filesystem::path& folder,
                                                               const std::string& kind,
                                                               std::span<const std::string> names);

}  // namespace autopar::runtime
