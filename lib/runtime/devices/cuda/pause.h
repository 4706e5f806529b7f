#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace autopar::runtime::cuda {

/// How long to sleep before something that has been waited for so long is asked after again: a
/// hundredth of it, so that the wait ends hardly later for it; not at all for the first
/// millisecond, since what takes microseconds is then found done at once.
inline std::chrono::microseconds sleep_after(std::chrono::steady_clock::duration waited) {
  constexpr auto shortest = std::chrono::microseconds(10);
  constexpr auto longest = std::chrono::microseconds(100);
  const auto sleep = std::chrono::duration_cast<std::chrono::microseconds>(waited / 100);
  return sleep < shortest ? std::chrono::microseconds(0) : std::min(sleep, longest);
}

/// Leaves the core to others meanwhile.
inline void pause(std::chrono::steady_clock::duration waited) {
  const std::chrono::microseconds sleep = sleep_after(waited);
  if (sleep.count() == 0)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(sleep);
}

}  // namespace autopar::runtime::cuda
