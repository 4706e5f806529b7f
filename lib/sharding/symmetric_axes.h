#pragma once

#include <vector>

#include "sharding/tensor_shard_spec.h"

namespace autopar::sharding {

/// By mesh axis the first axis that is symmetric to it: they have one size and like links, so that
/// a plan in which they change places costs the same. Empty: none is.
using SymmetricAxes = std::vector<int>;

/// The same for all specs that differ only in which of symmetric axes they use, and in the order of
/// axes within a dimension: axes are taken by dimension, then for partial values, lowest first.
TensorShardSpec canonical(const TensorShardSpec& spec, const SymmetricAxes& symmetric);

/// Axes in another's place: by mesh axis, the one that it becomes. Empty: all stay.
using AxisNames = std::vector<int>;

/// The renaming of symmetric axes after which the spec uses them in ascending order, read by
/// dimension, then partial values. Specs that differ only in which of symmetric axes they use
/// become one. Unlike in canonical ones, axes within a dimension keep their order.
AxisNames names_by_first_use(const TensorShardSpec& spec, const SymmetricAxes& symmetric);
AxisNames inverse(const AxisNames& names);

/// The orders of axes, within one dimension at a time, that lead to different canonical specs when
/// axes are taken from a dimension's minor end.
std::vector<TensorShardSpec> orders_of(const TensorShardSpec& spec, const SymmetricAxes& symmetric);

}  // namespace autopar::sharding
