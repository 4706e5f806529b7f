#include "failing.h"

#include <atomic>
#include <chrono>

#include "base/process_name.h"
#include "base/text.h"
#include "runtime/comm/watchdog.h"

namespace autopar {
namespace {

/// What is given up in good order takes a second or two.
constexpr auto patience = std::chrono::seconds(10);

std::atomic<bool> is_ending = false;

}  // namespace

void end_soon(const std::string& why) {
  if (is_ending.exchange(true)) return;
  // It watches until the process has ended.
  new runtime::Watchdog(patience, process_name() + one_line(why));
}

bool ends_soon() { return is_ending; }

}  // namespace autopar
