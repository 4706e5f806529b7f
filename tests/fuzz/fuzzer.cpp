#include "fuzzer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/error.h"

namespace autopar::fuzz {
namespace {

int file_in_memory() {
  const int descriptor = ::memfd_create("autopar fuzzer", MFD_CLOEXEC);
  require(descriptor >= 0, "the system gives files in memory");
  return descriptor;
}

}  // namespace

bool accepts(Bytes input) {
  try {
    try_input(input);
  } catch (const Error&) {
    return false;
  }
  return true;
}

void allow_error(const std::function<void()>& step) {
  try {
    step();
  } catch (const Error&) {
    return;
  }
}

std::filesystem::path file_of(Bytes input) {
  static const int descriptor = file_in_memory();
  const auto length = static_cast<ssize_t>(input.size());
  const bool is_written = ::ftruncate(descriptor, 0) == 0 &&
                          ::pwrite(descriptor, input.data(), input.size(), 0) == length;
  require(is_written, "there is memory for the input");
  return "/proc/self/fd/" + std::to_string(descriptor);
}

}  // namespace autopar::fuzz
