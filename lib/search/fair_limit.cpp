#include "search/fair_limit.h"

#include <algorithm>

namespace autopar::search {

std::int64_t fair_share(std::int64_t bytes, int devices, std::int64_t least) {
  return std::max(bytes * 5 / 4 / devices, least);
}

void FairLimit::add(std::int64_t bytes, std::span<const std::int64_t> possible,
                    std::span<const std::int64_t> left) {
  const std::int64_t share = fair_share(bytes, devices_, std::ranges::min(possible));
  const std::int64_t least = std::ranges::min(left);
  shares_ += share;
  least_ += least;
  const bool is_pinned = left.size() < possible.size() || least != std::ranges::min(possible);
  if (is_pinned) forced_ += std::clamp(share, least, std::ranges::max(left)) - share;
}

std::int64_t FairLimit::bytes() const {
  return least_ <= shares_ ? shares_ : shares_ + std::max<std::int64_t>(forced_, 0);
}

}  // namespace autopar::search
