#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace autopar::runtime {

using SteadyTime = std::chrono::steady_clock::time_point;

/// What a rank tells the others of itself, now and then. One that hangs, or is stopped, tells
/// nothing.
enum class Sign : std::uint8_t {
  works,  ///< it has done some of its work since the last sign
  waits,  ///< it waits for others
  leaves  ///< it needs no other rank any more
};

/// How often a rank tells that it works or waits, where ranks wait `timeout` for each other.
std::chrono::milliseconds sign_interval(std::chrono::milliseconds timeout);

/// What is known of the ranks of a world; any thread may write and read it.
class SignsOfLife {
 public:
  explicit SignsOfLife(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  void hear(int rank, Sign sign, SteadyTime when) noexcept;
  /// A rank is heard from now on. Where none has begun, as in worlds whose ranks are all connected
  /// from the start, all are.
  void begin(int rank, SteadyTime when) noexcept;
  /// Whether silence of a rank says anything.
  bool is_heard(int rank) const { return !has_begun_ || at(rank).is_heard; }
  int size() const { return static_cast<int>(ranks_.size()); }
  SteadyTime last(int rank) const { return at(rank).last; }
  SteadyTime last_work(int rank) const { return at(rank).last_work; }
  bool has_left(int rank) const { return at(rank).has_left; }

 private:
  struct OfRank {
    std::atomic<SteadyTime> last{};
    std::atomic<SteadyTime> last_work{};
    std::atomic<bool> has_left{false};
    std::atomic<bool> is_heard{false};
  };
  const OfRank& at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }

  std::atomic<bool> has_begun_{false};
  std::vector<OfRank> ranks_;
};

/// One wait of a rank for others: how long it lasts and who is to blame that it was in vain. Ranks
/// are the world's.
class Vigil {
 public:
  /// How the wait looks at ranks that have left: they do not come, or nothing else is expected.
  enum class Leavers { are_missed, are_well };

  Vigil(const SignsOfLife& signs, int self, std::chrono::milliseconds timeout, SteadyTime now,
        Leavers leavers = Leavers::are_missed)
      : signs_(signs),
        self_(self),
        timeout_(timeout),
        leavers_(leavers),
        since_(now),
        next_look_(now + sign_interval(timeout)) {}

  /// When to look next.
  SteadyTime next_look() const { return next_look_; }
  /// Whether the others should know that this rank waits.
  bool is_long(SteadyTime now) const { return now - since_ >= sign_interval(timeout_); }

  /// To be called at next_look() or soon after it. Empty: go on waiting for the `missing` ranks.
  /// Else who is to blame: missing ranks that gave no sign for the timeout; where all missing ones
  /// wait themselves, and nobody works, other ranks that gave none, or, after two timeouts, those
  /// that are missing. A look that comes very late counts for nothing, since this rank was stopped
  /// meanwhile, and could not hear the others.
  std::vector<int> to_blame(const std::vector<int>& missing, SteadyTime now);

  /// "rank 0: barrier waited 5000 ms for rank(s) 2; they did not come"
  std::string absence(const char* what, const std::vector<int>& blamed, SteadyTime now) const;

 private:
  bool is_silent(int rank, SteadyTime now) const;

  const SignsOfLife& signs_;
  int self_;
  std::chrono::milliseconds timeout_;
  Leavers leavers_;
  SteadyTime since_;
  SteadyTime next_look_;
};

}  // namespace autopar::runtime
