#include "sharding/device_mesh.h"

#include <fmt/ranges.h>

#include <charconv>
#include <functional>
#include <numeric>

#include "base/error.h"

namespace autopar::sharding {

DeviceMesh::DeviceMesh(std::vector<int> axis_sizes) : axis_sizes_(std::move(axis_sizes)) {
  if (axis_sizes_.empty()) fail("a mesh needs at least one axis, as in 4 or 2x4");
  std::int64_t devices = 1;
  for (const int size : axis_sizes_) {
    if (size < 1) fail("mesh {}: every axis needs a size of at least 1", to_string(*this));
    devices *= size;
    if (devices > max_devices) {
      fail("mesh {}: no more than {} devices are supported", to_string(*this), max_devices);
    }
  }
  if (axis_sizes_.size() > max_axes) {
    fail("mesh {}: no more than {} axes are supported", to_string(*this), max_axes);
  }
}

DeviceMesh DeviceMesh::parse(std::string_view text) {
  std::vector<int> sizes;
  const char* next = text.data();
  const char* const end = text.data() + text.size();
  while (true) {
    int size = 0;
    const auto [after, error] = std::from_chars(next, end, size);
    if (error != std::errc{} || size < 1) break;
    sizes.push_back(size);
    if (after == end) return DeviceMesh(std::move(sizes));
    if (*after != 'x') break;
    next = after + 1;
  }
  fail("mesh '{}' is not of the form 4 or 2x4", text);
}

int DeviceMesh::num_devices() const {
  return std::accumulate(axis_sizes_.begin(), axis_sizes_.end(), 1, std::multiplies{});
}

std::vector<int> DeviceMesh::coordinates(int rank) const {
  require(rank >= 0 && rank < num_devices(), "a rank lies within its mesh");
  std::vector<int> result(axis_sizes_.size());
  for (std::size_t axis = axis_sizes_.size(); axis-- > 0;) {
    result[axis] = rank % axis_sizes_[axis];
    rank /= axis_sizes_[axis];
  }
  return result;
}

int DeviceMesh::rank(std::span<const int> coordinates) const {
  require(coordinates.size() == axis_sizes_.size(), "coordinates have one entry a mesh axis");
  int result = 0;
  for (std::size_t axis = 0; axis < axis_sizes_.size(); ++axis) {
    require(coordinates[axis] >= 0 && coordinates[axis] < axis_sizes_[axis],
            "coordinates lie within their mesh");
    result = result * axis_sizes_[axis] + coordinates[axis];
  }
  return result;
}

int DeviceMesh::group_size(std::span<const int> axes) const {
  int result = 1;
  for (const int axis : axes) result *= axis_size(axis);
  return result;
}

std::vector<int> DeviceMesh::group(int rank, std::span<const int> axes) const {
  std::vector<int> members;
  std::vector<int> at = coordinates(rank);
  for (int index = 0; index < group_size(axes); ++index) {
    int rest = index;
    for (std::size_t i = axes.size(); i-- > 0;) {
      at[axes[i]] = rest % axis_size(axes[i]);
      rest /= axis_size(axes[i]);
    }
    members.push_back(this->rank(at));
  }
  return members;
}

int DeviceMesh::index_in_group(int rank, std::span<const int> axes) const {
  const std::vector<int> at = coordinates(rank);
  int index = 0;
  for (const int axis : axes) {
    index = index * axis_size(axis) + at[axis];
  }
  return index;
}

std::string to_string(const DeviceMesh& mesh) {
  return fmt::format("{}", fmt::join(mesh.axis_sizes(), "x"));
}

}  // namespace autopar::sharding
