#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace autopar {

inline std::size_t cores() { return std::max(1U, std::thread::hardware_concurrency()); }

/// What each of so many may use at a time, so that together they use all cores.
inline int threads_of_each(std::size_t count) {
  return static_cast<int>(std::max<std::size_t>(1, cores() / std::max<std::size_t>(1, count)));
}

/// Calls work(0) to work(count - 1), as many at a time as the machine has cores, or `most`. When
/// one has thrown, no more begin. Rethrows what the first of them by number threw, when all have
/// ended.
template <typename Work>
void in_parallel(std::size_t count, const Work& work, std::size_t most = cores()) {
  std::vector<std::exception_ptr> errors(count);
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (std::size_t k = 1; k < std::min({cores(), count, most}); ++k) others.emplace_back(run);
    } catch (const std::system_error&) {  // no more threads are to be had: fewer do all of it
    }
    run();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace autopar
