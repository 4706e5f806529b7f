#pragma once

#include <array>
#include <cstddef>
#include <new>

namespace autopar {

/// Memory that was asked for and is not there. Nothing is allocated to make it.
class OutOfMemory : public std::bad_alloc {
 public:
  /// `free`: what there is, and `of` what it is of; without them the allocator has refused.
  explicit OutOfMemory(std::size_t wanted) noexcept;
  OutOfMemory(std::size_t wanted, std::size_t free, const char* of) noexcept;
  /// A library did not get what it wanted, and does not say how much: "oneDNN".
  explicit OutOfMemory(const char* library) noexcept;

  /// What the last one on this thread says; empty where there was none.
  static const char* last() noexcept;

  const char* what() const noexcept override { return text_.data(); }

 private:
  std::array<char, 256> text_{};
};

/// For where no exception may pass: writes one line of error and ends the process with exit code 1.
/// It may be called by a signal's handler, and takes no memory.
[[noreturn]] void end_with_error(const char* what) noexcept;

/// While one lives, memory that is refused to this thread ends the process (operator_new.cpp). For
/// calls of libraries that would swallow the exception and go on with half of what they need.
class VitalMemory {
 public:
  VitalMemory();
  ~VitalMemory();
  VitalMemory(const VitalMemory&) = delete;
  VitalMemory& operator=(const VitalMemory&) = delete;

  static bool is_asked_for();
};

/// Lives while this thread calls a library that does not look at whether it got the memory that it
/// asked for. The program takes a bad access in it for a lack of memory (apps/autopar).
class FragileCall {
 public:
  FragileCall();
  ~FragileCall();
  FragileCall(const FragileCall&) = delete;
  FragileCall& operator=(const FragileCall&) = delete;

  static bool is_under_way();
};

}  // namespace autopar
