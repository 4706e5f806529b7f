#pragma once

#include <cstdint>

/// Work that the threads of a rank share. One thread opens no region of OpenMP: libgomp ends each
/// with a system call, even where nobody waits, which takes longer than many an operator of a small
/// model.
namespace autopar::runtime::cpu {

/// Calls body() in each thread; within it, `omp for` shares loops among them.
template <typename Body>
void in_threads(std::int64_t threads, const Body& body) {
  if (threads <= 1) return body();
#pragma omp parallel num_threads(threads)
  body();
}

/// Calls body(i) for each i below `count`. Neighbours are in the same thread.
template <typename Body>
void for_in_threads(std::int64_t threads, std::int64_t count, const Body& body) {
  if (threads <= 1 || count <= 1) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t i = 0; i < count; ++i) body(i);
}

}  // namespace autopar::runtime::cpu
