#pragma once

#include <cstdint>
#include <span>

namespace autopar::search {

/// What a weight adds to the limit of a rank's weights under `fair`: 1.25/N of its bytes, or what
/// each of `devices` needs at `least` however it is split.
std::int64_t fair_share(std::int64_t bytes, int devices, std::int64_t least);

/// The limit of a rank's weights under `--memory fair`: the sum of their shares. Pins leave it as
/// it is where what they leave can be kept within it, so that a plan whose places are imposed on a
/// search has the limit under which it was found. Where nothing can, what they force beyond the
/// shares is added.
class FairLimit {
 public:
  explicit FairLimit(int devices) : devices_(devices) {}

  /// A weight of so many bytes. `possible` are those of a rank by the way in which it may lie,
  /// `left` those of the ways that pins leave.
  void add(std::int64_t bytes, std::span<const std::int64_t> possible,
           std::span<const std::int64_t> left);
  std::int64_t bytes() const;

 private:
  int devices_;
  std::int64_t shares_ = 0;
  std::int64_t least_ = 0;   ///< of what pins leave
  std::int64_t forced_ = 0;  ///< beyond the shares, less what pins leave of other shares
};

}  // namespace autopar::search
