#include "base/control_groups.h"

#include <fstream>
#include <string>

namespace autopar {

std::vector<ControlGroup> control_groups(std::string_view controller,
                                         const std::filesystem::path& root) {
  std::vector<ControlGroup> groups;
  const auto add = [&](std::filesystem::path folder, const std::string& path, int version) {
    groups.push_back({folder, version});
    for (const std::filesystem::path& part : std::filesystem::path(path).relative_path())
      groups.push_back({folder /= part, version});
  };
  const std::filesystem::path mounts = root / "sys/fs/cgroup";
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {  // "4:memory:/user", "0::/user"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      add(mounts, path, 2);
    } else if (controllers.find("," + std::string(controller) + ",") != std::string::npos) {
      add(mounts / controller, path, 1);
    }
  }
  return groups;
}

}  // namespace autopar
