#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace autopar::runtime {

/// Memory between two guards, all filled with one byte, that tells what was written.
class GuardedBlock {
 public:
  GuardedBlock(std::int64_t bytes, std::byte fill);
  GuardedBlock(GuardedBlock&&) noexcept = default;

  std::span<std::byte> bytes() const { return {begin_, size_}; }
  std::byte fill() const { return fill_; }
  bool guards_are_whole() const;

 private:
  std::vector<std::byte> memory_;
  std::byte* begin_;  ///< at a multiple of 64
  std::size_t size_;
  std::byte fill_;
};

/// Elements of `element_bytes` bytes each (the last may be shorter) that hold the fill in both
/// blocks, whose fills differ: nobody wrote there.
std::int64_t unwritten_elements(const GuardedBlock& a, const GuardedBlock& b,
                                std::int64_t element_bytes);

}  // namespace autopar::runtime
