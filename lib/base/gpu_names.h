#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace autopar {

/// The models of this machine's GPUs as NVIDIA's driver tells them, "NVIDIA H100 80GB HBM3"; none
/// where it is not loaded. No library is needed. `root`: where /proc is.
std::vector<std::string> gpu_names(const std::filesystem::path& root = "/");

/// Whether "h100" is a word of "NVIDIA H100 80GB HBM3", whatever the case.
bool is_word_of(const std::string& word, const std::string& name);

}  // namespace autopar
