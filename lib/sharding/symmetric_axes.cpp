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
    for (const int axis : axes) {
      auto& [group, next] = *left_.find(symmetric_[axis]);
      taken.push_back(next[used_[group]++]);
    }
    std::ranges::sort(taken);
    return taken;
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
