#pragma once

#include "graph/onnx/import/input_shapes.h"

namespace autopar::graph {

/// What is assumed where nothing binds a dimension.
inline constexpr std::int64_t assumed_batch = 1;
inline constexpr std::int64_t assumed_extent = 128;

/// The symbols and unnamed dimensions of the inputs that nothing binds, in the inputs' order, with
/// extents to assume: 1 for what is probably the batch, 128 for all others; less or more where an
/// input was given that is declared as a sum of one of them.
///
/// The batch is what has "batch" in its name, else what is called `b`, `bs` or `n`, else names that
/// a program made up (they end in a digit: `s77`, `unk__12`) and that stand first in an input of
/// several dimensions; and any unnamed dimension that stands so.
Assumptions assume_the_rest(const ModelInputs& inputs, const BoundInputs& bound);

/// What an unnamed dimension is called: "dimension 1 of 'x'".
std::string name_of_unnamed(const std::string& input, int dimension);

}  // namespace autopar::graph
