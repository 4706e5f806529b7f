#include "base/out_of_memory.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "base/process_name.h"

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

thread_local int vital = 0;
thread_local int fragile_calls = 0;
thread_local std::array<char, 256> last_text{};

}  // namespace

OutOfMemory::OutOfMemory(std::size_t wanted) noexcept {
  std::snprintf(text_.data(), text_.size(),
                "out of memory: %s more were asked for; free some memory, raise the limit (ulimit "
                "-v, the container's), or use more ranks or a larger machine",
                in_units(wanted).data());
  last_text = text_;
}

OutOfMemory::OutOfMemory(std::size_t wanted, std::size_t free, const char* of) noexcept {
  std::snprintf(text_.data(), text_.size(),
                "out of memory: %s more were asked for, and %s are free of %s; free some memory, "
                "raise the limit, or use more ranks or a larger machine",
                in_units(wanted).data(), in_units(free).data(), of);
  last_text = text_;
}

OutOfMemory::OutOfMemory(const char* library) noexcept {
  std::snprintf(text_.data(), text_.size(),
                "out of memory: %s did not get what it asked for; free some memory, raise the "
                "limit (ulimit -v, the container's), or use more ranks or a larger machine",
                library);
  last_text = text_;
}

const char* OutOfMemory::last() noexcept { return last_text.data(); }

void end_with_error(const char* what) noexcept {
  for (const char* part : {"error: ", process_name(), what, "\n"})
    if (::write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
  ::_exit(1);
}

VitalMemory::VitalMemory() { ++vital; }
VitalMemory::~VitalMemory() { --vital; }
bool VitalMemory::is_asked_for() { return vital > 0; }

FragileCall::FragileCall() { ++fragile_calls; }
FragileCall::~FragileCall() { --fragile_calls; }
bool FragileCall::is_under_way() { return fragile_calls > 0; }

}  // namespace autopar
