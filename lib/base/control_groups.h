#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace autopar {

/// A control group's folder, of version 1 or 2.
struct ControlGroup {
  std::filesystem::path folder;
  int version = 2;
};

/// The groups that a controller ("memory", "cpu") may limit this process by: its own and those
/// above it, and the mounted folder, which in a container is the group itself. Folders may be
/// missing. `root`: where /proc and /sys are.
std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& root = "/");

}  // namespace autopar
