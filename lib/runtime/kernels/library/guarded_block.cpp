#include "runtime/kernels/library/guarded_block.h"

#include <algorithm>

#include "base/error.h"

namespace autopar::runtime {
namespace {

constexpr std::size_t alignment = 64;
constexpr std::int64_t least_guard_bytes = 1 << 12;
constexpr std::int64_t most_guard_bytes = 1 << 26;

/// A loop that is wrong by a factor is seen, not only one that is wrong by an element.
std::size_t guard_bytes(std::int64_t bytes) {
  const std::int64_t guard = std::clamp(bytes, least_guard_bytes, most_guard_bytes);
  return static_cast<std::size_t>(guard) / alignment * alignment;
}

}  // namespace

GuardedBlock::GuardedBlock(std::int64_t bytes, std::byte fill)
    : memory_(2 * guard_bytes(bytes) + alignment + static_cast<std::size_t>(bytes), fill),
      size_(static_cast<std::size_t>(bytes)),
      fill_(fill) {
  std::byte* const after_guard = memory_.data() + guard_bytes(bytes);
  const auto beyond = reinterpret_cast<std::uintptr_t>(after_guard) % alignment;
  begin_ = after_guard + (alignment - beyond) % alignment;
}

bool GuardedBlock::guards_are_whole() const {
  const auto is_fill = [this](std::byte byte) { return byte == fill_; };
  const std::byte* const end = memory_.data() + memory_.size();
  return std::all_of(memory_.data(), static_cast<const std::byte*>(begin_), is_fill) &&
         std::all_of(static_cast<const std::byte*>(begin_) + size_, end, is_fill);
}

std::int64_t unwritten_elements(const GuardedBlock& a, const GuardedBlock& b,
                                std::int64_t element_bytes) {
  require(a.bytes().size() == b.bytes().size() && a.fill() != b.fill(), "blocks can be compared");
  const auto size = static_cast<std::int64_t>(a.bytes().size());
  const auto is_written = [&](std::int64_t i) {
    const auto at = static_cast<std::size_t>(i);
    return a.bytes()[at] != a.fill() || b.bytes()[at] != b.fill();
  };
  std::int64_t count = 0;
  for (std::int64_t begin = 0; begin < size; begin += element_bytes) {
    const std::int64_t end = std::min(begin + element_bytes, size);
    std::int64_t i = begin;
    while (i < end && !is_written(i)) ++i;
    if (i == end) ++count;
  }
  return count;
}

}  // namespace autopar::runtime
