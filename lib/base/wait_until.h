#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace autopar {

/// Waits until `holds()`, as std::condition_variable::wait does. That function without a time is a
/// symbol of GCC 12's library (GLIBCXX_3.4.30), which systems with GCC 11's, such as Red Hat 9,
/// lack; waits with a time need none.
template <typename Predicate>
void wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                const Predicate& holds) {
  while (!holds()) changed.wait_for(lock, std::chrono::hours(1));
}

}  // namespace autopar
