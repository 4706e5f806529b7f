#include "allocation_places.h"

#include <execinfo.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace autopar::faults {
namespace {

/// How many calls tell one place from another: with fewer, the uses of a container are one; with
/// more, each depth of a recursion is another.
constexpr int calls_of_a_place = 8;
/// The calls within this library, which are on each stack.
constexpr int own_calls = 5;

/// A set of hashes without locks; one that is full holds everything.
class SeenPlaces {
 public:
  bool insert(std::uint64_t hash) {
    for (std::size_t probe = 0; probe < slots_.size(); ++probe) {
      std::atomic<std::uint64_t>& slot = slots_[(hash + probe) % slots_.size()];
      std::uint64_t expected = 0;
      if (slot.compare_exchange_strong(expected, hash)) return true;
      if (expected == hash) return false;
    }
    return false;
  }

 private:
  std::array<std::atomic<std::uint64_t>, std::size_t{1} << 18> slots_{};
};

SeenPlaces seen;
int file_of_places = -1;
thread_local bool is_walking = false;

std::uint64_t hash_of_calls() {
  std::array<void*, own_calls + calls_of_a_place> calls{};
  const int depth = backtrace(calls.data(), static_cast<int>(calls.size()));
  std::uint64_t hash = 14695981039346656037U;  // FNV-1a over addresses
  for (int i = own_calls; i < depth; ++i) {
    hash ^= reinterpret_cast<std::uintptr_t>(calls[static_cast<std::size_t>(i)]);
    hash *= 1099511628211U;
  }
  return hash | 1;
}

}  // namespace

void prepare_places() {
  const char* file = std::getenv("AUTOPAR_FAULT_PLACES");
  if (file == nullptr) return;
  std::array<void*, 1> call{};
  backtrace(call.data(), 1);
  file_of_places = static_cast<int>(
      syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
}

void note_place(long number) {
  if (file_of_places < 0 || std::exchange(is_walking, true)) return;
  if (seen.insert(hash_of_calls())) {
    std::array<char, 32> line{};
    const int length = std::snprintf(line.data(), line.size(), "%ld\n", number);
    (void)!syscall(SYS_write, file_of_places, line.data(), length);
  }
  is_walking = false;
}

}  // namespace autopar::faults
