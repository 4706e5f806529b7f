#pragma once

#include <filesystem>
#include <string>

namespace autopar::bundle {

/// Throws Error where the folder is no bundle (it has no meta-info.json) or has anything that
/// `partition` writes into none: such a folder is not replaced. `shown` is what the user calls it.
void check_only_bundle(const std::filesystem::path& folder, const std::string& shown);

}  // namespace autopar::bundle
