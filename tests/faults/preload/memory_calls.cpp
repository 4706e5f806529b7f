/// The operators that take memory of the heap, and the C library's, from the program's main on;
/// counted from AUTOPAR_FAULT_BYTES on.
#include <cerrno>
#include <cstdlib>
#include <new>
#include <utility>

#include "allocation_places.h"
#include "fault_plan.h"

using autopar::faults::Fault;
using autopar::faults::is_watched_allocation;
using autopar::faults::Kind;
using autopar::faults::next_fault;
using autopar::faults::next_function;
using autopar::faults::note_place;

namespace {

/// The operators may take memory by malloc, which is one call then.
thread_local bool is_in_operator = false;

/// Whether this allocation is to fail.
bool fails(std::size_t bytes) {
  if (is_in_operator || !is_watched_allocation(bytes)) return false;
  const Fault fault = next_fault(Kind::allocate);
  note_place(fault.call);
  return fault.error != 0;
}

template <typename Take>
void* by_operator(std::size_t bytes, const Take& take) {
  if (fails(bytes)) throw std::bad_alloc();
  const bool was_in_operator = std::exchange(is_in_operator, true);
  void* const memory = take();
  is_in_operator = was_in_operator;
  return memory;
}

template <typename Take>
void* by_function(std::size_t bytes, const Take& take) {
  if (!fails(bytes)) return take();
  errno = ENOMEM;
  return nullptr;
}

}  // namespace

void* operator new(std::size_t bytes) {
  static const auto real = next_function<void*(std::size_t)>("_Znwm");
  return by_operator(bytes, [&] { return real(bytes); });
}

void* operator new[](std::size_t bytes) {
  static const auto real = next_function<void*(std::size_t)>("_Znam");
  return by_operator(bytes, [&] { return real(bytes); });
}

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  static const auto real =
      next_function<void*(std::size_t, std::align_val_t)>("_ZnwmSt11align_val_t");
  return by_operator(bytes, [&] { return real(bytes, alignment); });
}

void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  static const auto real =
      next_function<void*(std::size_t, std::align_val_t)>("_ZnamSt11align_val_t");
  return by_operator(bytes, [&] { return real(bytes, alignment); });
}

void* operator new(std::size_t bytes, const std::nothrow_t& nothrow) noexcept {
  static const auto real =
      next_function<void*(std::size_t, const std::nothrow_t&)>("_ZnwmRKSt9nothrow_t");
  return fails(bytes) ? nullptr : real(bytes, nothrow);
}

extern "C" {

void* malloc(size_t bytes) noexcept {
  static const auto real = next_function<void*(size_t)>("malloc");
  return by_function(bytes, [&] { return real(bytes); });
}

void* calloc(size_t count, size_t bytes) noexcept {
  static const auto real = next_function<void*(size_t, size_t)>("calloc");
  return by_function(count * bytes, [&] { return real(count, bytes); });
}

void* realloc(void* memory, size_t bytes) noexcept {
  static const auto real = next_function<void*(void*, size_t)>("realloc");
  return by_function(bytes, [&] { return real(memory, bytes); });
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  static const auto real = next_function<int(void**, size_t, size_t)>("posix_memalign");
  return fails(bytes) ? ENOMEM : real(memory, alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  static const auto real = next_function<void*(size_t, size_t)>("aligned_alloc");
  return by_function(bytes, [&] { return real(alignment, bytes); });
}

}  // extern "C"
