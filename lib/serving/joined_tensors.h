#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/tensor.h"

/// Tensors one behind the other along a dimension.
namespace autopar::serving {

/// All of one type, and of one shape but for the dimension.
graph::Tensor joined(std::span<const graph::Tensor* const> parts, int dim);

/// Views of a tensor's parts along the dimension, in the proportion of `rows`; nullopt where its
/// extent is no multiple of their sum.
std::optional<std::vector<graph::Tensor>> parted(const graph::Tensor& whole, int dim,
                                                 std::span<const std::int64_t> rows);

}  // namespace autopar::serving
