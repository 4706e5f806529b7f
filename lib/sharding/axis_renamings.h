#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "sharding/symmetric_axes.h"

namespace autopar::sharding {

/// All renamings of axes within groups of symmetric ones, by number, so that composing two is to
/// look one up. Number 0 leaves all axes as they are. There are as many as the product of the
/// groups' factorials, whose square it takes in memory: for small groups.
class AxisRenamings {
 public:
  using Number = std::uint16_t;

  /// Throws InternalError where there are too many.
  explicit AxisRenamings(SymmetricAxes symmetric);

  const SymmetricAxes& symmetric() const { return symmetric_; }
  std::size_t count() const { return names_.size(); }
  Number number_of(const AxisNames& names) const;
  const AxisNames& names(Number number) const { return names_[number]; }
  Number inverse(Number number) const { return number_of(sharding::inverse(names_[number])); }
  /// By the renaming that is done first, the one of both.
  const Number* followed_by(Number second) const {
    return followed_by_.data() + std::size_t{second} * count();
  }

  /// By renaming, the one that stands for all that make the same of this spec, which uses its axes
  /// in order (names_by_first_use): they differ in axes that it does not use, or has partial
  /// values over. Several threads may ask.
  const std::vector<Number>& representatives(const TensorShardSpec& spec) const;

 private:
  enum class Use : char { none, ordered, partial };

  SymmetricAxes symmetric_;
  std::vector<std::vector<int>> groups_;  ///< of more than one axis, ascending
  std::vector<AxisNames> names_;          ///< by number
  std::vector<Number> followed_by_;       ///< by the second, then the first
  mutable std::mutex mutex_;              ///< of representatives_
  mutable std::map<std::vector<Use>, std::vector<Number>> representatives_;  ///< by axes' uses
};

}  // namespace autopar::sharding
