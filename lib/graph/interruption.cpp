#include "graph/interruption.h"

#include <atomic>

#include "graph/error.h"

namespace autopar::graph {
namespace {

std::atomic<bool> interrupted = false;
std::atomic<int> guards = 0;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may write it");

void note(int) { interrupted = true; }

}  // namespace

InterruptionGuard::InterruptionGuard(std::initializer_list<int> signals) {
  if (guards++ == 0) interrupted = false;
  struct sigaction noted {};
  noted.sa_handler = note;
  noted.sa_flags = SA_RESTART;
  for (const int signal : signals) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;  // nohup
    sigaction(signal, &noted, nullptr);
    replaced_.emplace_back(signal, before);
  }
}

InterruptionGuard::~InterruptionGuard() {
  for (const auto& [signal, before] : replaced_) sigaction(signal, &before, nullptr);
  --guards;
}

bool was_interrupted() { return interrupted; }

void check_interruption() {
  if (interrupted) fail("interrupted: nothing is left of what was written");
}

}  // namespace autopar::graph
