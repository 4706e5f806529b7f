#include "search/search_options.h"

#include <algorithm>

#include "base/byte_size.h"
#include "base/error.h"

namespace autopar::search {

MemoryPolicy MemoryPolicy::parse(const std::string& text) {
  if (text == "fair") return {Kind::fair, 0};
  if (text == "device") return {Kind::device, 0};
  if (const auto bytes = parse_byte_size(text)) return {Kind::bytes, *bytes};
  fail("--memory {}: give fair, device, or a size such as 80GiB, 500MB or 1048576", text);
}

std::int64_t limit_of(const MemoryPolicy& memory, const cost::DeviceModel& device) {
  return memory.kind == MemoryPolicy::Kind::bytes ? memory.bytes : device.memory_bytes;
}

SearchOptions within_share(const SearchOptions& options, const Stopwatch& stopwatch, double share) {
  SearchOptions own = options;
  const double passed = stopwatch.seconds();
  own.time_limit_seconds = passed + share * std::max(0.0, options.time_limit_seconds - passed);
  return own;
}

}  // namespace autopar::search
