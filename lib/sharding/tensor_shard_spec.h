#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/tensor.h"
#include "sharding/device_mesh.h"

namespace autopar::sharding {

using graph::Range;
using graph::Shape;

/// How values of several devices become one.
enum class Reduce { sum, max, min, mean };
std::string_view name_of(Reduce reduce);  ///< "sum", "max", "min", "mean"

/// Where a tensor's elements are: for each dimension the mesh axes that split it, major first, and
/// the axes over which its values are still partial. No axis stands twice.
///
/// Text: one letter group a dimension, `R` or `S` with axis digits, then `+P` with axis digits and,
/// unless it is a sum, the reduction's name: `S0R`, `RS01`, `RR+P0`, `RR+P0max`. A scalar is `.`.
/// parse and to_string are inverse.
struct TensorShardSpec {
  std::vector<std::vector<int>> dims;
  std::vector<int> partial;  ///< ascending
  Reduce reduce = Reduce::sum;

  static TensorShardSpec replicated(std::size_t num_dims);
  /// Throws Error that quotes the text and shows the form.
  static TensorShardSpec parse(std::string_view text);

  bool uses(int axis) const;
  bool is_partial() const { return !partial.empty(); }

  friend auto operator<=>(const TensorShardSpec&, const TensorShardSpec&) = default;
};

std::string to_string(const TensorShardSpec& spec);

/// A mesh axis of size 1 splits nothing, and a collective over it would move nothing.
TensorShardSpec without_idle_axes(TensorShardSpec spec, const DeviceMesh& mesh);

/// Share `index` of `parts` of a dimension: ceil(size/parts) each, the last shares smaller or
/// empty. The one place that says how things are split.
Range shard_range(std::int64_t size, int parts, int index);
/// The share of the device at `coordinates` where several axes split `whole`, one after the other.
Range shard_range(Range whole, std::span<const int> axes, const DeviceMesh& mesh,
                  std::span<const int> coordinates);

/// The part of a global tensor on `rank`, a range a dimension. A dimension that several axes
/// split is split by the first, then each share by the next.
std::vector<Range> local_ranges(const TensorShardSpec& spec, const Shape& shape,
                                const DeviceMesh& mesh, int rank);
Shape local_shape(const TensorShardSpec& spec, const Shape& shape, const DeviceMesh& mesh,
                  int rank);
/// Rank 0's share, which is the largest.
Shape largest_local_shape(const TensorShardSpec& spec, const Shape& shape, const DeviceMesh& mesh);

}  // namespace autopar::sharding
