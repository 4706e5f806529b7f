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

  const char* what() const noexcept override { return text_.data(); }

 private:
  std::array<char, 256> text_{};
};

}  // namespace autopar
