#include "base/bus_guard.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/mapped_file_checks.h"

namespace autopar {

/// A mapping that the signal's handler may find. Entries are reused, and never freed.
struct BusGuard::Entry {
  std::atomic<std::uintptr_t> begin = 0;
  std::atomic<std::uintptr_t> end = 0;  ///< 0 for an entry that is free
  std::atomic<bool> is_cut = false;
  Entry* next = nullptr;  ///< set before the entry is in the list
};

namespace {

static_assert(std::atomic<std::uintptr_t>::is_always_lock_free &&
                  std::atomic<bool>::is_always_lock_free,
              "a signal handler may use them");

std::atomic<int> num_cut = 0;  ///< mappings, since the last one was told of
struct sigaction handler_before {};

std::uintptr_t page_bytes() {
  static const auto bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

/// All mappings; the lock is for those who add and remove, not for the handler.
struct BusGuard::Entries {
  std::mutex mutex;
  std::atomic<Entry*> first = nullptr;
  std::set<const BusGuard*> guards;
  std::set<std::filesystem::path> untold;  ///< that were cut and are mapped no more

  static Entries& get() {
    static auto& entries = *new Entries;  // a fault may come while the process ends
    return entries;
  }

  Entry* add(std::uintptr_t begin, std::uintptr_t end) {
    Entry* entry = first;
    while (entry != nullptr && entry->end != 0) entry = entry->next;
    if (entry == nullptr) {
      entry = new Entry;
      entry->next = first;
      first = entry;
    }
    entry->is_cut = false;
    entry->begin = begin;
    entry->end = end;
    return entry;
  }

  /// From the page of the fault to the mapping's end, all is zero from now on: a file that ends
  /// before a page has none behind it. Calls nothing that a handler may not.
  static bool mend(std::uintptr_t address) {
    for (Entry* entry = get().first; entry != nullptr; entry = entry->next) {
      const std::uintptr_t end = entry->end;
      if (end == 0 || address < entry->begin || address >= end) continue;
      const std::uintptr_t page = address - address % page_bytes();
      void* const zeros = ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
      if (zeros == MAP_FAILED) return false;
      if (!entry->is_cut.exchange(true)) ++num_cut;
      return true;
    }
    return false;
  }

  static void on_bus_error(int, siginfo_t* info, void*) {
    const int error = errno;
    if (mend(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
      errno = error;
      return;
    }
    ::sigaction(SIGBUS, &handler_before, nullptr);  // the read is made again, and faults there
  }

  static void install() {
    page_bytes();
    struct sigaction mending {};
    mending.sa_sigaction = on_bus_error;
    mending.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    ::sigaction(SIGBUS, &mending, &handler_before);
  }
};

BusGuard::BusGuard(std::span<const std::byte> mapping, std::filesystem::path file)
    : file_(std::move(file)) {
  if (mapping.empty()) return;
  static std::once_flag installed;
  std::call_once(installed, Entries::install);
  Entries& entries = Entries::get();
  const std::lock_guard lock(entries.mutex);
  const auto begin = reinterpret_cast<std::uintptr_t>(mapping.data());
  entry_ = entries.add(begin, begin + mapping.size());
  entries.guards.insert(this);
}

BusGuard::~BusGuard() {
  if (entry_ == nullptr) return;
  Entries& entries = Entries::get();
  const std::lock_guard lock(entries.mutex);
  entries.guards.erase(this);
  if (entry_->is_cut) entries.untold.insert(file_);
  entry_->end = 0;
}

bool BusGuard::is_cut() const { return entry_ != nullptr && entry_->is_cut; }

void check_mapped_files() {
  if (num_cut == 0) return;
  BusGuard::Entries& entries = BusGuard::Entries::get();
  const std::lock_guard lock(entries.mutex);
  const auto refuse = [](const std::filesystem::path& file) {
    fail("{} became shorter, or its disk failed, while it was read: put the whole file back",
         file.string());
  };
  for (const BusGuard* guard : entries.guards)
    if (guard->is_cut()) refuse(guard->file_);
  if (entries.untold.empty()) return;
  const std::filesystem::path file = *entries.untold.begin();
  entries.untold.erase(entries.untold.begin());
  refuse(file);
}

}  // namespace autopar
