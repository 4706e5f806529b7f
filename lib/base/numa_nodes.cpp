#include "base/numa_nodes.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <system_error>

#include "base/error.h"

namespace autopar {

namespace fs = std::filesystem;

std::vector<CoreSet> numa_nodes(const fs::path& root) {
  std::map<int, CoreSet> by_number;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root / "sys/devices/system/node", error)) {
    const std::string name = entry.path().filename().string();
    int number = 0;
    const char* const end = name.data() + name.size();
    if (!name.starts_with("node") ||
        std::from_chars(name.data() + std::size("node") - 1, end, number).ptr != end)
      continue;
    std::string cores;
    std::getline(std::ifstream(entry.path() / "cpulist"), cores);
    if (cores.empty()) continue;  // a node of memory alone
    try {
      by_number[number] = parse_cores(entry.path() / "cpulist", cores);
    } catch (const Error&) {  // more cores than a mask has places for
      return {};
    }
  }
  std::vector<CoreSet> nodes;
  for (auto& [number, cores] : by_number) nodes.push_back(std::move(cores));
  return nodes;
}

std::vector<CoreSet> spread_over_nodes(const CoreSet& cores, const std::vector<CoreSet>& nodes,
                                       std::size_t users) {
  std::vector<CoreSet> used;
  for (const CoreSet& node : nodes) {
    CoreSet both;
    std::ranges::set_intersection(node, cores, std::back_inserter(both));
    if (!both.empty()) used.push_back(std::move(both));
  }
  const std::size_t count = used.size();
  const auto is_unlike = [&](const CoreSet& node) { return node.size() != used.front().size(); };
  if (count < 2 || users < 2 || (users % count != 0 && count % users != 0) ||
      std::ranges::any_of(used, is_unlike))
    return {};
  std::vector<CoreSet> spread(users);
  for (std::size_t user = 0; user < users; ++user) {
    const std::size_t first = user * count / users;
    const std::size_t nodes_of_each = std::max<std::size_t>(1, count / users);
    for (std::size_t n = first; n < first + nodes_of_each; ++n)
      spread[user].insert(spread[user].end(), used[n].begin(), used[n].end());
    std::ranges::sort(spread[user]);
  }
  return spread;
}

}  // namespace autopar
