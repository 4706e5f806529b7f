#include "runtime/devices/cuda/architectures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace autopar::runtime::cuda {
namespace {

/// One entry of the list.
struct Architecture {
  int capability = 0;
  char kind = ' ';  ///< 'a': for that one alone; 'f': for its major version
  bool has_machine_code = true;
  bool has_ptx = true;

  bool serves(int gpu) const {
    if (kind == 'a') return gpu == capability;
    const bool is_of_major = gpu / 10 == capability / 10 && gpu >= capability;
    if (kind == 'f') return is_of_major;
    return (has_machine_code && is_of_major) || (has_ptx && gpu >= capability);
  }
};

/// The entries that are numbers: "90", "90-real", "90-virtual", "90a-real".
std::vector<Architecture> parse(std::string_view list) {
  std::vector<Architecture> all;
  while (!list.empty()) {
    const std::string_view entry = list.substr(0, list.find(','));
    list.remove_prefix(std::min(entry.size() + 1, list.size()));
    Architecture each;
    const auto [rest, error] =
        std::from_chars(entry.data(), entry.data() + entry.size(), each.capability);
    if (error != std::errc()) continue;
    if (rest != entry.data() + entry.size() && (*rest == 'a' || *rest == 'f')) each.kind = *rest;
    each.has_ptx = !entry.ends_with("-real");
    each.has_machine_code = !entry.ends_with("-virtual");
    all.push_back(each);
  }
  std::ranges::sort(all, {}, &Architecture::capability);
  return all;
}

}  // namespace

bool has_code_for(std::string_view architectures, int capability) {
  const std::vector<Architecture> all = parse(architectures);
  return all.empty() || std::ranges::any_of(
                            all, [&](const Architecture& each) { return each.serves(capability); });
}

std::string served_capabilities(std::string_view architectures) {
  std::vector<std::string> names;
  bool serves_newer = false;
  for (const Architecture& each : parse(architectures)) {
    names.push_back(fmt::format("{}.{}", each.capability / 10, each.capability % 10));
    serves_newer = each.has_ptx && each.kind == ' ';
  }
  return fmt::format("{}{}", fmt::join(names, ", "), serves_newer ? " and newer" : "");
}

}  // namespace autopar::runtime::cuda
