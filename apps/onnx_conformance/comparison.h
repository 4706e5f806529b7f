#pragma once

#include <optional>
#include <string>

#include "graph/tensor.h"

namespace autopar::conformance {

/// How ONNX's own runner compares: type and shape are the same, and
/// |expected - found| <= absolute + relative * |expected| for each element, NaN where NaN is
/// expected. bfloat16 may be off by two units in its last place. nullopt where that holds, else
/// what differs.
std::optional<std::string> difference(const graph::Tensor& expected, const graph::Tensor& found,
                                      double relative, double absolute);

}  // namespace autopar::conformance
