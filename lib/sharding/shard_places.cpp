#include "sharding/shard_places.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace autopar::sharding {
namespace {

/// The axes along which the share changes, the one of the longest stride first.
std::vector<int> axes_of_dimension(const ShardPlaces& places, std::size_t dim,
                                   const DeviceMesh& mesh) {
  std::vector<std::pair<int, int>> by_stride;
  for (int axis = 0; axis < mesh.num_axes(); ++axis) {
    if (mesh.axis_size(axis) == 1) continue;
    std::vector<int> next(static_cast<std::size_t>(mesh.num_axes()), 0);
    next[static_cast<std::size_t>(axis)] = 1;
    const int stride = places.shares[static_cast<std::size_t>(mesh.rank(next))][dim];
    if (stride > 0) by_stride.emplace_back(-stride, axis);
  }
  std::ranges::sort(by_stride);
  std::vector<int> axes;
  for (const auto& [stride, axis] : by_stride) axes.push_back(axis);
  return axes;
}

}  // namespace

ShardPlaces shard_places(const TensorShardSpec& spec, const DeviceMesh& mesh) {
  ShardPlaces places;
  for (const std::vector<int>& axes : spec.dims) places.shards.push_back(mesh.group_size(axes));
  for (int rank = 0; rank < mesh.num_devices(); ++rank) {
    std::vector<int>& shares = places.shares.emplace_back();
    for (const std::vector<int>& axes : spec.dims)
      shares.push_back(mesh.index_in_group(rank, axes));
  }
  return places;
}

std::optional<TensorShardSpec> spec_with_places(const ShardPlaces& places, const DeviceMesh& mesh) {
  require(places.shares.size() == static_cast<std::size_t>(mesh.num_devices()),
          "every rank has its place");
  TensorShardSpec spec;
  std::vector<int> used;
  for (std::size_t dim = 0; dim < places.shards.size(); ++dim) {
    spec.dims.push_back(axes_of_dimension(places, dim, mesh));
    used.insert(used.end(), spec.dims.back().begin(), spec.dims.back().end());
  }
  std::ranges::sort(used);
  if (std::ranges::adjacent_find(used) != used.end()) return std::nullopt;
  // The strides are looked at near rank 0 alone: whether they hold everywhere, the spec tells.
  if (shard_places(spec, mesh) != places) return std::nullopt;
  return spec;
}

}  // namespace autopar::sharding
