// The operators that take memory, for programs. mimalloc's own, as Debian compiles it (as C), end
// the program where there is none; these throw what says how much was asked for. The kernel grants
// more than it has and kills who uses it, so a large block is compared with what is free.

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>

#include "base/free_memory.h"
#include "base/out_of_memory.h"

namespace {

constexpr std::size_t large = std::size_t{64} << 20;
constexpr std::size_t least_alignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
/// From here on blocks are taken by the call that tests can make fail (tests/faults).
constexpr std::size_t small = 4096;

[[noreturn]] void refuse(const autopar::OutOfMemory& error) {
  if (autopar::VitalMemory::is_asked_for()) autopar::end_with_error(error.what());
  throw error;
}

void check_free(std::size_t bytes) {
  const autopar::FreeMemory free = autopar::free_memory();
  const auto there_are = static_cast<std::size_t>(free.bytes);
  if (bytes > there_are) refuse(autopar::OutOfMemory(bytes, there_are, free.of));
}

void* take(std::size_t bytes, std::size_t alignment) {
  if (bytes >= large) check_free(bytes);
  if (bytes > std::numeric_limits<std::size_t>::max() - alignment)
    refuse(autopar::OutOfMemory(bytes));
  void* const memory =
      bytes < small && alignment == least_alignment
          ? std::malloc(std::max<std::size_t>(bytes, 1))
          : std::aligned_alloc(alignment, (std::max<std::size_t>(bytes, 1) + alignment - 1) /
                                              alignment * alignment);
  if (memory == nullptr) refuse(autopar::OutOfMemory(bytes));
  return memory;
}

void* take_or_null(std::size_t bytes, std::size_t alignment) noexcept {
  try {
    return take(bytes, alignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::size_t number(std::align_val_t alignment) {
  return std::max(static_cast<std::size_t>(alignment), least_alignment);
}

}  // namespace

void* operator new(std::size_t bytes) { return take(bytes, least_alignment); }
void* operator new[](std::size_t bytes) { return take(bytes, least_alignment); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, number(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, number(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return take_or_null(bytes, least_alignment);
}
void* operator new[](std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return take_or_null(bytes, least_alignment);
}
void* operator new(std::size_t bytes, std::align_val_t alignment,
                   const std::nothrow_t& /*tag*/) noexcept {
  return take_or_null(bytes, number(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment,
                     const std::nothrow_t& /*tag*/) noexcept {
  return take_or_null(bytes, number(alignment));
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t /*bytes*/,
                       std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t& /*tag*/) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t& /*tag*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/,
                     const std::nothrow_t& /*tag*/) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t /*alignment*/,
                       const std::nothrow_t& /*tag*/) noexcept {
  std::free(memory);
}
