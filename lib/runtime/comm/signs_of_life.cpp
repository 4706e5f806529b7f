#include "runtime/comm/signs_of_life.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace autopar::runtime {
namespace {

/// A busy machine wakes who waits so late, but not later.
constexpr auto late_at_most = std::chrono::milliseconds(250);

}  // namespace

std::chrono::milliseconds sign_interval(std::chrono::milliseconds timeout) {
  using std::chrono::milliseconds;
  // Rare enough to cost nothing, and often enough that a busy machine delays none for too long.
  return std::clamp(timeout / 8, milliseconds(1), milliseconds(5000));
}

void SignsOfLife::hear(int rank, Sign sign, SteadyTime when) noexcept {
  OfRank& of_rank = ranks_[static_cast<std::size_t>(rank)];
  of_rank.last = when;
  if (sign == Sign::works) of_rank.last_work = when;
  if (sign == Sign::leaves) of_rank.has_left = true;
}

void SignsOfLife::begin(int rank, SteadyTime when) noexcept {
  OfRank& of_rank = ranks_[static_cast<std::size_t>(rank)];
  of_rank.last = when;
  of_rank.is_heard = true;
  has_begun_ = true;
}

bool Vigil::is_silent(int rank, SteadyTime now) const {
  return now - std::max(since_, signs_.last(rank)) >= timeout_;
}

std::vector<int> Vigil::to_blame(const std::vector<int>& missing, SteadyTime now) {
  const bool was_away = now - next_look_ >= std::max(timeout_ / 4, late_at_most);
  if (was_away) since_ = now;
  const auto waited = now - since_;
  next_look_ = now + sign_interval(timeout_);
  for (const int rank : missing) {
    const SteadyTime silent_at = std::max(since_, signs_.last(rank)) + timeout_;
    if (silent_at > now) next_look_ = std::min(next_look_, silent_at);
  }
  if (waited < timeout_) return {};

  std::vector<int> blamed;
  for (const int rank : missing) {
    const bool is_missed = leavers_ == Leavers::are_missed && signs_.has_left(rank);
    if (is_silent(rank, now) || is_missed) blamed.push_back(rank);
  }
  if (!blamed.empty()) return blamed;

  for (int rank = 0; rank < signs_.size(); ++rank) {
    if (rank == self_ || signs_.has_left(rank) || !signs_.is_heard(rank)) continue;
    if (now - signs_.last_work(rank) < timeout_) return {};
    if (is_silent(rank, now)) blamed.push_back(rank);
  }
  if (!blamed.empty()) return blamed;
  return waited >= 2 * timeout_ ? missing : std::vector<int>();
}

std::string Vigil::absence(const char* what, const std::vector<int>& blamed, SteadyTime now) const {
  const auto waited = now - since_ >= 2 * timeout_ ? 2 * timeout_ : timeout_;
  return fmt::format("rank {}: {} waited {} ms for rank(s) {}; they did not come", self_, what,
                     waited.count(), fmt::join(blamed, ", "));
}

}  // namespace autopar::runtime
