#include "sharding/axis_renamings.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.h"

namespace autopar::sharding {

AxisRenamings::AxisRenamings(SymmetricAxes symmetric) : symmetric_(std::move(symmetric)) {
  std::map<int, std::vector<int>> groups;
  for (std::size_t axis = 0; axis < symmetric_.size(); ++axis)
    groups[symmetric_[axis]].push_back(static_cast<int>(axis));
  for (auto& [first, axes] : groups)
    if (axes.size() > 1) groups_.push_back(std::move(axes));
  AxisNames same(symmetric_.size());
  std::iota(same.begin(), same.end(), 0);
  names_.push_back(same);
  for (const std::vector<int>& group : groups_) {
    std::vector<AxisNames> with_group;
    for (const AxisNames& names : names_) {
      std::vector<int> order = group;
      do {
        AxisNames& more = with_group.emplace_back(names);
        for (std::size_t k = 0; k < group.size(); ++k) more[group[k]] = order[k];
      } while (std::ranges::next_permutation(order).found);
      require(with_group.size() <= std::numeric_limits<Number>::max(), "groups of axes are small");
    }
    names_ = std::move(with_group);
  }
  AxisNames both(same);
  for (const AxisNames& second : names_)
    for (const AxisNames& first : names_) {
      for (std::size_t axis = 0; axis < both.size(); ++axis) both[axis] = second[first[axis]];
      followed_by_.push_back(number_of(both));
    }
}

/// Permutations stand in lexicographic order, so that the number is read from their inversions.
AxisRenamings::Number AxisRenamings::number_of(const AxisNames& names) const {
  std::size_t number = 0;
  for (const std::vector<int>& group : groups_)
    for (std::size_t k = 0; k < group.size(); ++k) {
      std::size_t less = 0;  // of the axes behind
      for (std::size_t m = k + 1; m < group.size(); ++m)
        less += names[group[m]] < names[group[k]] ? 1 : 0;
      number = number * (group.size() - k) + less;
    }
  return static_cast<Number>(number);
}

const std::vector<AxisRenamings::Number>& AxisRenamings::representatives(
    const TensorShardSpec& spec) const {
  std::vector<Use> uses(symmetric_.size(), Use::none);
  for (const std::vector<int>& axes : spec.dims)
    for (const int axis : axes) uses[axis] = Use::ordered;
  for (const int axis : spec.partial) uses[axis] = Use::partial;
  const std::lock_guard lock(mutex_);
  auto& known = representatives_[uses];
  if (!known.empty()) return known;
  for (AxisNames names : names_) {
    for (const std::vector<int>& group : groups_)
      for (const Use use : {Use::none, Use::partial}) {
        std::vector<int> alike;
        for (const int axis : group)
          if (uses[axis] == use) alike.push_back(names[axis]);
        std::ranges::sort(alike);
        auto next = alike.begin();
        for (const int axis : group)
          if (uses[axis] == use) names[axis] = *next++;
      }
    known.push_back(number_of(names));
  }
  return known;
}

}  // namespace autopar::sharding
