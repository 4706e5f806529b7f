#pragma once

#include "runtime/passes/matcher.h"

namespace autopar::runtime::passes {

/// What the value is, contiguous, where it follows from constants alone, though folding left it to
/// each run, since it is larger than what it is made of. nullopt where it depends on an input,
/// where a constant cannot be read, or where more than `most_bytes` would be made on the way.
std::optional<graph::Tensor> constant_value(const Matcher& matcher, ValueId value,
                                            std::int64_t most_bytes);

}  // namespace autopar::runtime::passes
