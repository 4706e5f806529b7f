#include "base/out_of_memory.h"

#include <cstdio>

namespace autopar {
namespace {

/// For a person: "1.5 GB"; with the bytes where that is less than a million.
std::array<char, 32> in_units(std::size_t bytes) noexcept {
  std::array<char, 32> text{};
  const auto number = static_cast<double>(bytes);
  if (bytes < 1'000'000)
    std::snprintf(text.data(), text.size(), "%zu bytes", bytes);
  else if (bytes < 1'000'000'000)
    std::snprintf(text.data(), text.size(), "%.1f MB", number / 1e6);
  else
    std::snprintf(text.data(), text.size(), "%.1f GB", number / 1e9);
  return text;
}

}  // namespace

OutOfMemory::OutOfMemory(std::size_t wanted) noexcept {
  std::snprintf(text_.data(), text_.size(),
                "out of memory: %s more were asked for; free some memory, raise the limit (ulimit "
                "-v, the container's), or use more ranks or a larger machine",
                in_units(wanted).data());
}

OutOfMemory::OutOfMemory(std::size_t wanted, std::size_t free, const char* of) noexcept {
  std::snprintf(text_.data(), text_.size(),
                "out of memory: %s more were asked for, and %s are free of %s; free some memory, "
                "raise the limit, or use more ranks or a larger machine",
                in_units(wanted).data(), in_units(free).data(), of);
}

}  // namespace autopar
