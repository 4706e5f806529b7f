#include "sharding/symmetric_axes.h"

#include <algorithm>
#include <map>

namespace autopar::sharding {

namespace {

/// Hands out each group's axes, lowest first.
class AxesInOrder {
 public:
  explicit AxesInOrder(const SymmetricAxes& symmetric) : symmetric_(symmetric) {
    for (std::size_t axis = 0; axis < symmetric.size(); ++axis)
      left_[symmetric[axis]].push_back(static_cast<int>(axis));
  }

  /// Ascending.
  std::vector<int> in_place_of(const std::vector<int>& axes) {
    std::vector<int> taken;
    for (const int axis : axes) taken.push_back(next_in_place_of(axis));
    std::ranges::sort(taken);
    return taken;
  }

  int next_in_place_of(int axis) {
    const int group = symmetric_[axis];
    return left_[group][used_[group]++];
  }

 private:
  const SymmetricAxes& symmetric_;
  std::map<int, std::vector<int>> left_;
  std::map<int, std::size_t> used_;
};

}  // namespace

TensorShardSpec canonical(const TensorShardSpec& spec, const SymmetricAxes& symmetric) {
  AxesInOrder axes(symmetric);
  TensorShardSpec result = spec;
  for (std::vector<int>& dim : result.dims) dim = axes.in_place_of(dim);
  result.partial = axes.in_place_of(spec.partial);
  return result;
}

AxisNames names_by_first_use(const TensorShardSpec& spec, const SymmetricAxes& symmetric) {
  if (symmetric.empty()) return {};
  AxesInOrder axes(symmetric);
  AxisNames names(symmetric.size(), -1);
  const auto name = [&](int axis) {
    if (names[axis] < 0) names[axis] = axes.next_in_place_of(axis);
  };
  for (const std::vector<int>& dim : spec.dims) std::ranges::for_each(dim, name);
  std::ranges::for_each(spec.partial, name);
  for (int axis = 0; axis < std::ssize(symmetric); ++axis) name(axis);
  return names;
}

AxisNames inverse(const AxisNames& names) {
  AxisNames result(names.size());
  for (std::size_t axis = 0; axis < names.size(); ++axis)
    result[names[axis]] = static_cast<int>(axis);
  return result;
}

std::vector<TensorShardSpec> orders_of(const TensorShardSpec& spec,
                                       const SymmetricAxes& symmetric) {
  const auto by_group = [&](int a, int b) { return symmetric[a] < symmetric[b]; };
  std::vector<TensorShardSpec> orders{spec};
  for (std::vector<int>& axes : orders.front().dims) std::ranges::sort(axes, by_group);
  for (std::size_t d = 0; d < spec.dims.size(); ++d) {
    TensorShardSpec other = orders.front();
    while (std::ranges::next_permutation(other.dims[d], by_group).found) orders.push_back(other);
  }
  return orders;
}

}  // namespace autopar::sharding
