#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <stdexcept>
#include <vector>

#include "sharding/connect.h"

/// Arrays of several devices and the collectives on them, as plainly as can be: the reference that
/// the sharding module's bookkeeping is checked against. Shares few lines with it: of the module
/// only `shard_range` and the mesh's groups are used to move data.
namespace autopar::sharding::simulated {

struct Array {
  Shape shape;
  std::vector<double> data;

  friend bool operator==(const Array&, const Array&) = default;
};

inline Array filled(const Shape& shape, const std::function<double()>& next) {
  Array array{shape, {}};
  for (std::int64_t i = 0; i < graph::num_elements(shape); ++i) array.data.push_back(next());
  return array;
}

/// Calls `visit` with every index of the shape, in row-major order.
inline void for_each_index(const Shape& shape, const std::function<void(const Shape&)>& visit) {
  if (graph::num_elements(shape) == 0) return;
  Shape index(shape.size(), 0);
  while (true) {
    visit(index);
    std::size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

inline std::size_t offset(const Shape& shape, const Shape& index) {
  std::int64_t result = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) result = result * shape[d] + index[d];
  return static_cast<std::size_t>(result);
}

inline double at(const Array& array, const Shape& index) {
  return array.data.at(offset(array.shape, index));
}

inline Array cut(const Array& array, const std::vector<Range>& ranges) {
  Shape shape;
  for (const Range& range : ranges) shape.push_back(range.size());
  Array result{shape, {}};
  for_each_index(shape, [&](Shape index) {
    for (std::size_t d = 0; d < index.size(); ++d) index[d] += ranges[d].begin;
    result.data.push_back(at(array, index));
  });
  return result;
}

inline Array cut(const Array& array, int dim, Range range) {
  std::vector<Range> ranges;
  for (const std::int64_t extent : array.shape) ranges.push_back({0, extent});
  ranges[static_cast<std::size_t>(dim)] = range;
  return cut(array, ranges);
}

inline Array joined(const std::vector<Array>& pieces, int dim) {
  const auto d = static_cast<std::size_t>(dim);
  Shape shape = pieces.front().shape;
  shape[d] = 0;
  for (const Array& piece : pieces) shape[d] += piece.shape[d];
  Array result{shape, {}};
  for_each_index(shape, [&](Shape index) {
    std::size_t piece = 0;
    while (index[d] >= pieces[piece].shape[d]) index[d] -= pieces[piece++].shape[d];
    result.data.push_back(at(pieces[piece], index));
  });
  return result;
}

inline Array reduced(const std::vector<Array>& parts, Reduce reduce) {
  Array result = parts.front();
  for (std::size_t p = 1; p < parts.size(); ++p) {
    if (parts[p].shape != result.shape) throw std::logic_error("parts of different shapes");
    for (std::size_t i = 0; i < result.data.size(); ++i) {
      double& value = result.data[i];
      const double other = parts[p].data[i];
      if (reduce == Reduce::max) {
        value = std::max(value, other);
      } else if (reduce == Reduce::min) {
        value = std::min(value, other);
      } else {
        value += other;
      }
    }
  }
  if (reduce == Reduce::mean) {
    for (double& value : result.data) value /= static_cast<double>(parts.size());
  }
  return result;
}

/// One array a rank.
using Devices = std::vector<Array>;

/// Share of a local extent that the device has when the axes split it one after the other.
inline Range nested_share(std::int64_t extent, const std::vector<int>& axes, const DeviceMesh& mesh,
                          int rank) {
  Range range{0, extent};
  for (const int axis : axes) {
    const int coordinate = mesh.coordinates(rank)[static_cast<std::size_t>(axis)];
    const Range share = shard_range(range.size(), mesh.axis_size(axis), coordinate);
    range = {range.begin + share.begin, range.begin + share.end};
  }
  return range;
}

/// What every rank holds after the step, from what the ranks of its group held before.
inline Devices after_step(const ReshardStep& step, const Devices& before, const DeviceMesh& mesh) {
  Devices after;
  for (int rank = 0; rank < mesh.num_devices(); ++rank) {
    std::vector<Array> group;
    for (const int member : mesh.group(rank, step.mesh_axes)) {
      group.push_back(before[static_cast<std::size_t>(member)]);
    }
    const auto share_of = [&](const Array& array, int dim) {
      const std::int64_t extent = array.shape[static_cast<std::size_t>(dim)];
      return cut(array, dim, nested_share(extent, step.mesh_axes, mesh, rank));
    };
    switch (step.kind) {
      case StepKind::slice:
        after.push_back(share_of(before[static_cast<std::size_t>(rank)], step.dim));
        break;
      case StepKind::all_reduce:
        after.push_back(reduced(group, step.reduce));
        break;
      case StepKind::all_gather:
        after.push_back(joined(group, step.dim));
        break;
      case StepKind::reduce_scatter:
        after.push_back(share_of(reduced(group, step.reduce), step.dim));
        break;
      case StepKind::all_to_all: {
        std::vector<Array> received;
        for (const Array& member : group) received.push_back(share_of(member, step.split_dim));
        after.push_back(joined(received, step.dim));
        break;
      }
    }
  }
  return after;
}

/// A tensor in a spec: the parts of partial values are random, their reduction is the tensor.
struct Distributed {
  Array whole;
  Devices devices;
};

inline Distributed distribute(const Shape& shape, const TensorShardSpec& spec,
                              const DeviceMesh& mesh, std::mt19937& random) {
  std::uniform_int_distribution<int> value(-9, 9);
  // Multiples of a number that every group size divides keep means exact.
  const auto next = [&] { return 24.0 * value(random); };
  std::vector<Array> parts;
  for (int i = 0; i < mesh.group_size(spec.partial); ++i) parts.push_back(filled(shape, next));
  Distributed result{reduced(parts, spec.reduce), {}};
  for (int rank = 0; rank < mesh.num_devices(); ++rank) {
    const auto part = static_cast<std::size_t>(mesh.index_in_group(rank, spec.partial));
    result.devices.push_back(cut(parts[part], local_ranges(spec, shape, mesh, rank)));
  }
  return result;
}

/// Whether the ranks hold the tensor as the spec says.
inline bool holds(const Devices& devices, const Array& whole, const TensorShardSpec& spec,
                  const DeviceMesh& mesh) {
  for (int rank = 0; rank < mesh.num_devices(); ++rank) {
    std::vector<Array> parts;
    for (const int member : mesh.group(rank, spec.partial)) {
      parts.push_back(devices[static_cast<std::size_t>(member)]);
    }
    if (reduced(parts, spec.reduce) != cut(whole, local_ranges(spec, whole.shape, mesh, rank))) {
      return false;
    }
  }
  return true;
}

}  // namespace autopar::sharding::simulated
