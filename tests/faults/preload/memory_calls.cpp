/// The operators that take memory of the heap, and the C library's; counted from
/// AUTOPAR_FAULT_BYTES on.
#include <cerrno>
#include <cstdlib>
#include <new>

#include "fault_plan.h"

using autopar::faults::Kind;
using autopar::faults::next_fault;
using autopar::faults::next_function;

namespace {

/// Whether this allocation is to fail.
bool fails(std::size_t bytes) {
  return autopar::faults::is_watched_allocation(bytes) && next_fault(Kind::allocate).error != 0;
}

void check(std::size_t bytes) {
  if (fails(bytes)) throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) {
  static const auto real = next_function<void*(std::size_t)>("_Znwm");
  check(bytes);
  return real(bytes);
}

void* operator new[](std::size_t bytes) {
  static const auto real = next_function<void*(std::size_t)>("_Znam");
  check(bytes);
  return real(bytes);
}

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  static const auto real =
      next_function<void*(std::size_t, std::align_val_t)>("_ZnwmSt11align_val_t");
  check(bytes);
  return real(bytes, alignment);
}

void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  static const auto real =
      next_function<void*(std::size_t, std::align_val_t)>("_ZnamSt11align_val_t");
  check(bytes);
  return real(bytes, alignment);
}

void* operator new(std::size_t bytes, const std::nothrow_t& nothrow) noexcept {
  static const auto real =
      next_function<void*(std::size_t, const std::nothrow_t&)>("_ZnwmRKSt9nothrow_t");
  return fails(bytes) ? nullptr : real(bytes, nothrow);
}

extern "C" {

int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  static const auto real = next_function<int(void**, size_t, size_t)>("posix_memalign");
  return fails(bytes) ? ENOMEM : real(memory, alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  static const auto real = next_function<void*(size_t, size_t)>("aligned_alloc");
  return fails(bytes) ? nullptr : real(alignment, bytes);
}

}  // extern "C"
