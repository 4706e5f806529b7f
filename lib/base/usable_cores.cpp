#include "base/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <thread>

#include "base/control_groups.h"
#include "base/error.h"

namespace autopar {

namespace {

namespace fs = std::filesystem;

/// "1.5 cores": microseconds of work in so many microseconds; version 1 has a file for each.
struct Quota {
  double work = -1;  ///< negative, or not there: no limit
  double period = 0;
};

Quota quota_of(const ControlGroup& group) {
  Quota quota;
  if (group.version == 2) {
    std::ifstream(group.folder / "cpu.max") >> quota.work >> quota.period;  // "max 100000"
  } else {
    std::ifstream(group.folder / "cpu.cfs_quota_us") >> quota.work;
    std::ifstream(group.folder / "cpu.cfs_period_us") >> quota.period;
  }
  return quota;
}

}  // namespace

CoreSet parse_cores(const std::string& what, const std::string& text) {
  constexpr int largest = CPU_SETSIZE - 1;
  const auto refuse = [&] { fail("{} {}: give numbers of cores, such as 0-3,8", what, text); };
  const auto number_at = [&](const char*& place, const char* end) {
    int number = -1;
    const auto [rest, error] = std::from_chars(place, end, number);
    if (error != std::errc() || number < 0 || number > largest) refuse();
    place = rest;
    return number;
  };
  CoreSet cores;
  const char* place = text.data();
  const char* const end = place + text.size();
  while (true) {
    const int first = number_at(place, end);
    const int last = place != end && *place == '-' ? number_at(++place, end) : first;
    for (int core = first; core <= last; ++core) cores.push_back(core);
    if (place == end) break;
    if (last < first || *place != ',') refuse();
    ++place;
  }
  std::ranges::sort(cores);
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  if (cores.empty()) refuse();
  return cores;
}

CoreSet cores_of_process() {
  CoreSet cores;
  read_cores_of_process(cores);
  return cores;
}

void read_cores_of_process(CoreSet& cores) {
  cores.clear();
  for (const char* variable : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"})
    if (std::getenv(variable) != nullptr) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &set)) cores.push_back(core);
}

bool try_to_bind_thread(std::span<const int> cores) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(core, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

void bind_thread(const CoreSet& cores) {
  if (!try_to_bind_thread(cores))
    fail("none of the cores that were given can be used here: {}", std::strerror(errno));
}

std::size_t share_of_cores(const std::vector<CoreSet>& sets_of_users, std::size_t user) {
  double share = 0;
  for (const int core : sets_of_users[user])
    share +=
        1.0 / static_cast<double>(std::ranges::count_if(sets_of_users, [&](const CoreSet& set) {
          return std::ranges::binary_search(set, core);
        }));
  constexpr double rounding = 1e-6;  // of a sum of thirds, say
  return std::max<std::size_t>(1, static_cast<std::size_t>(share + rounding));
}

std::size_t cores_of_quota(std::size_t most, const fs::path& root) {
  for (const ControlGroup& group : control_groups("cpu", root)) {
    const Quota quota = quota_of(group);
    if (quota.work > 0 && quota.period > 0)
      most = std::min(most, static_cast<std::size_t>(quota.work / quota.period));
  }
  return std::max<std::size_t>(1, most);
}

std::size_t usable_cores() {
  const CoreSet own = cores_of_process();
  return cores_of_quota(own.empty() ? std::thread::hardware_concurrency() : own.size());
}

}  // namespace autopar
