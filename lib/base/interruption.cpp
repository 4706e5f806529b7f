#include "base/interruption.h"

#include <atomic>

#include "base/error.h"

namespace autopar {
namespace {

std::atomic<int> noted = 0;
std::atomic<int> pardoned = 0;  ///< of those noted
std::atomic<int> guards = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may write it");

void note(int) { ++noted; }

}  // namespace

InterruptionGuard::InterruptionGuard(std::initializer_list<int> signals) {
  if (guards++ == 0) noted = 0;
  struct sigaction noting {};
  noting.sa_handler = note;
  noting.sa_flags = SA_RESTART;
  for (const int signal : signals) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;  // nohup
    sigaction(signal, &noting, nullptr);
    replaced_.emplace_back(signal, before);
  }
}

InterruptionGuard::~InterruptionGuard() {
  for (const auto& [signal, before] : replaced_) sigaction(signal, &before, nullptr);
  --guards;
}

InterruptionReprieve::InterruptionReprieve() : pardoned_before_(pardoned) {
  pardoned = noted.load();
}

InterruptionReprieve::~InterruptionReprieve() { pardoned = pardoned_before_; }

bool was_interrupted() { return noted > pardoned; }

void check_interruption() {
  if (was_interrupted()) fail("interrupted: nothing is left of what was written");
}

}  // namespace autopar
