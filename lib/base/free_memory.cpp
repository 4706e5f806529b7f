#include "base/free_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "base/control_groups.h"

namespace autopar {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

/// The first number of a file; `otherwise` where there is none ("max").
std::int64_t number_in(const fs::path& file, std::int64_t otherwise) {
  std::int64_t number = 0;
  return std::ifstream(file) >> number ? number : otherwise;
}

/// The sum of the numbers behind these words, where they begin a line.
template <typename... Words>
std::int64_t sum_of(const fs::path& file, const Words&... words) {
  std::ifstream lines(file);
  std::int64_t sum = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string word;
    std::int64_t number = 0;
    if (fields >> word >> number && ((word == words) || ...)) sum += number;
  }
  return sum;
}

/// Files of one version of control groups.
struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* inactive;
  const char* active;
};

std::int64_t free_of_group(const fs::path& group, const GroupFiles& files) {
  const std::int64_t limit = number_in(group / files.limit, no_limit);
  const std::int64_t usage = number_in(group / files.usage, 0);
  if (limit > no_limit / 2) return no_limit;  // version 1 has no word for "max"
  const std::int64_t cache = sum_of(group / "memory.stat", files.inactive, files.active);
  return std::max<std::int64_t>(0, limit - usage + std::min(cache, usage));
}

std::int64_t free_of_control_groups(const fs::path& root) {
  constexpr GroupFiles version_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                    "total_inactive_file", "total_active_file"};
  constexpr GroupFiles version_2 = {"memory.max", "memory.current", "inactive_file", "active_file"};
  std::int64_t least = no_limit;
  for (const ControlGroup& group : control_groups("memory", root))
    least =
        std::min(least, free_of_group(group.folder, group.version == 2 ? version_2 : version_1));
  return least;
}

std::int64_t free_of_machine(const fs::path& root) {
  const fs::path file = root / "proc/meminfo";
  const std::int64_t available = sum_of(file, std::string("MemAvailable:"));
  if (available == 0) return no_limit;
  return 1024 * (available + sum_of(file, std::string("SwapFree:")));
}

}  // namespace

FreeMemory free_memory(const fs::path& root) {
  const std::int64_t machine = free_of_machine(root);
  const std::int64_t groups = free_of_control_groups(root);
  if (groups < machine) return {groups, "the control group's memory"};
  return {machine, "the machine's memory"};
}

FreeMemory free_address_space() {
  FreeMemory space{no_limit, "the address space (ulimit -v)"};
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return space;
  const std::int64_t pages = number_in("/proc/self/statm", 0);
  const std::int64_t used = pages * sysconf(_SC_PAGESIZE);
  const auto all =
      static_cast<std::int64_t>(std::min<rlim_t>(limit.rlim_cur, static_cast<rlim_t>(no_limit)));
  space.bytes = std::max<std::int64_t>(0, all - used);
  return space;
}

}  // namespace autopar
