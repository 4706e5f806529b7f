#include "search/search_options.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace autopar::search {

namespace {

constexpr std::pair<std::string_view, double> units[] = {
    {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
    {"KB", 1e3},     {"MB", 1e6},        {"GB", 1e9},           {"TB", 1e12},
    {"B", 1.0},      {"", 1.0}};

}  // namespace

MemoryPolicy MemoryPolicy::parse(const std::string& text) {
  if (text == "fair") return {Kind::fair, 0};
  if (text == "device") return {Kind::device, 0};
  double amount = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  for (const auto& [unit, bytes] : units) {
    if (error == std::errc() && suffix == unit && amount > 0 && amount * bytes < 9e18)
      return {Kind::bytes, static_cast<std::int64_t>(amount * bytes)};
  }
  fail("--memory {}: give fair, device, or a size such as 80GiB, 500MB or 1048576", text);
}

std::int64_t limit_of(const MemoryPolicy& memory, const cost::DeviceModel& device) {
  return memory.kind == MemoryPolicy::Kind::bytes ? memory.bytes : device.memory_bytes;
}

}  // namespace autopar::search
