#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autopar::sharding {

/// The devices as an n-dimensional array, row-major by rank. Axes are numbered from 0, major first.
class DeviceMesh {
 public:
  static constexpr std::size_t max_axes = 10;  ///< a spec's text has one digit an axis
  static constexpr int max_devices = 1 << 20;

  /// Throws Error for no axis, a size below 1 or a mesh beyond these limits.
  explicit DeviceMesh(std::vector<int> axis_sizes);
  /// "4", "2x4"; throws Error for anything else.
  static DeviceMesh parse(std::string_view text);

  int num_axes() const { return static_cast<int>(axis_sizes_.size()); }
  int axis_size(int axis) const { return axis_sizes_[axis]; }
  const std::vector<int>& axis_sizes() const { return axis_sizes_; }
  int num_devices() const;
  std::vector<int> coordinates(int rank) const;
  int rank(std::span<const int> coordinates) const;

  /// Number of devices along the given axes together.
  int group_size(std::span<const int> axes) const;
  /// The ranks that differ from `rank` only along `axes`, itself included, ordered by their
  /// coordinates on `axes`, first axis major.
  std::vector<int> group(int rank, std::span<const int> axes) const;
  int index_in_group(int rank, std::span<const int> axes) const;

  friend bool operator==(const DeviceMesh&, const DeviceMesh&) = default;

 private:
  std::vector<int> axis_sizes_;
};

std::string to_string(const DeviceMesh& mesh);

}  // namespace autopar::sharding
